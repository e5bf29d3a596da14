//! What is measured, and for how long.

use std::time::{Duration, Instant};

use crate::cases::CASES;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Parameter sets, by name. Programs run under the first that takes integers.
    pub sets: Vec<String>,
    /// Widths of waves.
    pub widths: Vec<usize>,
    /// How long each width is timed, and how long the widest draws power unchecked.
    pub width_time: Duration,
    /// Waves of each width, at least, if there is time.
    pub waves: usize,
    /// How long each program is timed.
    pub program_time: Duration,
    /// Jobs of each program, at least, if there is time.
    pub rounds: usize,
    /// Bootstraps of each set whose results are decrypted, if there is time.
    pub checked: u64,
    /// When all of it ends. What has not begun by then is left out, and what has begun goes on to its first result at most.
    pub ends: Instant,
}

/// Sets of a whole run: 4-bit blocks, classical and multi-bit, and small ones.
const SETS: [&str; 3] = [
    "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128",
    "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128",
    "V1_8_PARAM_GPU_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128",
];
/// Sets of a quick run.
const QUICK_SETS: [&str; 2] = ["TOY_MESSAGE_2_CARRY_2", "TOY_BOOLEAN"];
/// Widths of waves.
pub const WIDTHS: [usize; 7] = [1, 16, 132, 528, 1056, 4096, 8192];
/// Seconds for each of them.
pub const WIDTH_SECONDS: f64 = 3.0;
/// Bootstraps of each set whose results are decrypted.
pub const CHECKED: u64 = 1_000_000;

/// A run that takes longer is stopped.
pub const LIMIT: Duration = Duration::from_secs(6 * 60);
/// For all that is timed and checked, and for the suite before it. The rest is for what has begun by then.
const WHOLE: Duration = Duration::from_secs(330);
/// For each program.
const PROGRAM: Duration = Duration::from_secs(8);

impl Plan {
    /// A whole run that began then. Time that nothing is timed in goes to keys and to results that are only checked.
    pub fn whole(began: Instant) -> Self {
        Self {
            sets: SETS.map(str::to_owned).to_vec(),
            widths: WIDTHS.to_vec(),
            width_time: Duration::from_secs_f64(WIDTH_SECONDS),
            waves: 3,
            program_time: PROGRAM,
            rounds: 3,
            checked: CHECKED,
            ends: began + WHOLE,
        }
    }

    /// A run of seconds on toy sets: its figures mean nothing, but that it runs does.
    pub fn quick(began: Instant) -> Self {
        Self {
            sets: QUICK_SETS.map(str::to_owned).to_vec(),
            widths: vec![1, 16],
            width_time: Duration::ZERO,
            waves: 2,
            program_time: Duration::ZERO,
            rounds: 1,
            checked: 40,
            ends: began + WHOLE,
        }
    }

    /// What is timed takes so long.
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
        assert!(plan.timed() <= WHOLE / 2, "{:?}", plan.timed());
    }
}
