//! Writes the golden file of every case that has none yet. Existing files are never changed: they
//! record the output of earlier builds.

#![forbid(unsafe_code)]

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_tfhe = cloakwork_tests_formats::all().into_iter().map(|case| (case.name, case.bytes));
    let of_ckks = cloakwork_tests_formats::all_of_ckks().into_iter().map(|case| (case.name, case.bytes));
    for (name, bytes) in of_tfhe.chain(of_ckks) {
        let golden = root.join(format!("golden/v1/{name}.bin"));
        if golden.exists() {
            continue;
        }
        fs::write(&golden, &bytes)?;
        println!("{}: {} bytes", golden.display(), bytes.len());
    }
    Ok(())
}
