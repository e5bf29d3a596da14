//! Records of results on vectors that stay on a server, beside the keys that decrypt them.
//!
//! A record holds the request, and the shape that the job's program gives each result. A later
//! command takes both from the record and not from the server, which could state another scale, or
//! return the result of another job. So a record is
//! never replaced: a server that gives its name to a second job would change shapes otherwise.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use cloakwork_client::{Asked, Digest, Shape, Vector, VectorShape, from_hex, params::ckks::CkksSet};
use serde::{Deserialize, Serialize};

use crate::{failure::Failure, output::hex};

/// Name of the directory of records, in the directory of keys. Each job has a file of its own, so
/// that commands that run at once do not meet.
const DIRECTORY: &str = "results";

/// Age of a record that is removed. A server keeps results for a day.
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The results of one job.
#[derive(PartialEq, Serialize, Deserialize)]
struct Record {
    job: String,
    results: Vec<Described>,
    /// Records of earlier versions have no request. Their results are compared with the job's name
    /// alone.
    #[serde(default)]
    asked: Option<Request>,
}

/// The request of a job, with each run of bytes in hexadecimal.
#[derive(PartialEq, Serialize, Deserialize)]
struct Request {
    request: String,
    program: String,
    key: String,
    set: u16,
    rows: Option<u64>,
    inputs: String,
    since_micros: i64,
}

/// A recorded result on a server.
pub(crate) struct Recorded {
    pub(crate) shape: VectorShape,
    pub(crate) asked: Option<Asked>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Described {
    slots_log2: u32,
    level: usize,
    /// The bits of a double, because a decimal number may be read back with another last bit.
    scale_bits: u64,
}

/// Records the results of a job. Results on blocks need no record: their type is their shape.
pub(crate) fn record(keys: &Path, job: &str, asked: &Asked, shapes: &[Shape]) -> Result<(), Failure> {
    let described = |shape: &Shape| match shape {
        Shape::Vector(VectorShape { vector: Vector { slots_log2, level, scale }, .. }) => {
            Some(Described { slots_log2: *slots_log2, level: *level, scale_bits: scale.to_bits() })
        }
        Shape::Blocks(_) => None,
    };
    let Some(results) = shapes.iter().map(described).collect::<Option<Vec<_>>>() else { return Ok(()) };
    let record = Record { job: job.to_owned(), results, asked: Some(Request::of(asked)) };
    let path = path_of(keys, job);
    if store(&record, &path).map_err(|error| failed(&path, &error))? {
        return Ok(());
    }
    match read(&path)? {
        Some(known) if known == record => Ok(()),
        _ => Err(Failure::WrongResult(format!(
            "{job} is a job of an earlier command, with other results: the server has given its name to two jobs"
        ))),
    }
}

/// The record of a result, by its resource name, if a job of this directory's keys has computed it.
pub(crate) fn find(keys: &Path, set: &'static CkksSet, name: &str) -> Result<Option<Recorded>, Failure> {
    let Some((job, index)) = name.split_once("/outputs/") else { return Ok(None) };
    let path = path_of(keys, job);
    let Some(Record { results, asked, .. }) = read(&path)? else { return Ok(None) };
    let asked = match asked.map(|asked| asked.parse()) {
        Some(None) => return Err(Failure::Invalid(format!("{}: a damaged record", path.display()))),
        asked => asked.flatten(),
    };
    let found = index.parse().ok().and_then(|index: usize| results.into_iter().nth(index));
    Ok(found.map(|Described { slots_log2, level, scale_bits }| {
        let vector = Vector { slots_log2, level, scale: f64::from_bits(scale_bits) };
        Recorded { shape: VectorShape { set, vector }, asked }
    }))
}

impl Request {
    fn of(asked: &Asked) -> Self {
        let Asked { request, program, key, set, rows, inputs, since_micros } = asked;
        Self {
            request: hex(request),
            program: hex(program),
            key: hex(key),
            set: *set,
            rows: *rows,
            inputs: hex(inputs),
            since_micros: *since_micros,
        }
    }

    fn parse(self) -> Option<Asked> {
        let Self { request, program, key, set, rows, inputs, since_micros } = self;
        let (request, program, key) = (from_hex(&request)?, from_hex(&program)?, from_hex(&key)?);
        Some(Asked { request, program, key, set, rows, inputs: from_hex(&inputs)?, since_micros })
    }
}

/// The file of a job. A digest of the job's name is a valid file name, whatever the server has
/// called the job.
fn path_of(keys: &Path, job: &str) -> PathBuf {
    let digest = Digest::of(job.as_bytes()).blake3;
    keys.join(DIRECTORY).join(hex(&digest[..16]) + ".json")
}

/// Writes a record and removes old ones. False if the file exists: it is not replaced.
fn store(record: &Record, path: &Path) -> io::Result<bool> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut draft = tempfile::NamedTempFile::new_in(directory)?;
    draft.write_all(&serde_json::to_vec(record)?)?;
    draft.as_file().sync_all()?;
    let now = draft.as_file().metadata()?.modified()?;
    for entry in fs::read_dir(directory)?.flatten() {
        let age = entry.metadata().and_then(|file| file.modified()).map(|time| now.duration_since(time));
        if age.is_ok_and(|age| age.is_ok_and(|age| age > AGE_MAX)) {
            // Another command may have removed it.
            let _ = fs::remove_file(entry.path());
        }
    }
    match draft.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}

fn read(path: &Path) -> Result<Option<Record>, Failure> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| failed(path, &error.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Io(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use cloakwork_client::ckks_set_by_name;

    use super::*;

    fn asked() -> Asked {
        Asked {
            request: [1; 16],
            program: [2; 32],
            key: [3; 16],
            set: 4,
            rows: Some(5),
            inputs: [0xab; 32],
            since_micros: 7,
        }
    }

    fn shapes(scale: f64) -> Vec<Shape> {
        let set = ckks_set_by_name("TOY_CKKS_54_60").expect("a toy");
        let shape = |level| Shape::Vector(VectorShape { set, vector: Vector { slots_log2: 3, level, scale } });
        vec![shape(1), shape(2)]
    }

    #[test]
    fn a_record_gives_back_each_bit_of_a_scale() {
        let keys = tempfile::tempdir().expect("a directory");
        let set = ckks_set_by_name("TOY_CKKS_54_60").expect("a toy");
        let scale = 2_f64.powi(54) * (1.0 + f64::EPSILON);
        let find = |name: &str| {
            find(keys.path(), set, name).expect("a file").map(|recorded| {
                assert_eq!(recorded.asked, Some(asked()));
                Shape::Vector(recorded.shape)
            })
        };
        assert_eq!(find("tenants/a/jobs/1/outputs/0"), None);
        record(keys.path(), "tenants/a/jobs/1", &asked(), &shapes(scale)).expect("a record");
        record(keys.path(), "tenants/a/jobs/2", &asked(), &shapes(1.5)).expect("a record");
        assert_eq!(find("tenants/a/jobs/1/outputs/1"), Some(shapes(scale)[1].clone()));
        for name in ["tenants/a/jobs/1/outputs/2", "tenants/a/jobs/3/outputs/0", "tenants/a/jobs/1", "x/outputs/y"] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn a_second_job_of_one_name_changes_no_shape() {
        let keys = tempfile::tempdir().expect("a directory");
        let (set, job) = (ckks_set_by_name("TOY_CKKS_54_60").expect("a toy"), "tenants/a/jobs/../1");
        record(keys.path(), job, &asked(), &shapes(2.0)).expect("a record");
        record(keys.path(), job, &asked(), &shapes(2.0)).expect("the same job");
        assert!(matches!(record(keys.path(), job, &asked(), &shapes(1.0)), Err(Failure::WrongResult(_))));
        let found = find(keys.path(), set, &format!("{job}/outputs/0")).expect("a file");
        assert_eq!(found.map(|recorded| Shape::Vector(recorded.shape)), Some(shapes(2.0)[0].clone()));
    }

    #[test]
    fn records_are_removed_after_a_week() {
        let keys = tempfile::tempdir().expect("a directory");
        let count = || fs::read_dir(keys.path().join(DIRECTORY)).expect("a directory").count();
        record(keys.path(), "tenants/a/jobs/1", &asked(), &shapes(1.0)).expect("a record");
        let file = fs::File::options().write(true).open(path_of(keys.path(), "tenants/a/jobs/1")).expect("a file");
        let now = file.metadata().and_then(|file| file.modified()).expect("a time");
        file.set_modified(now - AGE_MAX / 2).expect("a time");
        record(keys.path(), "tenants/a/jobs/2", &asked(), &shapes(1.0)).expect("a record");
        assert_eq!(count(), 2);
        file.set_modified(now - AGE_MAX * 2).expect("a time");
        record(keys.path(), "tenants/a/jobs/3", &asked(), &shapes(1.0)).expect("a record");
        assert_eq!(count(), 2);
    }
}
