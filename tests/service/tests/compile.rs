//! Programs that take long to compile: a tenant that sends them without pause does not delay other
//! tenants.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use cloakwork_circuit::wire::{self, operation::Kind};
use cloakwork_client::{Program, RetryPolicy};
use cloakwork_tests_service::{Server, Setup};
use prost::Message as _;

const SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

/// A chain of operations on inputs of `bits` bits. Different names make the bytes of the programs
/// differ.
fn program(name: &str, kind: Kind, operations: u32, bits: u32) -> Program {
    let input = |name: &str| wire::program::Input {
        name: name.to_owned(),
        r#type: wire::Type::Uint.into(),
        bits,
        ..Default::default()
    };
    let operation = |index| wire::Operation { kind: kind.into(), arguments: vec![0, 1 + index], ..Default::default() };
    let message = wire::Program {
        parameter_set: SET.to_owned(),
        inputs: vec![input("key"), input(name)],
        operations: (0..operations).map(operation).collect(),
        outputs: vec![1 + operations],
        ..Default::default()
    };
    Program::decode(message.encode_to_vec()).expect("a program")
}

/// The server compiles expensive programs of one tenant all the time, and small programs of another
/// tenant wait for none of them.
///
/// The test counts programs and measures no times, because the time of a compilation depends on
/// other load of the machine.
#[tokio::test(flavor = "multi_thread")]
async fn expensive_programs_of_one_tenant_do_not_delay_small_programs_of_another() {
    const SENDERS: usize = 4;
    const CHECKS: usize = 40;
    /// Largest number of expensive programs that end during all checks. If each check waited for
    /// one, the number would equal that of the checks.
    const EXPENSIVE_MAX: usize = CHECKS / 4;
    // At any time, two of the four expensive programs may wait or run.
    let setup = Setup::default().without_worker().with("limits.tenant_compile_bootstraps", 265_000);
    let server = Server::start(setup).await;
    let expensive = server.client_with(&server.token("expensive", "jobs,read")).await.retry_policy(RetryPolicy::NEVER);
    let small = server.client_with(&server.token("small", "jobs,read")).await.retry_policy(RetryPolicy::NEVER);

    let is_over = Arc::<AtomicBool>::default();
    let [done, refused] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let send = |sender: usize| {
        let (expensive, is_over, done, refused) = (expensive.clone(), is_over.clone(), done.clone(), refused.clone());
        tokio::spawn(async move {
            for number in 0.. {
                if is_over.load(SeqCst) {
                    return;
                }
                let program = program(&format!("{sender}:{number}"), Kind::Aes128Encrypt, 14, 128);
                match expensive.check_program(&program).await {
                    Ok(_) => _ = done.fetch_add(1, SeqCst),
                    Err(error) => {
                        let refusal = error.refusal().expect("a refusal");
                        assert_eq!(refusal.reason, "OVERLOADED", "{error}");
                        refused.fetch_add(1, SeqCst);
                        tokio::time::sleep(refusal.retry_after.expect("a delay")).await;
                    }
                }
            }
        })
    };
    let senders: Vec<_> = (0..SENDERS).map(send).collect();
    // The load has reached its full level once a program was compiled and another refused.
    while done.load(SeqCst) == 0 || refused.load(SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let before = done.load(SeqCst);
    let mut times = Vec::new();
    for number in 0..CHECKS {
        // The program has 800 bootstraps. The check waits for its turn like all programs, but in
        // the queue of cheap programs.
        let program = program(&number.to_string(), Kind::Multiply, 1, 32);
        let began = Instant::now();
        small.check_program(&program).await.expect("a small program");
        times.push(began.elapsed());
    }
    let during = done.load(SeqCst) - before;
    is_over.store(true, SeqCst);
    for sender in senders {
        sender.await.expect("it ended well");
    }
    times.sort();
    let [median, max] = [times.len() / 2, times.len() - 1].map(|place| times[place]);
    println!("{CHECKS} checks: median {median:?}, max {max:?}; {during} expensive programs ended meanwhile");
    println!("of the expensive programs {done:?} were compiled and {refused:?} refused");
    assert!(during <= EXPENSIVE_MAX, "{during} expensive programs ended during {CHECKS} checks");

    // A program that the server knows takes no time, whichever tenant checks it.
    let known = program("0:0", Kind::Aes128Encrypt, 14, 128);
    let began = Instant::now();
    for _ in 0..20 {
        small.check_program(&known).await.expect("a program");
    }
    println!("a known program: {:?} for each check", began.elapsed() / 20);
}
