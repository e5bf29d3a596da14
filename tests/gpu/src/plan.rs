//! Contents and duration of a measurement.

use std::time::{Duration, Instant};

use crate::cases::CASES;

/// Contents and duration of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Parameter sets, by name. Programs run under the first set that takes integers.
    pub sets: Vec<String>,
    /// Widths of waves.
    pub widths: Vec<usize>,
    /// Time for each width, and time for which the widest waves draw power without checks.
    pub width_time: Duration,
    /// Fewest waves of each width, if there is time.
    pub waves: usize,
    /// Time for each program.
    pub program_time: Duration,
    /// Fewest jobs of each program, if there is time.
    pub rounds: usize,
    /// Bootstraps of each set whose results are decrypted, if there is time.
    pub checked: u64,
    /// End of the run. Measurements that have not begun before the end are left out. Those that
    /// have begun continue to their first result at most.
    pub ends: Instant,
}

/// Sets of a whole run: classical and multi-bit sets with 4-bit blocks, and with small blocks.
const SETS: [&str; 4] = [
    "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128",
    "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128",
    "V1_8_PARAM_GPU_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128",
    "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128",
];
/// Sets of a quick run.
const QUICK_SETS: [&str; 2] = ["TOY_MESSAGE_2_CARRY_2", "TOY_BOOLEAN"];
/// Widths of waves.
pub const WIDTHS: [usize; 7] = [1, 16, 132, 528, 1056, 4096, 8192];
/// Seconds for each width.
pub const WIDTH_SECONDS: f64 = 3.0;
/// Bootstraps of each set whose results are decrypted.
pub const CHECKED: u64 = 1_000_000;

/// Longest duration of a run, after which it is stopped.
pub const LIMIT: Duration = Duration::from_secs(6 * 60);
/// Time for the conformance suite and for all timed and checked work. The rest of [`LIMIT`] is for
/// measurements that are still running then.
const WHOLE_RUN: Duration = Duration::from_secs(330);
/// Time for each program.
const PROGRAM_TIME: Duration = Duration::from_secs(8);

impl Plan {
    /// A whole run that began at `began`. Time without timed work goes to keys and to results that
    /// are only checked.
    pub fn whole(began: Instant) -> Self {
        Self {
            sets: SETS.map(str::to_owned).to_vec(),
            widths: WIDTHS.to_vec(),
            width_time: Duration::from_secs_f64(WIDTH_SECONDS),
            waves: 3,
            program_time: PROGRAM_TIME,
            rounds: 3,
            checked: CHECKED,
            ends: began + WHOLE_RUN,
        }
    }

    /// A run of seconds on toy sets. Its figures mean nothing, but it shows that everything runs.
    pub fn quick(began: Instant) -> Self {
        Self {
            sets: QUICK_SETS.map(str::to_owned).to_vec(),
            widths: vec![1, 16],
            width_time: Duration::ZERO,
            waves: 2,
            program_time: Duration::ZERO,
            rounds: 1,
            checked: 40,
            ends: began + WHOLE_RUN,
        }
    }

    /// Total time for all timed work.
    pub fn timed(&self) -> Duration {
        let of_set = self.width_time * (self.widths.len() as u32 + 1);
        self.program_time * CASES.len() as u32 + of_set * self.sets.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_run_leaves_time_for_checks() {
        let began = Instant::now();
        let plan = Plan::whole(began);
        assert!(plan.ends - began < LIMIT);
        assert!(plan.timed() <= WHOLE_RUN / 2, "{:?}", plan.timed());
    }
}
