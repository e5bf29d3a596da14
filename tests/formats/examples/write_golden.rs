//! Writes the golden file of every case that has none yet. Existing ones are never touched: they stand for
//! what earlier builds wrote.

#![forbid(unsafe_code)]

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for case in cloakwork_tests_formats::all() {
        let golden = root.join(format!("golden/v1/{}.bin", case.name));
        if golden.exists() {
            continue;
        }
        fs::write(&golden, &case.bytes)?;
        println!("{}: {} bytes", golden.display(), case.bytes.len());
    }
    Ok(())
}
