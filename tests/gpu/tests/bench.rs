//! The benchmark on an emulated GPU: its figures mean nothing, but that it counts does.

use std::{sync::Arc, time::Duration};

use cloakwork_cuda::CudaDevice;
use cloakwork_tests_cuda::emulator::Emulated;
use cloakwork_tests_gpu::{Plan, bench};

#[test]
fn it_counts_what_it_runs_and_checks_what_it_counts() {
    let device = CudaDevice::new(vec![Arc::new(Emulated::new(512 << 20))]).expect("memory");
    let sets =
        ["TOY_MESSAGE_2_CARRY_2", "TOY_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2", "TOY_BOOLEAN_KS_PBS", "TOY_BOOLEAN"];
    let plan = Plan {
        sets: sets.map(str::to_owned).to_vec(),
        widths: vec![1, 10],
        time: Duration::ZERO,
        waves: 2,
        checked: 60,
    };
    let report = bench(&device, &plan);
    assert_eq!(report.sets.len(), sets.len());
    for set in &report.sets {
        assert_eq!(set.wrong, 0, "{}", set.set);
        // A wave that warms up and two that are timed, of each width, and then waves of the widest.
        assert_eq!(set.checked, 63, "{}", set.set);
        assert_eq!(set.widths.iter().map(|row| row.waves).collect::<Vec<_>>(), [2, 2]);
        for row in &set.widths {
            assert!(row.median_us <= row.p99_us && row.median_us <= row.with_transfers_us, "{row:?}");
            assert!(row.key_switch_us + row.blind_rotate_us <= row.median_us * 1.01, "{row:?}");
        }
    }
    let table = report.table();
    assert!(table.contains("TOY_BOOLEAN: key of") && table.contains("0 of 63 results wrong"), "{table}");
}
