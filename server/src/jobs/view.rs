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
