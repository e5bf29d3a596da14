//! Encrypted values with operators, through a server.

use cloakwork_client::{ClientError, Fhe, FheInt16, FheUint8, FheUint64, Keys, Progress, Session, set_by_name};
use cloakwork_tests_service::{Server, Setup, TOY};

async fn session(server: &Server) -> Session {
    let client = server.client().await;
    let keys = Keys::generate(set_by_name(TOY).expect("a set"), Progress::none()).await.expect("keys");
    let key = client.push_key(&keys, &Progress::none()).await.expect("the key is taken");
    Session::new(client, keys, &key.name)
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_compute_what_they_say() -> Result<(), ClientError> {
    let server = Server::start(Setup::default()).await;
    let session = session(&server).await;
    let (x, y): (FheUint64, FheUint64) = (session.encrypt(7)?, session.encrypt(9)?);
    assert_eq!((x.max(&y) * 3 + (&y >> 2) - 1).decrypt().await?, 28);
    assert_eq!(x.decrypt().await?, 7, "what was never computed is decrypted as well");
    assert_eq!(session.constant(5_u8).decrypt().await?, 5);
    let z: FheInt16 = session.encrypt(-300)?;
    assert_eq!((&z / 7).decrypt().await?, -42);
    assert_eq!((-&z).cast::<u8>().decrypt().await?, 44);
    assert_eq!(z.abs().leading_zeros().decrypt().await?, 7);
    assert!(z.below(&session.constant(0)).decrypt().await?);
    assert!(!(!&z.equal(&z)).decrypt().await?);
    let (a, b): (FheUint8, FheUint8) = (session.encrypt(200)?, session.encrypt(100)?);
    assert!(a.add_overflows(&b).decrypt().await?);
    assert_eq!(a.rotate_left(&session.constant(3)).decrypt().await?, 200_u8.rotate_left(3));
    assert_eq!(a.dot(&b, [[&a, &a], [&b, &b]]).decrypt().await?, ((200 * 100 + 200 * 200 + 100 * 100) % 256) as u8);
    assert_eq!(x.sum([&y, &y, &x]).decrypt().await?, 32);
    let [one, two] = [session.constant(1), session.constant(100)];
    assert!(!a.is_one_of([&one, &two, &b]).decrypt().await?);
    assert!(b.is_one_of([&one, &two]).decrypt().await?);
    assert_eq!(b.choose([(&one, &x), (&two, &y)], &session.constant(0)).decrypt().await?, 9);
    assert_eq!(
        (y.ilog2().decrypt().await?, y.is_odd().decrypt().await?, a.is_even().decrypt().await?),
        (3, true, true)
    );
    let (first, second) = a.above(&b).flip(&a, &b);
    assert_eq!((first.decrypt().await?, second.decrypt().await?), (100, 200));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn results_stay_on_the_server_and_go_on() -> Result<(), ClientError> {
    let server = Server::start(Setup::default()).await;
    let session = session(&server).await;
    let (from, to, amount): (FheUint64, FheUint64, FheUint64) =
        (session.encrypt(100)?, session.encrypt(5)?, session.encrypt(30)?);
    let moved = from.at_least(&amount).select(&amount, &session.constant(0));
    let (from, to) = (&from - &moved, &to + &moved);
    assert_eq!(from.name(), None);
    session.compute(&[&from, &to]).await?;
    let name = from.name().expect("it was computed").to_owned();
    session.compute(&[&from]).await?;
    assert_eq!(from.name(), Some(&name[..]), "it was not computed again");
    // From results, computed by another job.
    let sum = (&from + &to).await?;
    assert_eq!((sum.decrypt().await?, from.decrypt().await?, to.decrypt().await?), (105, 70, 35));
    let found: Fhe<u64> = session.stored(&name).await?;
    assert_eq!((&found * &found).decrypt().await?, 4900);
    let problem = session.stored::<u8>(&name).await.map(drop).expect_err("it is no u8");
    assert!(problem.to_string().contains("32 blocks: u8 has 4"), "{problem}");
    Ok(())
}

/// FIPS 197, appendix B.
#[tokio::test(flavor = "multi_thread")]
async fn a_cipher_under_an_encrypted_key() -> Result<(), ClientError> {
    let server = Server::start(Setup::default()).await;
    let session = session(&server).await;
    let key: Fhe<u128> = session.encrypt(0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c)?;
    let block = session.constant(0x3243_f6a8_885a_308d_3131_98a2_e037_0734);
    let encrypted = key.aes128_encrypt(&block);
    assert_eq!(encrypted.decrypt().await?, 0x3925_841d_02dc_09fb_dc11_8597_196a_0b32);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chains_are_written_and_let_go_of() -> Result<(), ClientError> {
    let server = Server::start(Setup::default()).await;
    let session = session(&server).await;
    let x: FheUint8 = session.encrypt(1)?;
    let chain = |length: usize| (0..length).fold(x.clone(), |sum, _| &sum + &x);
    assert_eq!(chain(300).decrypt().await?, 45);
    // Too long for a program: refused here, and no stack is as deep.
    let problem = chain(200_000).decrypt().await.expect_err("it is too long");
    assert!(problem.to_string().contains("a program may have"), "{problem}");
    Ok(())
}
