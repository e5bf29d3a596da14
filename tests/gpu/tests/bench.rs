//! The benchmark on an emulated GPU. Its figures mean nothing, but its counts are checked.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_cuda::{CudaDevice, gpu::Driver as _};
use cloakwork_device::Device;
use cloakwork_tests_cuda::emulator::Emulated;
use cloakwork_tests_gpu::{Meter, Plan, bench};

fn device() -> (Arc<dyn Device>, Meter) {
    let gpu = Arc::new(Emulated::new(512 << 20));
    let meter = Meter { sensors: gpu.clone(), gpus: vec![gpu.describe().clone()] };
    (Arc::new(CudaDevice::new(vec![gpu]).expect("memory")), meter)
}

#[test]
fn the_benchmark_counts_its_runs_and_decrypts_every_result() {
    let sets =
        ["TOY_MESSAGE_2_CARRY_2", "TOY_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2", "TOY_BOOLEAN_KS_PBS", "TOY_BOOLEAN"];
    let plan = Plan {
        sets: sets.map(str::to_owned).to_vec(),
        widths: vec![1, 10],
        width_time: Duration::ZERO,
        waves: 2,
        program_time: Duration::ZERO,
        rounds: 1,
        checked: 60,
        ends: Instant::now() + Duration::from_secs(3600),
    };
    let (device, meter) = device();
    let report = bench(&device, Some(&meter), &plan);
    assert_eq!(report.sets.len(), sets.len());
    for set in &report.sets {
        assert_eq!(set.wrong, 0, "{}", set.set);
        // The emulator counts one joule a launch, and a wave has few launches.
        assert!(set.per_joule.is_some_and(|rate| (1.0..10.0).contains(&rate)), "{:?}", set.per_joule);
        // One warm-up wave and two timed waves of each width, and then waves of the largest width.
        assert_eq!(set.checked, 63, "{}", set.set);
        assert_eq!(set.widths.iter().map(|row| row.waves).collect::<Vec<_>>(), [2, 2]);
        for row in &set.widths {
            assert!(
                row.median_us <= row.max_us && row.p99_us.is_none() && row.median_us <= row.with_transfers_us,
                "{row:?}"
            );
            assert!(row.key_switch_us + row.blind_rotate_us <= row.median_us * 1.01, "{row:?}");
        }
    }
    assert_eq!(report.programs_set, "TOY_MESSAGE_2_CARRY_2");
    assert_eq!(report.programs.len(), 6);
    for program in &report.programs {
        assert_eq!((program.rounds, program.wrong), (1, 0), "{}", program.program);
        assert!(program.bootstraps >= program.waves && program.waves > 0, "{program:?}");
        assert!(program.key_switch_ms + program.blind_rotate_ms <= program.median_ms, "{program:?}");
    }
    let table = report.table();
    assert!(
        report
            .programs
            .iter()
            .all(|program| table.contains(&format!("| {} | {} |", program.program, program.bootstraps)))
    );
    assert!(table.contains("TOY_BOOLEAN: key of") && table.contains("0 of 63 results wrong"), "{table}");
}

#[test]
fn the_report_names_measurements_that_had_no_time_left() {
    let plan =
        Plan { sets: vec!["TOY_MESSAGE_2_CARRY_2".to_owned()], ends: Instant::now(), ..Plan::whole(Instant::now()) };
    let report = bench(&device().0, None, &plan);
    assert!(report.programs.is_empty() && report.sets.is_empty());
    assert_eq!(report.left_out.len(), 7);
    assert!(report.table().contains("left out for want of time: u64 x / y"));
}

#[test]
fn a_running_measurement_ends_when_the_time_is_over() {
    // Without the time limit, the run would never end.
    let plan = Plan {
        sets: vec!["TOY_BOOLEAN".to_owned()],
        widths: vec![1, 2, 3],
        waves: usize::MAX,
        checked: u64::MAX,
        ends: Instant::now() + Duration::from_secs(5),
        ..Plan::whole(Instant::now())
    };
    let (device, meter) = device();
    let report = bench(&device, Some(&meter), &plan);
    assert_eq!(report.sets[0].widths.len(), 1);
    assert_eq!((report.sets[0].per_joule, report.sets[0].wrong), (None, 0));
    assert_eq!(report.left_out, ["TOY_BOOLEAN, waves of 2", "TOY_BOOLEAN, waves of 3"]);
    let row = &report.sets[0].widths[0];
    assert!(row.p99_us.is_none_or(|p99| row.waves >= 100 && p99 <= row.max_us), "{row:?}");
}
