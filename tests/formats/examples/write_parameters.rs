//! Brings the tables of `docs/parameters.md` up to date.

#![forbid(unsafe_code)]

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/parameters.md");
    let text = fs::read_to_string(&page)?;
    fs::write(&page, cloakwork_tests_formats::parameters::update(&text))
}
