//! The CPU device passes the conformance suite on various numbers of threads.

use cloakwork_tests_device::conformance;
use cloakwork_worker::CpuDevice;

#[test]
fn toy_sets_pass_on_two_threads() {
    conformance::on_toys(&CpuDevice::new(2).expect("threads"));
}

#[test]
fn toy_sets_pass_on_one_and_on_five_threads() {
    for threads in [1, 5] {
        let device = CpuDevice::new(threads).expect("threads");
        conformance::shortint::<u64>(&device, "TOY_MESSAGE_2_CARRY_2", 3, 130);
        conformance::boolean(&device, "TOY_BOOLEAN", 3, 130);
    }
}

#[test]
fn a_device_limits_its_number_of_threads() {
    let error = CpuDevice::new(usize::MAX).err().expect("too many threads");
    assert!(error.to_string().ends_with("threads are more than the 4096 that a device may have"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn toy_sets_pass_on_pinned_threads() {
    let device = CpuDevice::pinned(1).expect("a processor");
    conformance::on_toys(&device);
    assert!(compute_threads().any(|processors| processors.parse::<usize>().is_ok()), "none has one processor only");
    let error = CpuDevice::pinned(1 << 20).err().expect("fewer processors");
    assert!(error.to_string().starts_with("1048576 threads cannot each have one of "), "{error}");
}

#[test]
fn production_sets_pass() {
    let device = CpuDevice::new(2).expect("threads");
    conformance::shortint::<u64>(&device, "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", 1, 24);
    conformance::shortint::<u32>(&device, "V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128", 1, 24);
    conformance::boolean(&device, "PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS", 1, 30);
    conformance::boolean(&device, "PARAMETERS_ERROR_PROB_2_POW_MINUS_165", 1, 30);
    let multi_bit = "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
    conformance::shortint::<u64>(&device, multi_bit, 1, 8);
}

/// Allowed processors of the compute threads of this process, in Linux's notation. The threads
/// belong to all devices of the process, because tests run side by side.
#[cfg(target_os = "linux")]
fn compute_threads() -> impl Iterator<Item = String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    tasks.filter_map(|task| {
        // A thread of another test may have ended meanwhile.
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        field("Name:")?.starts_with("cpu-").then(|| field("Cpus_allowed_list:").map(str::to_owned))?
    })
}
