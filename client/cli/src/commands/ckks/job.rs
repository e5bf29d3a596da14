//! Code that commands for vectors share.

use std::{cell::Cell, path::PathBuf};

use cloakwork_client::{
    CkksKeys, CkksWish, Client, ClientError, Finished, Input, JobRequest, Output, Vector, VectorProgram,
    params::ckks::CkksSet,
};
use serde_json::json;

use super::keygen::options;
use crate::{
    context::Context,
    failure::Failure,
    latency,
    output::{bytes, check_new, counted, show, write_new},
};

/// Runs a program, writes its outputs to the named files, if any, and prints a description of each
/// output.
pub(super) async fn run(
    context: &Context,
    client: &Client,
    keys: &CkksKeys,
    program: VectorProgram,
    inputs: Vec<Input>,
    outs: &[PathBuf],
) -> Result<(), Failure> {
    let (vectors, wish) = (program.outputs().collect::<Vec<Vector>>(), program.wish());
    if !outs.is_empty() && outs.len() != vectors.len() {
        let (files, results) = (counted(outs.len() as u64, "file"), counted(vectors.len() as u64, "result"));
        return Err(Failure::Usage(format!("{files} for {results}: name one --out for each, or none")));
    }
    check_files(outs)?;
    let key = client.use_key(keys).await?;
    let request = inputs.into_iter().fold(JobRequest::new(program, &key), JobRequest::input);
    // Outputs with a file are fetched; outputs without a file stay for the next job.
    let request = if outs.is_empty() { request.outputs_by_name() } else { request };
    let finished = context.run_request(client, &request).await;
    let finished = finished.map_err(|failure| explain(context, keys.set(), &wish, failure))?;
    context.record(client, &finished.job, &request).await?;
    let outputs: Vec<Output> = (0..vectors.len()).map(|index| finished.output(index)).collect::<Result<_, _>>()?;
    let written = Cell::new(0);
    let fetched = context.fetch(&finished, write(client, &outputs, outs, &written)).await;
    fetched.map_err(|failure| failure.advised(left(&finished, &outputs, outs, written.get())))?;
    let described = outputs.iter().enumerate().map(|(index, output)| match outs.get(index) {
        Some(file) => file.display().to_string(),
        None => output.message.name.clone(),
    });
    let record = finished.job.latency.clone().unwrap_or_default();
    let size = |output: &Output| output.message.digest.as_ref().map_or(0, |digest| digest.size_bytes);
    show(
        context.global.json,
        || {
            let documents = vectors.iter().zip(&outputs).zip(outs.iter().map(Some).chain(std::iter::repeat(None)));
            let documents = documents.map(|((vector, output), file)| {
                json!({ "name": output.message.name, "file": file, "slots": 1_u64 << vector.slots_log2, "level": vector.level,
                        "scale": vector.scale, "bytes": size(output) })
            });
            json!({ "job": finished.job.name, "outputs": documents.collect::<Vec<_>>(),
                    "latency": latency::document(&record) })
        },
        || {
            let lines = described.zip(&vectors).zip(&outputs).map(|((name, vector), output)| {
                let (count, level) = (counted(1_u64 << vector.slots_log2, "number"), vector.level);
                format!("{name}: {count} at level {level}, {}\n", bytes(size(output)))
            });
            format!("{}\n{}\n{}", lines.collect::<String>(), finished.job.name, latency::table(&record))
        },
    )
}

/// Refuses files that cannot be written, before any computation.
fn check_files(outs: &[PathBuf]) -> Result<(), Failure> {
    // `x` and `./x` are one file.
    let paths: Vec<PathBuf> = outs.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
    for (index, (out, path)) in outs.iter().zip(&paths).enumerate() {
        if paths[..index].contains(path) {
            return Err(Failure::Usage(format!("{}: it is named twice: each result needs a file", out.display())));
        }
        check_new(out)?;
    }
    Ok(())
}

/// Fetches results to their files, if any, and counts the files that were written.
async fn write(client: &Client, outputs: &[Output], files: &[PathBuf], written: &Cell<usize>) -> Result<(), Failure> {
    for (output, file) in outputs.iter().zip(files) {
        let list = client.output(output).await?;
        // The header of the file is trusted later.
        list.check_header()?;
        write_new(file, &list.envelope)?;
        written.set(written.get() + 1);
    }
    Ok(())
}

/// Names of the results on the server that did not reach their files. The first `written` results
/// did.
fn left(finished: &Finished, outputs: &[Output], files: &[PathBuf], written: usize) -> String {
    let places = outputs.iter().zip(files).skip(written);
    let places = places.map(|(output, file)| format!("\n{} for {}", output.message.name, file.display()));
    format!(
        "{} has succeeded, and its results are on the server for now:{}\nAnother job takes them by these names, and so does \
         `cloakwork ckks decrypt`",
        finished.job.name,
        places.collect::<String>()
    )
}

/// Adds advice to the error of a key that lacks a part: parts can only be made together with the
/// key.
fn explain(context: &Context, set: &CkksSet, wish: &CkksWish, failure: Failure) -> Failure {
    let is_incomplete = |error: &ClientError| error.refusal().is_some_and(|it| it.reason == "KEY_INCOMPLETE");
    match failure {
        Failure::Client(error) if is_incomplete(&error) => {
            let (keys, options) = (context.global.keys.display(), options(set, wish));
            let mut advice = format!(
                "No parts can be added to the CKKS key in {keys}. This command makes another key, under which the \
                 numbers must be encrypted again: cloakwork --keys DIR ckks keygen {options}\nThese options are those \
                 of this program alone: add the options of the present key, to keep what that key can do"
            );
            if wish.bootstraps.iter().any(|bootstrap| bootstrap.slots < set.slots()) {
                advice += "\nWhere the key is for a bootstrap of more numbers: `cloakwork ckks encrypt --slots N` makes ciphertexts of N";
            }
            Failure::Advised { error, advice }
        }
        failure => failure,
    }
}

/// Prints the resources that a program would take.
pub(super) async fn plan(context: &Context, client: &Client, program: &VectorProgram) -> Result<(), Failure> {
    let report = client.check_program(program).await?;
    let (key_bytes, matrix_bytes) = (program.key_bytes(), program.matrix_bytes());
    let keygen = format!("cloakwork ckks keygen {}", options(program.set(), &program.wish()));
    show(
        context.global.json,
        || {
            let outputs = report.output_vectors.iter();
            let outputs =
                outputs.map(|vector| json!({ "slots": vector.slots, "level": vector.level, "scale": vector.scale }));
            json!({ "bootstraps": report.pbs_count, "memory_bytes": report.memory_bytes, "key_memory_bytes": key_bytes,
                    "matrix_memory_bytes": matrix_bytes, "keygen": keygen, "keys": report.keys,
                    "outputs": outputs.collect::<Vec<_>>() })
        },
        || {
            let mut lines = String::new();
            for vector in &report.output_vectors {
                lines += &format!(
                    "result              {} at level {}\n",
                    counted(vector.slots.into(), "number"),
                    vector.level
                );
            }
            lines += &format!("bootstraps          {}\n", report.pbs_count);
            for (of, size) in [("numbers", report.memory_bytes), ("keys", key_bytes), ("matrices", matrix_bytes)] {
                lines += &format!("{:<20}{}\n", format!("memory, {of}"), bytes(size));
            }
            lines += &format!("made by             {keygen}\n");
            for key in &report.keys {
                lines += &format!("key                 {key}\n");
            }
            lines
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_needs_its_own_file() {
        let home = tempfile::tempdir().expect("a directory");
        let [x, y] = ["x", "y"].map(|name| home.path().join(name));
        let check = |outs: &[&PathBuf]| {
            let outs: Vec<PathBuf> = outs.iter().map(|out| (*out).clone()).collect();
            check_files(&outs).err().map_or_else(String::new, |failure| failure.to_string())
        };
        assert_eq!(check(&[&x, &y]), "");
        assert!(check(&[&x, &y, &home.path().join("./x")]).contains("named twice"));
        std::fs::write(&y, "there").expect("a file");
        assert!(check(&[&x, &y]).contains("not overwritten"));
    }
}
