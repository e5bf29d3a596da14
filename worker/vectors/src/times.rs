//! Times of a run's steps.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use cloakwork_circuit::ckks::Action;
use cloakwork_ckks::BootstrapStep;
use cloakwork_device::Times;

/// Attributes every moment of a run to one name.
#[derive(Default)]
pub(crate) struct Clock(Mutex<Running>);

#[derive(Default)]
struct Running {
    times: Times,
    current: Option<(&'static str, Instant)>,
}

impl Clock {
    /// Ends the current step and begins the step `name`.
    pub(crate) fn begins(&self, name: &'static str) {
        let mut running = self.running();
        running.ends();
        running.current = Some((name, Instant::now()));
    }

    /// Begins the step `name`, unless it is already in progress.
    pub(crate) fn is_at(&self, name: &'static str) {
        let is_under_way = matches!(self.running().current, Some((current, _)) if current == name);
        if !is_under_way {
            self.begins(name);
        }
    }

    /// Ends the current step and returns the times.
    pub(crate) fn into_times(self) -> Times {
        let mut running = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        running.ends();
        running.times
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn ends(&mut self) {
        if let Some((name, began)) = self.current.take() {
            let (count, time) = self.times.0.entry(name).or_default();
            *count += 1;
            *time += began.elapsed();
        }
    }
}

/// Name of a step. A bootstrap begins by fetching its matrices, which the whole process shares.
pub(crate) fn of_action(action: &Action) -> &'static str {
    match action {
        Action::Add(..) => "add",
        Action::Subtract(..) => "subtract",
        Action::Negate(_) => "negate",
        Action::AddNumber(..) | Action::AddClear(..) => "add_clear",
        Action::MultiplyNumber(..) | Action::MultiplyClear(..) | Action::TimesI(_) => "multiply_clear",
        Action::Multiply(..) => "multiply",
        Action::Rotate(..) => "rotate",
        Action::Conjugate(_) => "conjugate",
        Action::Total(_) => "total",
        Action::Lower(_) => "level_down",
        Action::Chebyshev(..) => "polynomial",
        Action::Transform(..) => "matrix",
        Action::Bootstrap(..) => "bootstrap.matrices",
    }
}

/// Name of a bootstrap's step.
pub(crate) fn of_bootstrap(step: BootstrapStep) -> &'static str {
    match step {
        BootstrapStep::Raise => "bootstrap.raise",
        BootstrapStep::ToCoefficients => "bootstrap.to_coefficients",
        BootstrapStep::Remainders => "bootstrap.remainders",
        BootstrapStep::ToValues => "bootstrap.to_values",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_moment_counts_for_exactly_one_name() {
        let (clock, began) = (Clock::default(), Instant::now());
        for name in ["a", "b", "a", "a"] {
            clock.begins(name);
            clock.is_at(name);
            std::thread::sleep(Duration::from_millis(2));
        }
        clock.is_at("c");
        let times = clock.into_times();
        let counts: Vec<_> = times.0.iter().map(|(name, (count, _))| (*name, *count)).collect();
        assert_eq!(counts, [("a", 3), ("b", 1), ("c", 1)]);
        let all: Duration = times.0.values().map(|(_, time)| *time).sum();
        assert!(all >= Duration::from_millis(8) && all <= began.elapsed());
    }
}
