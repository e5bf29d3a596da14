//! Stored and random programs through a server, encrypted: the results equal those in the clear.
//!
//! With `CLOAKWORK_TEST_ALL`, stored programs run under the sets that they were stored for, and
//! there are many random programs.

use cloakwork_circuit::{ProgramError, wire};
use cloakwork_client::{ClientError, JobRequest, Program};
use cloakwork_tests_programs::{
    RandomProgram,
    golden::{INTEGERS, stored},
    mask,
};
use cloakwork_tests_service::{Server, Setup, TOY, Tenant};
use prost::Message as _;

const SHORTINT: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

fn is_all() -> bool {
    std::env::var_os("CLOAKWORK_TEST_ALL").is_some()
}

/// Moves a program to another set.
fn under(set: &str, program: &[u8]) -> Program {
    let message = wire::Program::decode(program).expect("a program");
    Program::decode(wire::Program { parameter_set: set.to_owned(), ..message }.encode_to_vec())
        .expect("it fits the set")
}

/// Runs a program on one row and compares the blocks of its outputs.
async fn check(name: &str, tenant: &Tenant, program: &Program, inputs: &[u64], expected: &[u64]) {
    let checked = cloakwork_circuit::Program::decode(program.bytes(), &cloakwork_circuit::LIMITS).expect("a program");
    let mut request = JobRequest::new(program.clone(), &tenant.key);
    let mut rest = inputs;
    for input in checked.inputs() {
        let own = rest.split_off(..input.row.blocks()).expect("as many blocks as it has");
        request = request.encrypted(tenant.keys.encrypt(own, input.degree_max).expect("they fit"));
    }
    let finished = tenant.client.run(&request).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut got = Vec::new();
    for index in 0..program.outputs() {
        let envelope = tenant.client.output(&finished.output(index).expect("an output")).await.expect("its bytes");
        got.extend_from_slice(&tenant.keys.decrypt(&envelope).expect("our key"));
    }
    assert_eq!(got, expected, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_programs_give_their_stored_results() {
    let (shortint, boolean) = if is_all() { (SHORTINT, "DEFAULT_PARAMETERS") } else { (TOY, "TOY_BOOLEAN") };
    let server = Server::start(Setup::default()).await;
    let integers = Tenant::of_set(server.client().await, shortint).await;
    let gates = Tenant::of_set(server.client().await, boolean).await;
    let programs = stored(INTEGERS);
    for golden in &programs {
        // The value of a block is its phase in steps. A boolean is true in the lower half of the
        // torus.
        let step = integers.keys.set().plaintext_step();
        let (tenant, set, value): (_, _, &dyn Fn(u64) -> u64) = match golden.name.ends_with(SHORTINT) {
            true => (&integers, shortint, &|phase| phase / step),
            false => (&gates, boolean, &|phase| u64::from(phase < 1 << 63)),
        };
        let program = under(set, &golden.program);
        let [inputs, outputs] = [&golden.inputs, &golden.outputs].map(|phases| phases.iter().copied().map(value));
        check(&golden.name, tenant, &program, &inputs.collect::<Vec<_>>(), &outputs.collect::<Vec<_>>()).await;
    }
    assert!(programs.len() > 55, "{}", programs.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn random_programs_give_their_results_in_the_clear() {
    let server = Server::start(Setup::default()).await;
    let plans: &[(&str, u64, usize)] = if is_all() { &[(TOY, 100, 150), (SHORTINT, 4, 40)] } else { &[(TOY, 20, 60)] };
    for &(set, count, operations) in plans {
        let tenant = Tenant::of_set(server.client().await, set).await;
        let mut checked = 0;
        for number in 0..4 * count {
            let random = RandomProgram::numbered(number, set, operations);
            let program = match Program::decode(random.message.encode_to_vec()) {
                Ok(program) => program,
                Err(ClientError::Program(ProgramError::TooManyBootstraps { .. })) => continue,
                Err(error) => panic!("right by construction: {error}"),
            };
            let values = random.run(&[0, u64::MAX, 0x9e37_79b9_7f4a_7c15 ^ number, number]);
            let digits = |values: &[u64]| -> Vec<u64> {
                let digits = values.iter().zip(&random.types).map(|(value, ty)| {
                    let value = value & mask(*ty);
                    (0..ty.blocks()).map(move |place| value >> (2 * place) & 3)
                });
                digits.flatten().collect()
            };
            let inputs = digits(&values[..random.inputs]);
            check(&format!("{set}, number {number}"), &tenant, &program, &inputs, &digits(&values)).await;
            checked += 1;
            if checked == count {
                break;
            }
        }
        assert_eq!(checked, count, "of {set}");
    }
}
