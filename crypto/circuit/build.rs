//! Compiles the `Program` message of the protocol.

use std::error::Error;

const ROOT: &str = "../../proto";
const FILE: &str = "cloakwork/v1/program.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}/{FILE}");
    prost_build::Config::new().compile_fds(protox::compile([FILE], [ROOT])?)?;
    Ok(())
}
