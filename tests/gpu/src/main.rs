//! `cloakwork-gpu-bench`: measures the GPUs of this machine.

#![forbid(unsafe_code)]

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use cloakwork_cuda::{
    CudaDevice,
    gpu::{self, Driver},
    sensors,
};
use cloakwork_device::{Device, self_test};
use cloakwork_tests_cuda::emulator::Emulated;
use cloakwork_tests_device::conformance;
use cloakwork_tests_gpu::{CHECKED, LIMIT, Meter, Plan, WIDTH_SECONDS, WIDTHS, bench};

/// Measures the GPUs of this machine: first whether their results are right, then their speed.
///
/// Programs of integers come first (u64 select, compare, add, multiply, divide, and AES-128 of two
/// blocks), as jobs of a worker, one at a time. Waves of bootstraps follow. Every result is
/// decrypted, and a wrong result fails the run. The run ends within six minutes: it names the
/// measurements that it had no time for, and a run that hangs is stopped.
#[derive(Parser)]
struct Cli {
    /// Parameter sets; by default those for 4-bit blocks, classical and multi-bit, and one for
    /// small blocks. Programs run under the first set that takes integers
    #[arg(long = "set", value_name = "NAME")]
    sets: Vec<String>,
    /// Widths of the waves to measure
    #[arg(long, value_delimiter = ',', default_values_t = WIDTHS)]
    widths: Vec<usize>,
    /// Seconds of measurement for each width
    #[arg(long, default_value_t = WIDTH_SECONDS)]
    seconds: f64,
    /// Bootstraps of each set whose results are decrypted, if there is time
    #[arg(long, default_value_t = CHECKED)]
    checked: u64,
    /// Use one GPU only
    #[arg(long)]
    one: bool,
    /// Measure toy sets for some seconds: the run shows that everything works, but not how fast
    #[arg(long, conflicts_with_all = ["sets", "widths", "seconds", "checked"])]
    quick: bool,
    /// Use an emulated GPU, where there is no real one
    #[arg(long)]
    emulated: bool,
    /// File to write the figures to, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    // A run that hangs is stopped.
    std::thread::spawn(|| {
        std::thread::sleep(LIMIT);
        eprintln!("cloakwork-gpu-bench: stopped, as it did not end within {LIMIT:?}");
        std::process::exit(1);
    });
    match measure(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cloakwork-gpu-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(cli: &Cli) -> Result<(), Box<dyn std::error::Error>> {
    let plan = plan(cli);
    let (gpus, meter) = if cli.emulated { emulated() } else { found(cli.one)? };
    let device: Arc<dyn Device> = Arc::new(CudaDevice::new(gpus)?);
    self_test(device.as_ref())?;
    conformance::on_toys(device.as_ref());
    println!("conformance: passed\n");
    let report = bench(&device, meter.as_ref(), &plan);
    println!("{}", report.table());
    if let Some(file) = &cli.json {
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    match report.wrong() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} results were wrong").into()),
    }
}

fn plan(cli: &Cli) -> Plan {
    if cli.quick {
        return Plan::quick(Instant::now());
    }
    let whole = Plan::whole(Instant::now());
    Plan {
        sets: if cli.sets.is_empty() { whole.sets } else { cli.sets.clone() },
        widths: cli.widths.clone(),
        width_time: Duration::from_secs_f64(cli.seconds),
        checked: cli.checked,
        ..whole
    }
}

type Gpus = (Vec<Arc<dyn Driver>>, Option<Meter>);

/// The GPUs of this machine.
fn found(only_one: bool) -> Result<Gpus, Box<dyn std::error::Error>> {
    let mut gpus = gpu::find()?;
    if only_one {
        gpus.truncate(1);
    }
    let meter = meter(&gpus);
    Ok((gpus, meter))
}

/// An emulated GPU, computed by this processor.
fn emulated() -> Gpus {
    const MEMORY: u64 = 512 << 20;
    let gpu = Arc::new(Emulated::new(MEMORY));
    let meter = Meter { sensors: gpu.clone(), gpus: vec![gpu.describe().clone()] };
    (vec![gpu], Some(meter))
}

/// Opens the energy sensors. Without them, everything else is measured.
fn meter(gpus: &[Arc<dyn Driver>]) -> Option<Meter> {
    let gpus: Vec<_> = gpus.iter().map(|gpu| gpu.describe().clone()).collect();
    match sensors::open(&gpus) {
        Ok(sensors) => Some(Meter { sensors, gpus }),
        Err(error) => {
            eprintln!("cloakwork-gpu-bench: no bootstraps a joule: {error}");
            None
        }
    }
}
