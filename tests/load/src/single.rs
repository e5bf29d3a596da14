//! One bootstrap at a time, without other load.

use std::time::Duration;

use cloakwork_client::{JobRequest, STAGES, stage_nanos};
use cloakwork_tests_service::{Tenant, VALUES};
use tokio::runtime::Runtime;

use crate::{
    Effort,
    core::Core,
    report::{Bound, Report, Row, percentile},
};

/// Measures the latency that the service adds to a single bootstrap, in total and by stage.
pub(crate) fn measure(runtime: &Runtime, tenant: &Tenant, core: &mut Core, effort: Effort, report: &mut Report) {
    let program = tenant.lookup(|x| x * x % VALUES);
    let list = tenant.keys.encrypt(&[3], 15).expect("a value of a block");
    let (mut alone, mut through, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let mut stages: Vec<Vec<f64>> = vec![Vec::new(); STAGES.len()];
    for _ in 0..effort.rounds {
        let (mut bare, mut served) = (Vec::new(), Vec::new());
        for _ in 0..effort.singles {
            bare.push(millis(core.single()));
            let request = JobRequest::new(program.clone(), &tenant.key).encrypted(list.clone());
            let client = tenant.client.clone();
            // The call runs on the runtime's own thread, so that no hop between threads counts as
            // the service's time.
            let finished = runtime.block_on(runtime.spawn(async move { client.run(&request).await }));
            let finished = finished.expect("no panic").expect("the job succeeds");
            served.push(millis(finished.wall));
            assert_eq!(runtime.block_on(tenant.values(&finished)).expect("an output"), [9]);
            let record = finished.job.latency.as_ref().expect("a latency record");
            for (times, nanos) in stages.iter_mut().zip(stage_nanos(record)) {
                times.push(nanos as f64 * 1e-6);
            }
        }
        alone.push(percentile(&mut bare, 0.5));
        through.push(percentile(&mut served, 0.5));
        added.push(through[through.len() - 1] - alone[alone.len() - 1]);
    }
    report.add(Row::of("single bootstrap, the core alone, p50", "ms", &alone));
    report.add(Row::of("single bootstrap, idle service, p50", "ms", &through));
    report.add(Row::of("single bootstrap, what the service adds", "ms", &added).required(Bound::Most(2.0)));
    for (mut times, name) in stages.into_iter().zip(STAGES) {
        let median = percentile(&mut times, 0.5);
        report.add(Row::of(&format!("    of it {name}, p50"), "ms", &[median]));
    }
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
