//! Tests of the keystore with real files, a real database, real processes and an S3-compatible
//! server.

#![forbid(unsafe_code)]

/// Runs each of the named tests on a local directory and on an S3-compatible store.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod local {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::home::Home::local()).await;
            })*
        }
        mod s3 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::home::Home::s3().await).await;
            })*
        }
    };
}

mod aborts;
mod cancelled;
mod claim;
mod clean_up;
mod crash;
mod damage;
mod full;
mod home;
mod keys;
mod objects;
mod refusals;
mod resume;
mod space;
mod staged;
mod upgrade;
mod uploads;

/// Two groups are left out: tests of files from earlier versions, which were files of SQLite, and
/// tests that count the tasks of the runtime. Each connection to a server has a task.
#[test]
fn all_tests_pass_on_postgres() {
    cloakwork_tests_database::run_again_on_postgres(&["upgrade::", "cancelled::local::"]);
}
