//! What commands that compute on vectors have in common.

use std::path::PathBuf;

use cloakwork_client::{CkksKeys, Client, Input, JobRequest, Vector, VectorProgram, proto::JobOutput};
use serde_json::json;

use crate::{
    context::Context,
    failure::Failure,
    latency,
    output::{bytes, show, write_new},
};

/// Runs a program, writes its outputs to files, as far as there are any, and prints what they are.
pub(super) async fn run(
    context: &Context,
    client: &Client,
    keys: &CkksKeys,
    program: VectorProgram,
    inputs: Vec<Input>,
    outs: &[PathBuf],
) -> Result<(), Failure> {
    let vectors: Vec<Vector> = program.outputs().collect();
    if !outs.is_empty() && outs.len() != vectors.len() {
        let (files, results) = (outs.len(), vectors.len());
        return Err(Failure::Usage(format!("{files} files for {results} results: name one --out for each, or none")));
    }
    if let Some(there) = outs.iter().find(|out| out.exists()) {
        return Err(Failure::Usage(format!("{}: it is there already, and is not overwritten", there.display())));
    }
    let key = client.key_name(keys.key_id()).await?;
    let request = inputs.into_iter().fold(JobRequest::new(program, &key), JobRequest::input);
    // What has a file is fetched; what has none stays for the next job.
    let request = if outs.is_empty() { request.outputs_by_name() } else { request };
    let finished = context.run_request(client, &request).await?;
    let outputs: Vec<&JobOutput> = (0..vectors.len()).map(|index| finished.output(index)).collect::<Result<_, _>>()?;
    let mut files = outs.iter();
    let mut described = Vec::with_capacity(outputs.len());
    for output in &outputs {
        let file = files.next();
        if let Some(file) = file {
            write_new(file, &client.output(output).await?)?;
        }
        described.push(file.map_or_else(|| output.name.clone(), |file| file.display().to_string()));
    }
    let record = finished.job.latency.clone().unwrap_or_default();
    let size = |output: &JobOutput| output.digest.as_ref().map_or(0, |digest| digest.size_bytes);
    show(
        context.global.json,
        || {
            let documents = vectors.iter().zip(&outputs).zip(outs.iter().map(Some).chain(std::iter::repeat(None)));
            let documents = documents.map(|((vector, output), file)| {
                json!({ "name": output.name, "file": file, "slots": 1_u64 << vector.slots_log2, "level": vector.level,
                        "scale": vector.scale, "bytes": size(output) })
            });
            json!({ "job": finished.job.name, "outputs": documents.collect::<Vec<_>>(),
                    "latency": latency::document(&record) })
        },
        || {
            let lines = described.iter().zip(&vectors).zip(&outputs).map(|((name, vector), output)| {
                let (slots, level) = (1_u64 << vector.slots_log2, vector.level);
                format!("{name}: {slots} numbers at level {level}, {}\n", bytes(size(output)))
            });
            format!("{}\n{}\n{}", lines.collect::<String>(), finished.job.name, latency::table(&record))
        },
    );
    Ok(())
}

/// Prints what a program would take.
pub(super) async fn plan(context: &Context, client: &Client, program: &VectorProgram) -> Result<(), Failure> {
    let report = client.check_program(program).await?;
    show(
        context.global.json,
        || {
            let outputs = report.output_vectors.iter();
            let outputs =
                outputs.map(|vector| json!({ "slots": vector.slots, "level": vector.level, "scale": vector.scale }));
            json!({ "bootstraps": report.pbs_count, "memory_bytes": report.memory_bytes, "keys": report.keys,
                    "outputs": outputs.collect::<Vec<_>>() })
        },
        || {
            let mut lines = String::new();
            for vector in &report.output_vectors {
                lines += &format!("result              {} numbers at level {}\n", vector.slots, vector.level);
            }
            lines += &format!(
                "bootstraps          {}\nmemory              {}\n",
                report.pbs_count,
                bytes(report.memory_bytes)
            );
            for key in &report.keys {
                lines += &format!("key                 {key}\n");
            }
            lines
        },
    );
    Ok(())
}
