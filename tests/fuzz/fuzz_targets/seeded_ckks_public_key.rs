#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cloakwork_tests_formats::decode_seeded_ckks_public_key_input(bytes));
