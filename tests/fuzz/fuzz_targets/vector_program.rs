#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cloakwork_tests_formats::decode_vector_program_input(bytes));
