//! The access policy: one row for each RPC with the scopes that it needs. A test checks that no RPC
//! is missing. A call without a row is refused for every caller.

use super::Scope;

/// A row of the policy.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Full path of the method, as in the request.
    pub method: &'static str,
    /// The callers that may call the method.
    pub access: Access,
    /// The limit against which the running call counts.
    pub load: Load,
    /// Maximum number of bytes of each message from the caller, or `None` where only the limit
    /// `message_bytes` applies.
    pub message_bytes_max: Option<u32>,
}

/// The callers that may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any caller that can connect.
    Anyone,
    /// Any authenticated caller.
    Known,
    /// Callers with at least one of these scopes.
    AnyOf(&'static [Scope]),
}

/// A port for gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The port of tenants and workers.
    Api,
    /// The port of operators.
    Operator,
}

/// The limit that a running call counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Counts against the limit on requests.
    Request,
    /// Counts against the limit on requests. The caller sends a stream of messages.
    Stream,
    /// Counts against the limit on calls that wait for a job.
    Wait,
    /// Counts against the limit on calls that need no token and have one answer.
    Probe,
    /// Counts against the limit on calls that need no token and have a stream of answers.
    ProbeStream,
    /// Counts against no limit here. The call has a limit of its own, or must work when the server
    /// is overloaded.
    Free,
    /// Counts against the limit on streams of workers.
    Attached,
}

/// Maximum number of bytes of a worker's report. A report with as many leases, points and resident
/// keys as the server reads is shorter.
pub const REPORT_MESSAGE_BYTES_MAX: u32 = 512 << 10;

/// Maximum number of bytes of a message to the service of operators.
pub const ADMIN_MESSAGE_BYTES_MAX: u32 = 64 << 10;

/// Returns the row of a method.
pub fn rule(path: &str) -> Option<&'static Rule> {
    // The table is sorted by path, which a test checks.
    RULES.binary_search_by(|rule| rule.method.cmp(path)).ok().map(|index| &RULES[index])
}

use Access::{AnyOf, Anyone, Known};
use Load::{Attached, Free, Probe, ProbeStream, Request, Stream, Wait};
use Scope::{Admin, Jobs, Keys, Read, Worker};

/// The table, sorted by path.
pub const RULES: &[Rule] = &[
    // Calls of operators, on a port of their own.
    row("/cloakwork.v1.AdminService/CreateTenant", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/CreateToken", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/DeleteTenant", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/DrainWorker", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/GetUsage", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/ListAllJobs", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/ListAuditEntries", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/ListPools", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/ListTenants", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/ListTokens", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/ListWorkers", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/ResumeWorker", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/RevokeTenant", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/RevokeToken", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.AdminService/SetTenantLimits", AnyOf(&[Admin]), Request).at_most(ADMIN_MESSAGE_BYTES_MAX),
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
    // Streams of workers have places of their own. Refusing workers because of other calls would
    // make the load worse.
    row("/cloakwork.v1.WorkerService/Attach", AnyOf(&[Worker]), Attached).at_most(REPORT_MESSAGE_BYTES_MAX),
    row("/cloakwork.v1.WorkerService/CommitResult", AnyOf(&[Worker]), Free),
    row("/cloakwork.v1.WorkerService/ReadBlob", AnyOf(&[Worker]), Free),
    // Health checks carry no token. Reflection needs none, because the protocol is public.
    row("/grpc.health.v1.Health/Check", Anyone, Probe),
    row("/grpc.health.v1.Health/Watch", Anyone, ProbeStream),
    row("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Anyone, ProbeStream),
    row("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Anyone, ProbeStream),
];

const fn row(method: &'static str, access: Access, load: Load) -> Rule {
    Rule { method, access, load, message_bytes_max: None }
}

impl Rule {
    /// Whether the call is part of the protocol of workers.
    pub fn is_of_workers(&self) -> bool {
        matches!(self.access, AnyOf(&[Worker]))
    }

    /// Whether the call is part of the service of operators.
    pub fn is_of_operators(&self) -> bool {
        matches!(self.access, AnyOf(&[Admin]))
    }

    /// Whether the call is served on this port. Health and reflection are served on both.
    pub fn is_served_on(&self, port: Port) -> bool {
        self.access == Anyone || self.is_of_operators() == (port == Port::Operator)
    }

    /// Limits the caller's messages. The edge refuses a longer message by its announced length,
    /// before memory is allocated for the message.
    const fn at_most(self, message_bytes: u32) -> Self {
        Self { message_bytes_max: Some(message_bytes), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn the_table_has_exactly_one_row_for_each_call_of_the_protocol() {
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
    fn client_streaming_calls_have_a_streaming_load() {
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
    fn the_worker_scope_opens_exactly_the_worker_service() {
        for rule in RULES {
            let AnyOf(scopes) = rule.access else { continue };
            let of_workers = rule.method.starts_with("/cloakwork.v1.WorkerService/");
            assert_eq!(scopes.contains(&Worker), of_workers, "{}", rule.method);
            assert_eq!(rule.is_of_workers(), of_workers, "{}", rule.method);
        }
    }

    #[test]
    fn the_admin_scope_opens_exactly_the_service_of_operators_on_its_own_port() {
        for rule in RULES {
            let of_operators = rule.method.starts_with("/cloakwork.v1.AdminService/");
            let opens = matches!(rule.access, AnyOf(scopes) if scopes.contains(&Admin));
            assert_eq!((opens, rule.is_of_operators()), (of_operators, of_operators), "{}", rule.method);
            assert_eq!(rule.is_served_on(Port::Operator), of_operators || rule.access == Anyone, "{}", rule.method);
            assert_eq!(rule.is_served_on(Port::Api), !of_operators, "{}", rule.method);
        }
    }

    #[test]
    fn exactly_health_and_reflection_need_no_token_and_count_as_probes() {
        for rule in RULES {
            let open = rule.access == Anyone;
            assert_eq!(rule.method.starts_with("/grpc."), open, "{}", rule.method);
            assert_eq!(matches!(rule.load, Probe | ProbeStream), open, "{}", rule.method);
        }
    }
}
