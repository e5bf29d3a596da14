//! Stored programs with their results.

use std::{fmt::Write as _, fs, path::PathBuf};

/// Programs on integers, with the phases of their inputs and outputs.
pub const INTEGERS: &str = "golden/programs.txt";

/// Programs on vectors. Their numbers are approximate, so only their shapes are stored.
pub const VECTORS: &str = "golden/vectors.txt";

/// One line of a file: a name, the program's bytes, the phases of its input and output blocks, and
/// the shapes of its outputs.
pub struct Golden {
    /// Names of the operation and of the set.
    pub name: String,
    /// The encoded program.
    pub program: Vec<u8>,
    /// Phases of the input blocks, as fractions of the torus in units of 2^-64.
    pub inputs: Vec<u64>,
    /// Phases of the output blocks.
    pub outputs: Vec<u64>,
    /// Shapes of the outputs. A client refuses a result of another shape.
    pub shapes: String,
}

impl Golden {
    fn parse(line: &str) -> Self {
        let mut fields = line.split(' ');
        let mut next = || fields.next().expect("five fields");
        let (name, program) = (next().to_owned(), next());
        let byte = |place: usize| u8::from_str_radix(&program[place..place + 2], 16).expect("bytes in hexadecimal");
        let program = (0..program.len()).step_by(2).map(byte).collect();
        let phases = |field: &str| -> Vec<u64> {
            let phase = |text| u64::from_str_radix(text, 16).expect("a phase in hexadecimal");
            field.split(',').filter(|text| !text.is_empty()).map(phase).collect()
        };
        let (inputs, outputs) = (phases(next()), phases(next()));
        Self { name, program, inputs, outputs, shapes: next().to_owned() }
    }

    /// Formats the program as a line of the file.
    pub fn line(&self) -> String {
        let hex = self.program.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let phases = |phases: &[u64]| phases.iter().map(|phase| format!("{phase:x}")).collect::<Vec<_>>().join(",");
        let (inputs, outputs) = (phases(&self.inputs), phases(&self.outputs));
        format!("{} {hex} {inputs} {outputs} {}\n", self.name, self.shapes)
    }
}

/// Path of a file of stored programs.
pub fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Reads the stored programs of a file.
pub fn stored(file: &str) -> Vec<Golden> {
    let text = fs::read_to_string(path(file)).expect("a file of this crate");
    text.lines().map(Golden::parse).collect()
}
