//! Our side: a server process as it ships, with its own worker, and jobs over the network.

use cloakwork_client::{
    Client, Encrypted, Integer, JobRequest, Keys, Kind, Program, ProgramBuilder, Progress, Type, Value, set_by_name,
};
use cloakwork_secret::ClientKey;
use cloakwork_tests_service::{Server, Setup};
use peer_tfhe::{
    SecretKey,
    integer::{Clear, Computation, Operand, Operation},
};
use tempfile::TempDir;
use tokio::{runtime::Runtime, task::JoinSet};

/// A server, and a client with a key.
pub struct Ours {
    runtime: Runtime,
    client: Client,
    keys: Keys,
    key: String,
    /// Directory of the client's keys.
    directory: TempDir,
    /// The server process, which ends when it is dropped.
    _server: Server,
}

/// Cost of a computation.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Number of bootstraps.
    pub pbs_count: u64,
    /// Number of bootstraps on the longest chain.
    pub depth: u32,
}

/// A program with encrypted inputs.
pub struct Prepared<'a> {
    ours: &'a Ours,
    program: Program,
    inputs: Vec<Encrypted>,
    outputs: Vec<Type>,
    jobs: usize,
}

impl Ours {
    /// Starts a server and registers a key of the set.
    pub fn start(set: &str) -> Self {
        // One thread, because the client's computation takes time from the service that it
        // measures.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let directory = tempfile::tempdir().expect("a directory");
        let (server, client, keys, key) = runtime.block_on(async {
            let server = Server::start(Setup::of_benchmark()).await;
            let client = server.client().await;
            let set = set_by_name(set).expect("a set");
            let keys = Keys::generate_in(directory.path().join("keys"), set, None, Progress::none());
            let keys = keys.await.expect("keys");
            let key = client.push_key(&keys, &Progress::none()).await.expect("the key is taken");
            (server, client, keys, key.name)
        });
        Self { runtime, client, keys, key, directory, _server: server }
    }

    /// The client's secret key, for tfhe-rs.
    pub fn secret_key(&self) -> SecretKey {
        let file = self.directory.path().join("keys").join("client.key");
        let client = ClientKey::load(&file, None).expect("the key was just made");
        let small = client.small(self.keys.set()).expect("the key is of the set");
        SecretKey { big: client.big().bits().to_vec(), small: small.bits().to_vec() }
    }

    /// Builds the program and encrypts its inputs.
    pub fn prepare(&self, computation: &Computation, jobs: usize) -> Prepared<'_> {
        let program = program(self.keys.set(), computation);
        let encrypt = |input: &Clear| {
            self.keys.encrypt_integers(&[integer(*input)], ty(*input, computation.bits)).expect("a value of its type")
        };
        let inputs = computation.inputs.iter().map(encrypt).collect();
        Prepared {
            ours: self,
            outputs: program.output_types().into_iter().map(|row| row.ty).collect(),
            program,
            inputs,
            jobs,
        }
    }
}

impl Prepared<'_> {
    /// Runs the jobs concurrently and waits for their outputs.
    pub fn run(&self) -> Vec<Vec<Encrypted>> {
        self.ours.runtime.block_on(async {
            let mut jobs = JoinSet::new();
            for _ in 0..self.jobs {
                let mut request = JobRequest::new(self.program.clone(), &self.ours.key);
                for input in &self.inputs {
                    request = request.encrypted(input.clone());
                }
                let (client, outputs) = (self.ours.client.clone(), self.outputs.len());
                jobs.spawn(async move {
                    let finished = client.run(&request).await.expect("the job succeeds");
                    let mut lists = Vec::with_capacity(outputs);
                    for index in 0..outputs {
                        let output = finished.output(index).expect("as many outputs as the program has");
                        lists.push(client.output(&output).await.expect("its bytes"));
                    }
                    lists
                });
            }
            jobs.join_all().await
        })
    }

    /// Runs the jobs once and compares their outputs.
    pub fn check(&self, expected: &[Clear]) {
        for lists in self.run() {
            for ((list, ty), expected) in lists.iter().zip(&self.outputs).zip(expected) {
                let values = self.ours.keys.decrypt_integers(list, *ty).expect("a readable output");
                assert_eq!(values[0].display(*ty), integer(*expected).display(*ty), "our result is wrong");
            }
        }
    }

    /// The cost that the server states for the program.
    pub fn cost(&self) -> Cost {
        let report = self.ours.runtime.block_on(self.ours.client.check_program(&self.program));
        let report = report.expect("the program is taken");
        Cost { pbs_count: report.pbs_count, depth: report.depth }
    }
}

fn ty(value: Clear, bits: u32) -> Type {
    match value {
        Clear::Number(_) | Clear::CipherKey(_) => Type::Uint(bits),
        Clear::Bit(_) => Type::Bool,
    }
}

fn integer(value: Clear) -> Integer {
    match value {
        Clear::Number(number) | Clear::CipherKey(number) => Integer::from(number),
        Clear::Bit(bit) => Integer::from(u128::from(bit)),
    }
}

/// Converts a computation to a program with fresh inputs.
fn program(set: &'static cloakwork_client::params::ParameterSet, computation: &Computation) -> Program {
    let mut builder = ProgramBuilder::new(set);
    let input = |(index, input): (usize, &Clear)| builder.fresh(&format!("input{index}"), ty(*input, computation.bits));
    let inputs: Vec<Value> = computation.inputs.iter().enumerate().map(input).collect();
    let mut results: Vec<Value> = Vec::with_capacity(computation.steps.len());
    for step in &computation.steps {
        let mut value = |operand: &Operand| match *operand {
            Operand::Input(index) => inputs[index],
            Operand::Step(index) => results[index],
            Operand::Clear(number) => builder.constant(Type::Uint(computation.bits), &Integer::from(number)),
        };
        let operands: Vec<Value> = step.operands.iter().map(&mut value).collect();
        results.push(builder.apply(kind(step.operation), &operands));
    }
    computation.outputs.iter().for_each(|&step| builder.output(results[step]));
    builder.build().expect("a program of ours")
}

fn kind(operation: Operation) -> Kind {
    match operation {
        Operation::Add => Kind::Add,
        Operation::Subtract => Kind::Subtract,
        Operation::Multiply => Kind::Multiply,
        Operation::Divide => Kind::Divide,
        Operation::Xor => Kind::Xor,
        Operation::Equal => Kind::Equal,
        Operation::Greater => Kind::Greater,
        Operation::GreaterOrEqual => Kind::GreaterOrEqual,
        Operation::Min => Kind::Min,
        Operation::ShiftLeft => Kind::ShiftLeft,
        Operation::Select => Kind::Mux,
        Operation::Aes128 => Kind::Aes128Encrypt,
    }
}
