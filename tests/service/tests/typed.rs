//! Encrypted values with operators, through a server.

use cloakwork_client::{
    ClientError, Fhe, FheArray, FheInt16, FheUint8, FheUint64, Keys, Progress, Session, set_by_name,
};
use cloakwork_tests_service::{Server, Setup, TOY};

async fn session(server: &Server) -> Session {
    let client = server.client().await;
    let keys = Keys::generate(set_by_name(TOY).expect("a set"), Progress::none()).await.expect("keys");
    client.push_key(&keys, &Progress::none()).await.expect("the key is taken");
    Session::new(client, keys).await.expect("the digests of the key")
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_give_the_right_values() -> Result<(), ClientError> {
    let server = Server::start(Setup::default()).await;
    let session = session(&server).await;
    let (x, y): (FheUint64, FheUint64) = (session.encrypt(7)?, session.encrypt(9)?);
    assert_eq!((x.max(&y) * 3 + (&y >> 2) - 1).decrypt().await?, 28);
    assert_eq!(x.decrypt().await?, 7, "values that were never computed are decrypted as well");
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
    let (log, is_some) = session.encrypt(0_u16)?.checked_ilog2();
    session.compute(&[&log, &is_some]).await?;
    assert_eq!((log.decrypt().await?, is_some.decrypt().await?), (u32::MAX, false));
    let (first, second) = a.above(&b).flip(&a, &b);
    assert_eq!((first.decrypt().await?, second.decrypt().await?), (100, 200));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn results_stay_on_the_server_as_inputs_of_further_expressions() -> Result<(), ClientError> {
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
    // The inputs are results of an earlier job.
    let sum = (&from + &to).await?;
    assert_eq!((sum.decrypt().await?, from.decrypt().await?, to.decrypt().await?), (105, 70, 35));
    let found: Fhe<u64> = session.stored(&name).await?;
    assert_eq!((&found * &found).decrypt().await?, 4900);
    let problem = session.stored::<u8>(&name).await.map(drop).expect_err("the value is not a u8");
    assert!(problem.to_string().contains("32 blocks: u8 has 4"), "{problem}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_are_sent_stored_and_read_as_a_whole() -> Result<(), ClientError> {
    let server = Server::start(Setup::default()).await;
    let session = session(&server).await;
    let (prices, counts): (FheArray<u32>, _) =
        (session.encrypt_array(&[3, 5, 8, 4])?, session.encrypt_array(&[10_u32, 0, 2, 1])?);
    assert_eq!(prices.dot(&counts)?.decrypt().await?, 50);
    assert_eq!(prices.decrypt().await?, [3, 5, 8, 4], "values that were never computed are decrypted as well");
    let [least, most] = [prices.min(), prices.max()].map(|value| value.expect("it is not empty"));
    session.compute(&[&least, &most]).await?;
    assert_eq!((least.decrypt().await?, most.decrypt().await?, prices.sum().decrypt().await?), (3, 8, 20));
    let paid = prices.zip(&counts, |price, count| price * count)?.await?;
    let name = paid.name().expect("it is on the server").to_owned();
    assert_eq!(paid.decrypt().await?, [30, 0, 16, 4]);
    assert_eq!(paid.map(|paid| paid.above(&least)).decrypt().await?, [true, false, true, true]);
    // The inputs are results, which have the noise of a lookup.
    let stored: FheArray<u32> = session.stored_array(&name).await?;
    assert_eq!((stored.len(), stored.at(&session.encrypt(2)?).decrypt().await?), (4, 16));
    assert_eq!((stored.at(&session.encrypt(4)?).decrypt().await?, stored.sum().decrypt().await?), (0, 50));
    assert!(stored.contains(&session.encrypt(30)?).decrypt().await?);
    assert!(!stored.contains(&session.constant(5)).decrypt().await?);
    let turned = Fhe::array(&stored.iter().rev().collect::<Vec<_>>()).expect("it is not empty");
    assert_eq!((turned.name(), turned.decrypt().await?), (None, vec![4, 16, 0, 30]));
    let mixed = Fhe::array([&least, &session.constant(7), &(&least + 1)]).expect("it is not empty");
    assert_eq!(mixed.decrypt().await?, [3, 7, 4]);
    let name = mixed.name().expect("it was computed as a whole").to_owned();
    assert_eq!(session.stored_array::<u32>(&name).await?.decrypt().await?, [3, 7, 4]);
    let problem = session.encrypt_array(&[0_u8; 4097]).map(drop).expect_err("no program takes it");
    assert_eq!(problem.to_string(), "16388 blocks of an array: a program may have 16384");
    let none: FheArray<u32> = session.encrypt_array(&[])?;
    assert_eq!((none.sum().decrypt().await?, none.decrypt().await?), (0, vec![]));
    assert!(none.max().is_none() && !none.contains(&least).decrypt().await?);
    let problem = prices.dot(&none).map(drop).expect_err("they have other lengths");
    assert_eq!(problem.to_string(), "arrays of 4 and 0 elements: expected as many in both");
    let problem = session.stored_array::<u64>("tenants/default/ciphertexts/none").await.map(drop);
    assert!(matches!(problem, Err(ClientError::Refused(_))), "{problem:?}");
    Ok(())
}

/// The example of FIPS 197, appendix B.
#[tokio::test(flavor = "multi_thread")]
async fn aes128_under_an_encrypted_key_gives_the_published_ciphertext() -> Result<(), ClientError> {
    let server = Server::start(Setup::default()).await;
    let session = session(&server).await;
    let key: Fhe<u128> = session.encrypt(0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c)?;
    let block = session.constant(0x3243_f6a8_885a_308d_3131_98a2_e037_0734);
    let encrypted = key.aes128_encrypt(&block);
    assert_eq!(encrypted.decrypt().await?, 0x3925_841d_02dc_09fb_dc11_8597_196a_0b32);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chains_are_computed_or_refused_without_overflowing_the_stack() -> Result<(), ClientError> {
    let server = Server::start(Setup::default()).await;
    let session = session(&server).await;
    let x: FheUint8 = session.encrypt(1)?;
    let chain = |length: usize| (0..length).fold(x.clone(), |sum, _| &sum + &x);
    assert_eq!(chain(300).decrypt().await?, 45);
    // The chain is too long for a program, so the client refuses it. Code that recursed once per
    // element would overflow the stack.
    let problem = chain(200_000).decrypt().await.expect_err("it is too long");
    assert!(problem.to_string().contains("a program may have"), "{problem}");
    Ok(())
}
