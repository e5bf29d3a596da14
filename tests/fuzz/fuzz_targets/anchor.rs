#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cloakwork_tests_formats::read_anchor_input(bytes));
