//! The table of a worker's metrics.

use cloakwork_telemetry::{CALL_SECONDS, JOB_SECONDS, RATIOS, WIDTHS, metrics};

metrics! {
    // Waves.
    waves: Counter ["parameter_set", "cut"] "worker_waves_total" "waves"
        "Waves (batches of bootstraps) by the reason for which they were cut off (full, deadline, idle, other_key, drain)";
    bootstraps: Counter ["parameter_set"] "worker_bootstraps_total" "bootstraps" "Bootstraps in waves that have ended";
    wave_width: Histogram ["parameter_set"] "worker_wave_width" "bootstraps" "Bootstraps in a wave", WIDTHS;
    wave_fill: Histogram ["parameter_set"] "worker_wave_fill_ratio" "ratio" "Bootstraps in a wave, as a share of the preferred width", RATIOS;
    wave_time: Histogram ["parameter_set"] "worker_wave_seconds" "seconds" "Time of a wave on the device", CALL_SECONDS;
    stages: Counter ["stage"] "worker_stage_seconds_total" "seconds"
        "Time of waves on the device, by stage (key_switch, blind_rotate, other)";

    // Operations on vectors.
    vector_operations: Counter ["operation"] "worker_vector_operations_total" "operations" "Operations of CKKS on vectors that have ended, by kind";
    vector_time: Counter ["operation"] "worker_vector_seconds_total" "seconds" "Time of operations of CKKS on vectors, by kind";

    // Keys.
    key_lookups: Counter ["result"] "worker_key_lookups_total" "lookups"
        "Lookups of jobs for their key, by whether the key was on the device already (hit) or had to be loaded (miss)";
    key_evictions: Counter [] "worker_key_evictions_total" "keys" "Keys that were removed from the device because another key needed the room";
    key_load: Histogram [] "worker_key_load_seconds" "seconds" "Time for which a key was read and made ready on the device", JOB_SECONDS;
    key_bytes: Gauge [] "worker_key_bytes" "bytes" "Memory of the keys on the device";

    // The worker.
    jobs: Gauge ["stage"] "worker_jobs" "jobs"
        "Jobs that the worker holds, by stage (fetching, loading_key, waiting, computing, committing)";
}
