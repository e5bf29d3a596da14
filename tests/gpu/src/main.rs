//! `cloakwork-gpu-bench`: measures the GPUs of this machine.

#![forbid(unsafe_code)]

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use cloakwork_cuda::{CudaDevice, gpu};
use cloakwork_device::self_test;
use cloakwork_tests_device::conformance;
use cloakwork_tests_gpu::{Plan, bench};

/// Measures the GPUs of this machine: first whether they compute what they should, then how fast.
#[derive(Parser)]
struct Cli {
    /// Parameter sets; by default the one for 4-bit blocks, and booleans
    #[arg(long = "set", value_name = "NAME")]
    sets: Vec<String>,
    /// Widths of waves
    #[arg(long, value_delimiter = ',', default_value = "1,16,132,528,1056,4096,8192")]
    widths: Vec<usize>,
    /// Seconds for each width
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Bootstraps of each set whose results are decrypted
    #[arg(long, default_value_t = 1_000_000)]
    checked: u64,
    /// Use one GPU only
    #[arg(long)]
    one: bool,
    /// Where to write the figures, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const SETS: [&str; 3] = [
    "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128",
    "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128",
    "V1_8_PARAM_GPU_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128",
];

fn main() -> ExitCode {
    match measure(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cloakwork-gpu-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(cli: &Cli) -> Result<(), Box<dyn std::error::Error>> {
    let mut gpus = gpu::find()?;
    if cli.one {
        gpus.truncate(1);
    }
    let device = CudaDevice::new(gpus)?;
    self_test(&device)?;
    conformance::on_toys(&device);
    println!("conformance: passed\n");
    let sets = if cli.sets.is_empty() { SETS.map(str::to_owned).to_vec() } else { cli.sets.clone() };
    let (widths, time) = (cli.widths.clone(), Duration::from_secs_f64(cli.seconds));
    let report = bench(&device, &Plan { sets, widths, time, waves: 3, checked: cli.checked });
    println!("{}", report.table());
    if let Some(file) = &cli.json {
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    match report.sets.iter().map(|set| set.wrong).sum::<u64>() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} results were wrong").into()),
    }
}
