//! Functions of a program and their instructions.

mod listing;

use std::{
    io::BufReader,
    path::Path,
    process::{Command, Stdio},
};

pub use listing::functions_in;

/// A function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Demangled name.
    pub name: String,
    /// Counts of its instructions.
    pub counts: Counts,
    /// Whether the function uses a feature of AVX-512: a 512-bit register, one of the upper sixteen
    /// registers, or a mask.
    pub avx512: bool,
}

/// Instruction counts of a function. Padding counts nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All instructions.
    pub instructions: u64,
    /// Instructions with a 512-bit register.
    pub wide: u64,
    /// Instructions with a 512-bit register and an operand on the stack, because registers ran out.
    pub spills: u64,
    /// Instructions of innermost loops that contain an instruction with a 512-bit register.
    pub inner_loops: u64,
}

/// All functions of `program`, in the order of their addresses.
pub fn functions(program: &Path) -> Result<Vec<Function>, String> {
    let mut objdump = Command::new("objdump");
    objdump.args(["--disassemble", "--demangle", "--no-show-raw-insn"]).arg(program).stdout(Stdio::piped());
    let mut running = objdump.spawn().map_err(|error| format!("objdump (of binutils) does not start: {error}"))?;
    let output = running.stdout.take().ok_or("objdump has no output")?;
    let functions = functions_in(BufReader::new(output)).map_err(|error| format!("objdump: {error}"))?;
    let status = running.wait().map_err(|error| format!("objdump: {error}"))?;
    if !status.success() || functions.is_empty() {
        return Err(format!("objdump finds no function in {} ({status})", program.display()));
    }
    Ok(functions)
}
