//! Records of results on vectors that stay on a server, beside the keys that decrypt them.
//!
//! A record holds the shape that the job's program gives each result. A later command takes the
//! shape from the record and not from the server, which could state another scale.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::Path,
};

use cloakwork_client::{Shape, Vector, VectorShape, params::ckks::CkksSet};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Name of the file in the directory of keys.
const FILE: &str = "results.jsonl";

/// Number of jobs whose records are kept. The file is cut to its newest records at twice this
/// number.
const JOBS_MAX: usize = 1000;

/// The results of one job: a line of the file.
#[derive(Serialize, Deserialize)]
struct Record {
    job: String,
    results: Vec<Described>,
}

#[derive(Serialize, Deserialize)]
struct Described {
    slots_log2: u32,
    level: usize,
    /// The bits of a double, because a decimal number may be read back with another last bit.
    scale_bits: u64,
}

/// Records the results of a job. Results on blocks need no record: their type is their shape.
pub(crate) fn record(keys: &Path, job: &str, shapes: &[Shape]) -> Result<(), Failure> {
    let described = |shape: &Shape| match shape {
        Shape::Vector(VectorShape { vector: Vector { slots_log2, level, scale }, .. }) => {
            Some(Described { slots_log2: *slots_log2, level: *level, scale_bits: scale.to_bits() })
        }
        Shape::Blocks(_) => None,
    };
    let Some(results) = shapes.iter().map(described).collect::<Option<Vec<_>>>() else { return Ok(()) };
    let path = keys.join(FILE);
    let mut line = serde_json::to_vec(&Record { job: job.to_owned(), results }).map_err(io::Error::from)?;
    line.push(b'\n');
    let written = OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| file.write_all(&line));
    written.and_then(|()| trim(&path)).map_err(|error| failed(&path, &error))
}

/// The shape of a result, by its resource name, if a job of this directory's keys has computed it.
pub(crate) fn shape_of(keys: &Path, set: &'static CkksSet, name: &str) -> Result<Option<VectorShape>, Failure> {
    let path = keys.join(FILE);
    let lines = match std::fs::read_to_string(&path) {
        Ok(lines) => lines,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&path, &error)),
    };
    let Some((job, index)) = name.split_once("/outputs/") else { return Ok(None) };
    let records = lines.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok());
    let Some(record) = records.filter(|record| record.job == job).last() else { return Ok(None) };
    let found = index.parse().ok().and_then(|index: usize| record.results.into_iter().nth(index));
    Ok(found.map(|Described { slots_log2, level, scale_bits }| VectorShape {
        set,
        vector: Vector { slots_log2, level, scale: f64::from_bits(scale_bits) },
    }))
}

/// Removes the oldest records of a file that has too many.
fn trim(path: &Path) -> io::Result<()> {
    let lines = std::fs::read_to_string(path)?;
    let count = lines.lines().count();
    if count < 2 * JOBS_MAX {
        return Ok(());
    }
    let newest: String = lines.split_inclusive('\n').skip(count - JOBS_MAX).collect();
    let mut draft = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    draft.write_all(newest.as_bytes())?;
    draft.persist(path).map(drop).map_err(|error| error.error)
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Io(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use cloakwork_client::ckks_set_by_name;

    use super::*;

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
        let find = |name: &str| shape_of(keys.path(), set, name).expect("a file").map(Shape::Vector);
        assert_eq!(find("tenants/a/jobs/1/outputs/0"), None);
        record(keys.path(), "tenants/a/jobs/1", &shapes(scale)).expect("a record");
        record(keys.path(), "tenants/a/jobs/2", &shapes(1.5)).expect("a record");
        assert_eq!(find("tenants/a/jobs/1/outputs/1"), Some(shapes(scale)[1].clone()));
        for name in ["tenants/a/jobs/1/outputs/2", "tenants/a/jobs/3/outputs/0", "tenants/a/jobs/1", "x/outputs/y"] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn the_newest_records_are_kept() {
        let keys = tempfile::tempdir().expect("a directory");
        for number in 0..2 * JOBS_MAX {
            record(keys.path(), &format!("tenants/a/jobs/{number}"), &shapes(1.0)).expect("a record");
        }
        let lines = std::fs::read_to_string(keys.path().join(FILE)).expect("a file");
        assert_eq!(lines.lines().count(), JOBS_MAX);
        assert!(lines.ends_with('\n') && lines.starts_with(&format!("{{\"job\":\"tenants/a/jobs/{JOBS_MAX}\"")));
    }
}
