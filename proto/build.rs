//! Compiles the protocol without `protoc`.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const FILES: &[&str] = &[
    "cloakwork/v1/admin.proto",
    "cloakwork/v1/blob.proto",
    "cloakwork/v1/capability.proto",
    "cloakwork/v1/ciphertext.proto",
    "cloakwork/v1/job.proto",
    "cloakwork/v1/key.proto",
    "cloakwork/v1/program_service.proto",
    "cloakwork/v1/worker.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=cloakwork");
    let descriptors = protox::compile(FILES, ["."])?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin"), descriptors.encode_to_vec())?;
    // Fields of bytes become `Bytes`, so decoding does not copy them out of the received buffer.
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
