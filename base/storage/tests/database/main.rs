//! Both databases keep the same promises: batches are applied whole or not at all, a cancelled
//! writer leaves nothing behind, and tenants take turns.

mod home;
mod postgres;
mod sqlite;
mod suite;

/// Makes a test of each function of the suite, for each database.
macro_rules! for_each_database {
    ($($test:ident)*) => {
        mod on_sqlite {$(
            #[tokio::test]
            async fn $test() {
                crate::suite::$test(&crate::home::Home::sqlite()).await;
            }
        )*}

        mod on_postgres {$(
            #[tokio::test]
            async fn $test() {
                let Some(home) = crate::home::Home::postgres() else { return };
                crate::suite::$test(&home).await;
            }
        )*}
    };
}

for_each_database! {
    a_batch_that_fails_leaves_nothing_and_the_next_one_works
    a_cancelled_batch_is_applied_whole_or_not_at_all
    a_held_value_lives_until_the_transaction_has_ended
    a_statement_runs_for_each_row_of_values
    a_tenant_leaves_readers_to_others_and_to_the_server
    a_transaction_that_is_dropped_leaves_nothing
    a_turn_that_is_dropped_admits_the_next_tenant
    a_value_of_another_type_or_size_is_an_error
    a_version_changes_with_each_write_through_its_handle
    calls_of_workers_do_not_wait_behind_the_calls_of_their_tenant
    every_statement_gets_its_own_values
    readers_are_limited_and_come_back
    reads_and_writes_after_close_fail
    the_first_of_any_number_of_rows_is_found
    tenants_take_turns_to_write_and_the_server_is_next
    text_with_any_character_is_stored
}
