//! Construction of programs.

mod gate;

use bytes::Bytes;
use cloakwork_circuit::{
    Goal, LANES_ASSUMED, LIMITS, Program as Checked, ProgramId, RowType, Type,
    wire::{self, operation::Kind},
};
use cloakwork_params::{Encoding, ParameterSet, SetId};
use cloakwork_proto::v1::{CheckRequest, ProgramReport, RegisterRequest};
use prost::Message as _;

use cloakwork_secret::Gate;

use crate::{
    Client, Integer, Result,
    response::required,
    shape::{BlocksShape, Shape},
};

/// A program that has passed the checks that every server makes.
#[derive(Clone, Debug)]
pub struct Program {
    bytes: Bytes,
    checked: Checked,
}

impl Program {
    /// Checks an encoded `cloakwork.v1.Program`.
    pub fn decode(bytes: impl Into<Bytes>) -> Result<Self> {
        let bytes = bytes.into();
        let checked = Checked::decode(&bytes, &LIMITS)?;
        Ok(Self { bytes, checked })
    }

    /// The encoded program, whose digest is its name.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The BLAKE3 of the program's bytes, which is its name.
    pub fn id(&self) -> ProgramId {
        self.checked.id()
    }

    /// The parameter set that the program is written for.
    pub fn set(&self) -> &'static ParameterSet {
        self.checked.set()
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.checked.inputs().len()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.checked.output_types().len()
    }

    /// Type and length of each output in each row.
    pub fn output_types(&self) -> Vec<RowType> {
        self.checked.output_types().collect()
    }

    /// Number of bootstraps for each row, in a job of `rows` rows on a small device.
    pub fn pbs_count(&self, rows: u64) -> u64 {
        self.checked.cost(Goal::of_rows(rows, LANES_ASSUMED)).pbs_count
    }
}

/// A value of a program under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(u32);

/// Builds a program, value by value. [`ProgramBuilder::build`] reports errors.
#[derive(Clone, Debug)]
pub struct ProgramBuilder {
    set: &'static ParameterSet,
    message: wire::Program,
    values: u32,
    /// Length of each output so far.
    output_lengths: Vec<u32>,
}

impl ProgramBuilder {
    /// An empty program for a set.
    pub fn new(set: &'static ParameterSet) -> Self {
        let message = wire::Program { parameter_set: set.name.into(), ..Default::default() };
        Self { set, message, values: 0, output_lengths: Vec::new() }
    }

    /// An input that holds a message, or a bit in boolean sets. Inputs come before all operations.
    pub fn input(&mut self, name: &str) -> Value {
        self.input_up_to(name, 0)
    }

    /// An input of values up to `degree_max`, including carries; 0 stands for the largest message.
    pub fn input_up_to(&mut self, name: &str, degree_max: u32) -> Value {
        let ty = match self.set.encoding {
            Encoding::Shortint { .. } => Type::Block,
            Encoding::Boolean => Type::Bool,
        };
        self.any_input(wire::program::Input { degree_max, ..declared(name, ty) })[0]
    }

    /// An integer or a boolean that is encrypted for the job. A program takes fewer bootstraps on
    /// fresh inputs than on results of other jobs.
    pub fn fresh(&mut self, name: &str, ty: Type) -> Value {
        self.any_input(wire::program::Input { fresh: true, ..declared(name, ty) })[0]
    }

    /// An array of fresh values: returns its elements.
    pub fn fresh_array(&mut self, name: &str, ty: Type, length: usize) -> Vec<Value> {
        self.any_input(wire::program::Input { fresh: true, length: word(length), ..declared(name, ty) })
    }

    /// An integer or a boolean that may be the result of another job, with a noise level of at most
    /// `noise_level_max`; 0 stands for 1.
    pub fn stored(&mut self, name: &str, ty: Type, noise_level_max: u32) -> Value {
        self.any_input(wire::program::Input { noise_level_max, ..declared(name, ty) })[0]
    }

    /// An array of stored values: returns its elements.
    pub fn stored_array(&mut self, name: &str, ty: Type, length: usize, noise_level_max: u32) -> Vec<Value> {
        self.any_input(wire::program::Input { noise_level_max, length: word(length), ..declared(name, ty) })
    }

    fn any_input(&mut self, input: wire::program::Input) -> Vec<Value> {
        // A later input would change the numbers of the operations' results.
        debug_assert!(self.message.operations.is_empty(), "inputs come before all operations");
        let values = input.length.max(1);
        self.message.inputs.push(input);
        self.results(values)
    }

    /// A number in the clear. Operations with a constant operand take fewer bootstraps.
    pub fn constant(&mut self, ty: Type, value: &Integer) -> Value {
        let (r#type, bits) = ty.wire();
        let (kind, value) = (Kind::Constant.into(), value.bytes(ty).to_vec());
        self.push(wire::Operation { kind, r#type: r#type.into(), bits, value, ..Default::default() }, 1)[0]
    }

    /// Converts a value to another type: truncates, or extends with zeros or the sign.
    pub fn cast(&mut self, value: Value, ty: Type) -> Value {
        let (r#type, bits) = ty.wire();
        let (kind, arguments) = (Kind::Cast.into(), vec![value.0]);
        self.push(wire::Operation { kind, arguments, r#type: r#type.into(), bits, ..Default::default() }, 1)[0]
    }

    /// An operation on integers and booleans that returns one value.
    pub fn apply(&mut self, kind: Kind, arguments: &[Value]) -> Value {
        self.operation(kind, arguments, Vec::new(), 1)[0]
    }

    /// `function(x)`, for every value that a block can hold.
    pub fn lookup(&mut self, x: Value, function: impl Fn(u64) -> u64) -> Value {
        let table = (0..self.values_of_a_block()).map(function).collect();
        self.operation(Kind::Lookup, &[x], vec![table], 1)[0]
    }

    /// `function(x, y)`, for messages x and y.
    pub fn bivariate(&mut self, x: Value, y: Value, function: impl Fn(u64, u64) -> u64) -> Value {
        let messages = self.messages();
        let table = (0..self.values_of_a_block()).map(|both| function(both / messages, both % messages)).collect();
        self.operation(Kind::LookupBivariate, &[x, y], vec![table], 1)[0]
    }

    /// Several functions of x in one bootstrap. x must be below the number of a block's values
    /// divided by the number of functions.
    pub fn many(&mut self, x: Value, functions: &[&dyn Fn(u64) -> u64]) -> Vec<Value> {
        let inputs = self.values_of_a_block() / functions.len().max(1) as u64;
        let tables = functions.iter().map(|function| (0..inputs).map(function).collect()).collect();
        self.operation(Kind::LookupMany, &[x], tables, functions.len() as u32)
    }

    /// A boolean gate of two inputs.
    pub fn gate(&mut self, gate: Gate, left: Value, right: Value) -> Value {
        self.operation(gate::kind(gate), &[left, right], Vec::new(), 1)[0]
    }

    /// The negated bit, without a bootstrap.
    pub fn not(&mut self, bit: Value) -> Value {
        self.operation(Kind::Not, &[bit], Vec::new(), 1)[0]
    }

    /// `yes` if `condition` is true, otherwise `no`.
    pub fn mux(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        self.operation(Kind::Mux, &[condition, yes, no], Vec::new(), 1)[0]
    }

    /// Returns a value from the program.
    pub fn output(&mut self, value: Value) {
        self.message.outputs.push(value.0);
        self.output_lengths.push(0);
    }

    /// Returns values of one type from the program, as an array.
    pub fn output_array(&mut self, values: &[Value]) {
        self.message.outputs.extend(values.iter().map(|value| value.0));
        self.output_lengths.push(word(values.len()));
    }

    /// Checks the program as a server does.
    pub fn build(mut self) -> Result<Program> {
        // A program without arrays omits the lengths, and so keeps the encoding and the name that
        // it had before arrays existed.
        if self.output_lengths.iter().any(|length| *length > 0) {
            self.message.output_lengths = self.output_lengths;
        }
        Program::decode(self.message.encode_to_vec())
    }

    /// Number of values that a block holds, including carries.
    pub fn values_of_a_block(&self) -> u64 {
        match self.set.encoding {
            Encoding::Shortint { message_modulus, carry_modulus, .. } => message_modulus * carry_modulus,
            Encoding::Boolean => 2,
        }
    }

    /// Number of messages.
    pub fn messages(&self) -> u64 {
        match self.set.encoding {
            Encoding::Shortint { message_modulus, .. } => message_modulus,
            Encoding::Boolean => 2,
        }
    }

    fn operation(&mut self, kind: Kind, arguments: &[Value], tables: Vec<Vec<u64>>, results: u32) -> Vec<Value> {
        // An entry that does not fit 32 bits exceeds every block, and the check refuses `u32::MAX`
        // as well.
        let entry = |entry| u32::try_from(entry).unwrap_or(u32::MAX);
        let table = |table: Vec<u64>| wire::Table { entries: table.into_iter().map(entry).collect() };
        let operation = wire::Operation {
            kind: kind.into(),
            arguments: arguments.iter().map(|value| value.0).collect(),
            tables: tables.into_iter().map(table).collect(),
            ..Default::default()
        };
        self.push(operation, results)
    }

    fn push(&mut self, operation: wire::Operation, results: u32) -> Vec<Value> {
        self.message.operations.push(operation);
        self.results(results)
    }

    fn results(&mut self, count: u32) -> Vec<Value> {
        let first = self.values;
        self.values += count;
        (first..self.values).map(Value).collect()
    }
}

/// A length as a message's field. A length above 32 bits exceeds the limits, and so does
/// `u32::MAX`.
fn word(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn declared(name: &str, ty: Type) -> wire::program::Input {
    let (r#type, bits) = ty.wire();
    wire::program::Input { name: name.into(), r#type: r#type.into(), bits, ..Default::default() }
}

/// A program of either family.
pub trait AnyProgram {
    /// The encoded program, whose digest is its name.
    fn bytes(&self) -> &Bytes;

    /// Number of the parameter set that the program is written for.
    fn set_id(&self) -> SetId;

    /// For each input, the number of ciphertexts of a row.
    fn input_lengths(&self) -> Vec<usize>;

    /// For each output, the shape of its list. The number of rows depends on the job.
    fn output_shapes(&self) -> Vec<Shape>;
}

impl AnyProgram for Program {
    fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn set_id(&self) -> SetId {
        self.set().id
    }

    fn input_lengths(&self) -> Vec<usize> {
        self.checked.inputs().iter().map(|input| input.row.blocks()).collect()
    }

    fn output_shapes(&self) -> Vec<Shape> {
        let blocks = |degrees: Vec<u32>| BlocksShape { set: self.set(), degrees: degrees.into(), rows: None };
        self.checked.output_degrees().map(|degrees| Shape::Blocks(blocks(degrees))).collect()
    }
}

impl Client {
    /// Stores a program on the server, so that jobs can name it.
    pub async fn register_program(&self, program: &impl AnyProgram) -> Result<ProgramReport> {
        let request = RegisterRequest { program: program.bytes().clone() };
        let send = |client: Self, request| async move { client.programs().register(request).await };
        required(self.call(request, send).await?.report, "report")
    }

    /// The server's report on a program: bootstraps, depth, and time on each pool.
    pub async fn check_program(&self, program: &impl AnyProgram) -> Result<ProgramReport> {
        let request = CheckRequest { program: program.bytes().clone() };
        let send = |client: Self, request| async move { client.programs().check(request).await };
        required(self.call(request, send).await?.report, "report")
    }
}

#[cfg(test)]
mod tests;
