//! Stored programs with their results.

use std::{fmt::Write as _, fs, path::PathBuf};

/// One line of the file: a name, the program's bytes, and the phases of its input and output
/// blocks.
pub struct Golden {
    /// Names of the operation and of the set.
    pub name: String,
    /// The encoded program.
    pub program: Vec<u8>,
    /// Phases of the input blocks, as fractions of the torus in units of 2^-64.
    pub inputs: Vec<u64>,
    /// Phases of the output blocks.
    pub outputs: Vec<u64>,
}

impl Golden {
    fn parse(line: &str) -> Self {
        let mut fields = line.split(' ');
        let mut next = || fields.next().expect("four fields");
        let (name, program) = (next().to_owned(), next());
        let byte = |place: usize| u8::from_str_radix(&program[place..place + 2], 16).expect("bytes in hexadecimal");
        let program = (0..program.len()).step_by(2).map(byte).collect();
        let phases = |field: &str| -> Vec<u64> {
            let phase = |text| u64::from_str_radix(text, 16).expect("a phase in hexadecimal");
            field.split(',').filter(|text| !text.is_empty()).map(phase).collect()
        };
        let (inputs, outputs) = (phases(next()), phases(next()));
        Self { name, program, inputs, outputs }
    }

    /// Formats the program as a line of the file.
    pub fn line(&self) -> String {
        let hex = self.program.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let phases = |phases: &[u64]| phases.iter().map(|phase| format!("{phase:x}")).collect::<Vec<_>>().join(",");
        format!("{} {hex} {} {}\n", self.name, phases(&self.inputs), phases(&self.outputs))
    }
}

/// Path of the file.
pub fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/programs.txt")
}

/// Reads all stored programs.
pub fn stored() -> Vec<Golden> {
    let text = fs::read_to_string(file()).expect("a file of this crate");
    text.lines().map(Golden::parse).collect()
}
