//! The tables on the page of parameters equal those of the code.

use std::{fs, path::Path};

use cloakwork_tests_formats::parameters::update;

#[test]
fn the_tables_of_the_page_equal_those_of_the_code() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/parameters.md");
    let text = fs::read_to_string(page).expect("the page");
    let hint = "docs/parameters.md is out of date: run the example `write_parameters` of cloakwork-tests-formats";
    assert!(update(&text) == text, "{hint}");
}
