//! Runs the fuzz targets' functions on their whole corpus: seeds, and inputs that once failed.

use std::{collections::BTreeSet, fs, path::Path};

use cloakwork_tests_formats::{TARGETS, all, all_of_ckks};

#[test]
fn every_target_survives_its_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let folder = fs::read_dir(corpus.join(target.name)).expect("a corpus folder for each target");
        let mut inputs = 0;
        for entry in folder {
            let bytes = fs::read(entry.expect("an entry").path()).expect("an input");
            (target.run)(&bytes);
            inputs += 1;
        }
        assert!(inputs > 0, "{} has no inputs", target.name);
    }
}

#[test]
fn every_golden_file_goes_through_every_target() {
    let of_tfhe = all().into_iter().map(|case| case.bytes);
    for bytes in of_tfhe.chain(all_of_ckks().into_iter().map(|case| case.bytes)) {
        for target in TARGETS {
            (target.run)(&bytes);
        }
    }
}

#[test]
fn the_fuzz_crate_has_exactly_these_targets() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    let files: BTreeSet<String> = fs::read_dir(folder)
        .expect("the folder of fuzz targets")
        .map(|entry| entry.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, TARGETS.iter().map(|target| target.name.to_string()).collect());
}
