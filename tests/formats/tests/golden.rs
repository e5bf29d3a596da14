//! Every build reads the files of earlier builds, and this build writes the same bytes.

use std::{collections::BTreeSet, fs, path::Path};

use cloakwork_tests_formats::{all, all_of_ckks};

#[test]
fn golden_files_are_still_read_and_written_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/v1");
    let files: BTreeSet<String> = fs::read_dir(&folder)
        .expect("the folder of golden files")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let cases = all();
    // The test `ckks` compares the golden files of CKKS.
    let names = cases.iter().map(|case| case.name).chain(all_of_ckks().into_iter().map(|case| case.name));
    let named: BTreeSet<String> = names.map(|name| format!("{name}.bin")).collect();
    assert_eq!(files, named, "run the example `write_golden` for a new case");
    for case in cases {
        let golden = fs::read(folder.join(format!("{}.bin", case.name))).expect("a golden file");
        assert!((case.is_object)(&golden), "{} is read as another object", case.name);
        assert!(golden == case.bytes, "{} is written differently", case.name);
    }
}
