//! Memory in use after loading a key from its files, measured in a process that does nothing else.

use std::{
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
    process::Command,
};

use cloakwork_params::{Expected, KeyId, ParameterSet};
use cloakwork_secret::{ClientKey, Randomness};
use cloakwork_tfhe::{SeededBootstrapKey, SeededKeySwitchKey, ServerKey, format};

use crate::ours::Seeded;

/// Option that starts the process that loads the key, followed by the names of the two files.
pub const FLAG: &str = "--load-and-report-memory";

/// Name of the row.
pub const NAME: &str = "2_2 memory after loading";

/// Largest memory that the project allows itself, as a multiple of the key's own.
pub const LIMIT: f64 = 1.3;

/// Memory of a process that has loaded a key, in bytes.
pub struct Resident {
    /// Size of the transformed bootstrap key and the expanded key-switch key.
    pub key: u64,
    /// Memory in use once the key is ready.
    pub loaded: u64,
    /// Peak memory while the key was loaded.
    pub peak: u64,
}

/// Generates a key of `set`, writes it to `folder`, and loads it in another process.
pub fn measure(set: &'static ParameterSet, folder: &Path) -> Result<Resident, String> {
    let files = write(set, folder)?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(this).arg(FLAG).args(&files).output().map_err(|error| error.to_string())?;
    for file in files {
        fs::remove_file(file).map_err(|error| error.to_string())?;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [key, loaded, peak] => Ok(Resident { key, loaded, peak }),
        _ => Err(format!("the loading process said {text:?} and {:?}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Loads the key in `files` and prints the three numbers of [`Resident`].
pub fn load_and_report(files: &[String]) -> Result<(), String> {
    let [key_switch, bootstrap] = files else { return Err("expected two files".into()) };
    let key = load(key_switch, bootstrap)?;
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let kibibytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok())
    };
    let (Some(loaded), Some(peak)) = (kibibytes("VmRSS:"), kibibytes("VmHWM:")) else {
        return Err("the kernel does not report the memory in use".into());
    };
    println!("{} {} {}", key.bytes(), loaded << 10, peak << 10);
    Ok(())
}

fn load(key_switch: &str, bootstrap: &str) -> Result<ServerKey<u64, u64>, String> {
    let open = |path| File::open(path).map(BufReader::new).map_err(|error| format!("{path}: {error}"));
    let key_switch: format::Decoded<SeededKeySwitchKey<u64>> =
        format::decode(open(key_switch)?, &Expected::default()).map_err(|error| error.to_string())?;
    let bootstrap: format::Decoded<SeededBootstrapKey<u64>> =
        format::decode(open(bootstrap)?, &Expected::default()).map_err(|error| error.to_string())?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    ServerKey::expand(key_switch.set, &key_switch.object, &bootstrap.object, threads).map_err(|error| error.to_string())
}

fn write(set: &'static ParameterSet, folder: &Path) -> Result<[PathBuf; 2], String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let mut randomness = Randomness::from_os().map_err(|error| error.to_string())?;
    let client = ClientKey::generate(set, &mut randomness).map_err(|error| error.to_string())?;
    let seeded = Seeded::<u64, u64>::generate(set, &client);
    let files = ["key_switch", "bootstrap"].map(|name| folder.join(format!("peers-{name}-{}.key", std::process::id())));
    let create = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    format::encode(&seeded.key_switch, set, KeyId::NONE, create(&files[0])?).map_err(|error| error.to_string())?;
    format::encode(&seeded.bootstrap, set, KeyId::NONE, create(&files[1])?).map_err(|error| error.to_string())?;
    Ok(files)
}
