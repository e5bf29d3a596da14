//! Writes the corpus of programs on vectors: pseudorandom programs, the same in every run.

use std::{fs, path::Path};

use cloakwork_tests_programs::RandomVectors;
use prost::Message as _;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/vector_program");
    fs::create_dir_all(&folder)?;
    for (number, set) in (0..12).zip(["TOY_CKKS_45_60_50", "TOY_CKKS_54_60"].into_iter().cycle()) {
        let random = RandomVectors::numbered(number, set, 2 + number as u32 % 4, 6);
        fs::write(folder.join(format!("random_{number}")), random.message.encode_to_vec())?;
    }
    fs::write(folder.join("empty"), [])
}
