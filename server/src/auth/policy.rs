//! Which call needs which scope: one row for each RPC, and a test that none is forgotten. A call without a row is
//! refused for everybody.

use super::Scope;

/// A row.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Full path, as in the request.
    pub method: &'static str,
    /// Who may call it.
    pub access: Access,
    /// How it counts while it runs.
    pub load: Load,
}

/// Who may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody who can connect.
    Anyone,
    /// Whoever is let in at all.
    Known,
    /// Those with at least one of these.
    AnyOf(&'static [Scope]),
}

/// What a running call takes from the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A place among the requests.
    Request,
    /// The same; the caller sends one message after the other.
    Stream,
    /// A place among those that wait for a job.
    Wait,
    /// A place among the calls that need no token and have one answer.
    Probe,
    /// A place among the calls that need no token and have a stream of answers.
    ProbeStream,
    /// No place: it has a limit of its own, or must work when nothing else does.
    Free,
    /// No place: the stream of a worker, of which there are so many.
    Attached,
}

/// The row of a call.
pub fn rule(path: &str) -> Option<&'static Rule> {
    // Sorted, which a test holds.
    RULES.binary_search_by(|rule| rule.method.cmp(path)).ok().map(|index| &RULES[index])
}

use Access::{AnyOf, Anyone, Known};
use Load::{Attached, Free, Probe, ProbeStream, Request, Stream, Wait};
use Scope::{Jobs, Keys, Read, Worker};

/// The table, sorted by path.
pub const RULES: &[Rule] = &[
    row("/cloakwork.v1.BlobService/AbortUpload", AnyOf(&[Jobs, Keys]), Request),
    row("/cloakwork.v1.BlobService/BeginUpload", AnyOf(&[Jobs, Keys]), Request),
    row("/cloakwork.v1.BlobService/FindMissing", AnyOf(&[Jobs, Keys]), Request),
    row("/cloakwork.v1.BlobService/GetUpload", AnyOf(&[Jobs, Keys]), Request),
    row("/cloakwork.v1.BlobService/ListUploads", AnyOf(&[Jobs, Keys]), Request),
    row("/cloakwork.v1.BlobService/Read", AnyOf(&[Jobs, Keys, Read]), Request),
    row("/cloakwork.v1.BlobService/Write", AnyOf(&[Jobs, Keys]), Stream),
    row("/cloakwork.v1.CapabilityService/GetCapabilities", Known, Request),
    row("/cloakwork.v1.CiphertextService/Delete", AnyOf(&[Jobs]), Request),
    row("/cloakwork.v1.CiphertextService/Describe", AnyOf(&[Jobs, Read]), Request),
    row("/cloakwork.v1.CiphertextService/Get", AnyOf(&[Jobs, Read]), Request),
    row("/cloakwork.v1.CiphertextService/Put", AnyOf(&[Jobs]), Stream),
    row("/cloakwork.v1.JobService/CancelJob", AnyOf(&[Jobs]), Request),
    row("/cloakwork.v1.JobService/GetJob", AnyOf(&[Jobs, Read]), Request),
    row("/cloakwork.v1.JobService/ListJobs", AnyOf(&[Jobs, Read]), Request),
    row("/cloakwork.v1.JobService/RunJob", AnyOf(&[Jobs]), Wait),
    row("/cloakwork.v1.JobService/SubmitJob", AnyOf(&[Jobs]), Request),
    row("/cloakwork.v1.JobService/WatchJob", AnyOf(&[Jobs, Read]), Wait),
    row("/cloakwork.v1.KeyService/AddPart", AnyOf(&[Keys]), Request),
    row("/cloakwork.v1.KeyService/DeleteKey", AnyOf(&[Keys]), Request),
    row("/cloakwork.v1.KeyService/GetKey", AnyOf(&[Jobs, Keys, Read]), Request),
    row("/cloakwork.v1.KeyService/ListKeys", AnyOf(&[Jobs, Keys, Read]), Request),
    row("/cloakwork.v1.KeyService/RegisterKey", AnyOf(&[Keys]), Request),
    row("/cloakwork.v1.ProgramService/Check", AnyOf(&[Jobs, Read]), Request),
    row("/cloakwork.v1.ProgramService/GetProgram", AnyOf(&[Jobs, Read]), Request),
    row("/cloakwork.v1.ProgramService/Register", AnyOf(&[Jobs]), Request),
    // Workers are limited in number, and turning them away under load would only make it worse.
    row("/cloakwork.v1.WorkerService/Attach", AnyOf(&[Worker]), Attached),
    row("/cloakwork.v1.WorkerService/CommitResult", AnyOf(&[Worker]), Free),
    row("/cloakwork.v1.WorkerService/ReadBlob", AnyOf(&[Worker]), Free),
    // Probes carry no token. What the protocol looks like is no secret.
    row("/grpc.health.v1.Health/Check", Anyone, Probe),
    row("/grpc.health.v1.Health/Watch", Anyone, ProbeStream),
    row("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Anyone, ProbeStream),
    row("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Anyone, ProbeStream),
];

const fn row(method: &'static str, access: Access, load: Load) -> Rule {
    Rule { method, access, load }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn every_call_of_the_protocol_has_a_row_and_no_other() {
        let protocol = FileDescriptorSet::decode(cloakwork_proto::DESCRIPTORS).unwrap();
        let mut paths = BTreeSet::new();
        for file in &protocol.file {
            for service in &file.service {
                for method in &service.method {
                    paths.insert(format!("/{}.{}/{}", file.package(), service.name(), method.name()));
                }
            }
        }
        assert!(paths.len() > 20, "the descriptors hold {} calls", paths.len());
        let ours = RULES.iter().map(|rule| rule.method.to_owned()).filter(|path| !path.starts_with("/grpc."));
        assert_eq!(ours.collect::<BTreeSet<_>>(), paths);
    }

    #[test]
    fn the_calls_that_send_many_messages_say_so() {
        let protocol = FileDescriptorSet::decode(cloakwork_proto::DESCRIPTORS).unwrap();
        for file in &protocol.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let load = rule(&path).unwrap().load;
                    let may = matches!(load, Stream | Attached | Free);
                    assert!(may || !method.client_streaming(), "{path}");
                    assert!(load != Stream || method.client_streaming(), "{path}");
                }
            }
        }
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(RULES.is_sorted_by(|left, right| left.method < right.method));
        for known in RULES {
            assert_eq!(rule(known.method), Some(known));
        }
        for unknown in [
            "",
            "/",
            "/cloakwork.v1.JobService/",
            "/cloakwork.v1.JobService/GetJob/",
            "/cloakwork.v1.jobservice/getjob",
        ] {
            assert_eq!(rule(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn only_workers_may_call_what_workers_call_and_nothing_else() {
        for rule in RULES {
            let AnyOf(scopes) = rule.access else { continue };
            let of_workers = rule.method.starts_with("/cloakwork.v1.WorkerService/");
            assert_eq!(scopes.contains(&Worker), of_workers, "{}", rule.method);
            assert!(!of_workers || scopes.len() == 1, "{}", rule.method);
        }
    }

    #[test]
    fn calls_that_need_no_token_are_health_and_reflection_and_have_places_of_their_own() {
        for rule in RULES {
            let open = rule.access == Anyone;
            assert_eq!(rule.method.starts_with("/grpc."), open, "{}", rule.method);
            assert_eq!(matches!(rule.load, Probe | ProbeStream), open, "{}", rule.method);
        }
    }
}
