#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cloakwork_tests_formats::decode_seeded_ckks_switch_key_input(bytes));
