//! Progress bars for long work, on a terminal only.

use std::{collections::HashMap, io::IsTerminal as _, sync::Mutex};

use cloakwork_client::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Shows a bar with bytes, rate and remaining time for each piece of work.
pub(crate) fn bars(json: bool) -> Progress {
    if json || !std::io::stderr().is_terminal() {
        return Progress::none();
    }
    let all = MultiProgress::new();
    let bars = Mutex::new(HashMap::<String, ProgressBar>::new());
    Progress::new(move |step| {
        // A lock that another thread poisoned is not worth an error.
        let Ok(mut bars) = bars.lock() else { return };
        let bar = match bars.get(step.what) {
            Some(bar) => bar,
            None => {
                let bar = ProgressBar::new(step.total).with_style(style()).with_message(step.what.to_owned());
                bars.entry(step.what.to_owned()).or_insert(all.add(bar))
            }
        };
        bar.set_position(step.done);
        if step.done == step.total {
            bar.finish();
        }
    })
}

fn style() -> ProgressStyle {
    let template = "{msg:22} {wide_bar} {bytes:>10}/{total_bytes:10} {bytes_per_sec:>12} {eta:>4}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
