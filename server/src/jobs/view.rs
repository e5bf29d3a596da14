//! Jobs as clients see them.

use bytes::Bytes;
use cloakwork_proto::v1;
use cloakwork_scheduler::Stage;
use prost_types::Timestamp;

use super::{JobMeta, JobView, id};

impl JobView {
    /// The job as a protocol message. Small outputs are included if the request asked for inline
    /// outputs.
    pub fn to_proto(&self) -> v1::Job {
        let meta = &*self.meta;
        let tenant = &meta.tenant;
        let end = self.end.as_deref();
        v1::Job {
            name: meta.name(),
            state: self.state.into(),
            program: format!("tenants/{tenant}/programs/{}", meta.program),
            key: format!("tenants/{tenant}/keys/{}", meta.key_id),
            parameter_set: meta.set.name().to_owned(),
            rows: meta.rows,
            pbs_count: meta.pbs_count,
            outputs: self.outputs(),
            error: end.and_then(|end| end.error.clone()),
            create_time: Some(timestamp(meta.created_micros)),
            end_time: end.map(|end| timestamp(end.ended_micros)),
            deadline: Some(timestamp(meta.deadline_micros)),
            output_expire_time: end.and_then(|end| end.outputs_expire_micros).map(timestamp),
            latency: end.map(|end| end.latency.clone()),
            priority: i32::from(meta.priority),
            rows_done: if self.state == v1::JobState::Succeeded { meta.rows } else { self.rows_done },
            attempts: end.map_or(self.attempts, |end| end.latency.attempts),
            stage: self.stage().into(),
            attestation: end.and_then(|end| end.attestation.clone()),
        }
    }

    fn stage(&self) -> v1::JobStage {
        match self.stage.filter(|_| self.state == v1::JobState::Running) {
            None => v1::JobStage::Unspecified,
            Some(Stage::Fetching) => v1::JobStage::Fetching,
            Some(Stage::LoadingKey) => v1::JobStage::LoadingKey,
            Some(Stage::Waiting) => v1::JobStage::Waiting,
            Some(Stage::Computing) => v1::JobStage::Computing,
            Some(Stage::Committing) => v1::JobStage::Committing,
        }
    }

    fn outputs(&self) -> Vec<v1::JobOutput> {
        let outputs = self.end.iter().flat_map(|end| &end.outputs).enumerate();
        let inline = self.meta.inline_outputs;
        outputs
            .map(|(index, output)| v1::JobOutput {
                name: format!("{}/outputs/{index}", self.meta.name()),
                digest: Some(output.to_proto_digest()),
                inline: output.bytes.clone().filter(|_| inline).unwrap_or_else(Bytes::new),
            })
            .collect()
    }
}

impl JobMeta {
    /// The job's resource name.
    pub fn name(&self) -> String {
        format!("tenants/{}/jobs/{}", self.tenant, id::to_text(self.id))
    }
}

/// Converts microseconds of Unix time to the protocol's timestamp.
pub fn timestamp(micros: i64) -> Timestamp {
    Timestamp { seconds: micros.div_euclid(1_000_000), nanos: micros.rem_euclid(1_000_000) as i32 * 1000 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cloakwork_scheduler::JobId;

    use super::*;
    use crate::{
        jobs::{Content, End},
        store::tests::new_job,
    };

    const NAME: &str = "tenants/a/jobs/00000000-0000-0000-0000-000000000001";

    #[test]
    fn a_succeeded_job_shows_its_outputs_and_all_its_rows() {
        let output = Content::inline(Bytes::from_static(b"output"));
        let job = ended(v1::JobState::Succeeded, vec![output.clone()], true).to_proto();
        assert_eq!((&*job.name, job.state(), job.rows_done), (NAME, v1::JobState::Succeeded, 3));
        assert_eq!(
            (&job.program, &job.key),
            (&format!("tenants/a/programs/{}", "01".repeat(32)), &format!("tenants/a/keys/{}", "07".repeat(16)))
        );
        assert_eq!((job.create_time, job.end_time), (Some(timestamp(1_500_000)), Some(timestamp(2_500_000))));
        let expected = v1::JobOutput {
            name: format!("{NAME}/outputs/0"),
            digest: Some(output.to_proto_digest()),
            inline: Bytes::from_static(b"output"),
        };
        assert_eq!(job.outputs, [expected]);
        assert_eq!(job.attestation.as_ref().expect("an attestation").signed, "signed");
        assert_eq!((job.attempts, job.stage()), (4, v1::JobStage::Unspecified));
    }

    #[test]
    fn outputs_are_inline_only_if_the_request_asked_for_them() {
        let outputs = vec![Content::inline(Bytes::from_static(b"output"))];
        let job = ended(v1::JobState::Succeeded, outputs, false).to_proto();
        assert!(job.outputs[0].inline.is_empty() && job.outputs[0].digest.is_some());
    }

    #[test]
    fn a_failed_job_shows_its_error_and_the_rows_that_it_had_done() {
        let job = ended(v1::JobState::Failed, Vec::new(), true).to_proto();
        assert_eq!((job.error.expect("an error").reason, job.rows_done), ("R".to_owned(), 2));
    }

    fn ended(state: v1::JobState, outputs: Vec<Content>, inline_outputs: bool) -> JobView {
        let error = v1::JobError { reason: "R".to_owned(), message: String::new() };
        let end = End {
            state,
            ended_micros: 2_500_000,
            outputs_expire_micros: None,
            error: Some(error).filter(|_| state == v1::JobState::Failed),
            outputs,
            latency: v1::LatencyRecord { attempts: 4, ..v1::LatencyRecord::default() },
            attestation: Some(v1::Attestation { signed: Bytes::from_static(b"signed"), key_parts: Vec::new() }),
        };
        let meta = JobMeta {
            id: JobId(1),
            rows: 3,
            created_micros: 1_500_000,
            inline_outputs,
            ..(*new_job("a", 1).meta).clone()
        };
        // The last report of the worker named a stage.
        let stage = Some(Stage::Computing);
        JobView { meta: Arc::new(meta), state, rows_done: 2, stage, attempts: 1, end: Some(Arc::new(end)) }
    }
}
