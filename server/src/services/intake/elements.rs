//! The number of elements in the lists of a request, counted before the request is decoded.

use bytes::Bytes;
use cloakwork_circuit::LIMITS;
use prost::{DecodeError, Message};

use crate::{
    error::{ApiError, INVALID_ARGUMENT, QUOTA_EXCEEDED, REQUEST_TOO_LARGE, Reason},
    limits::Limits,
    tenant_limits::OWN_LIMITS,
};

/// Refuses a request with more elements than its handler accepts.
pub(super) fn check(path: &str, message: &[u8], limits: &Limits) -> Result<(), ApiError> {
    let Some(list) = LISTS.iter().find(|list| list.path == path) else { return Ok(()) };
    let count = (list.count)(message).map_err(|error| INVALID_ARGUMENT.error(error.to_string()))?;
    let (got, max) = (count as u64, (list.max)(limits));
    if got <= max {
        return Ok(());
    }
    Err(list.refusal.error(format!("{got} {} in one call: at most {max}", list.elements)))
}

/// The list of messages in the request of a call.
struct List {
    path: &'static str,
    elements: &'static str,
    count: fn(&[u8]) -> Result<usize, DecodeError>,
    max: fn(&Limits) -> u64,
    refusal: Reason,
}

/// Every call whose request is one message with a list of messages. A test compares the table with
/// the protocol.
const LISTS: &[List] = &[
    List {
        path: "/cloakwork.v1.AdminService/SetTenantLimits",
        elements: "limits",
        count: |message| {
            let lists = SetTenantLimits::decode(message)?;
            Ok(lists.limits.len() + lists.removed_limits.len())
        },
        max: |_| OWN_LIMITS.len() as u64,
        refusal: INVALID_ARGUMENT,
    },
    List {
        path: "/cloakwork.v1.BlobService/FindMissing",
        elements: "digests",
        count: |message| Ok(FindMissing::decode(message)?.digests.len()),
        max: |limits| limits.find_missing,
        refusal: REQUEST_TOO_LARGE,
    },
    List {
        path: "/cloakwork.v1.JobService/RunJob",
        elements: "inputs",
        count: inputs,
        max: |_| LIMITS.inputs as u64,
        refusal: REQUEST_TOO_LARGE,
    },
    List {
        path: "/cloakwork.v1.JobService/SubmitJob",
        elements: "inputs",
        count: inputs,
        max: |_| LIMITS.inputs as u64,
        refusal: REQUEST_TOO_LARGE,
    },
    List {
        path: "/cloakwork.v1.KeyService/AddPart",
        elements: "parts",
        count: |message| Ok(AddPart::decode(message)?.parts.len()),
        max: |limits| limits.key_parts,
        refusal: QUOTA_EXCEEDED,
    },
    List {
        path: "/cloakwork.v1.KeyService/RegisterKey",
        elements: "parts",
        count: |message| Ok(RegisterKey::decode(message)?.parts.len()),
        max: |limits| limits.key_parts,
        refusal: QUOTA_EXCEEDED,
    },
];

// Each message below has only the list of the message of its name. Decoding skips all other fields,
// and allocates nothing for elements of type `()`.

#[derive(Clone, PartialEq, Message)]
struct SetTenantLimits {
    #[prost(message, repeated, tag = "2")]
    limits: Vec<()>,
    // Names are no messages. Requests of operators are small (`ADMIN_MESSAGE_BYTES_MAX`), so a list
    // of empty names takes at most a megabyte.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    removed_limits: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct FindMissing {
    #[prost(message, repeated, tag = "1")]
    digests: Vec<()>,
}

#[derive(Clone, PartialEq, Message)]
struct AddPart {
    #[prost(message, repeated, tag = "3")]
    parts: Vec<()>,
}

#[derive(Clone, PartialEq, Message)]
struct RegisterKey {
    #[prost(message, repeated, tag = "2")]
    parts: Vec<()>,
}

/// The message of SubmitJob and of RunJob.
#[derive(Clone, PartialEq, Message)]
struct SubmitJob {
    #[prost(message, optional, tag = "2")]
    spec: Option<JobSpec>,
}

#[derive(Clone, PartialEq, Message)]
struct JobSpec {
    #[prost(message, repeated, tag = "4")]
    inputs: Vec<()>,
}

fn inputs(message: &[u8]) -> Result<usize, DecodeError> {
    Ok(SubmitJob::decode(message)?.spec.map_or(0, |spec| spec.inputs.len()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use cloakwork_proto::v1;
    use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Label};

    use super::*;

    /// A request of each kind with `count` empty elements.
    fn request(path: &str, count: usize) -> Vec<u8> {
        let (digests, request_id) = (vec![v1::Digest::default(); count], "id".to_owned());
        let spec = Some(v1::JobSpec {
            key: "key".to_owned(),
            inputs: vec![v1::JobInput::default(); count],
            ..Default::default()
        });
        match path.rsplit_once('/').expect("a path").1 {
            "SetTenantLimits" => {
                // Both lists count.
                let (limits, removed_limits) =
                    (vec![v1::TenantLimit::default(); count / 2], vec![String::new(); count - count / 2]);
                v1::SetTenantLimitsRequest { name: "tenants/a".to_owned(), limits, removed_limits }.encode_to_vec()
            }
            "FindMissing" => v1::FindMissingRequest { digests }.encode_to_vec(),
            "RunJob" => v1::RunJobRequest { request_id, spec }.encode_to_vec(),
            "SubmitJob" => v1::SubmitJobRequest { request_id, spec }.encode_to_vec(),
            "AddPart" => v1::AddPartRequest { request_id, name: "key".to_owned(), parts: digests }.encode_to_vec(),
            "RegisterKey" => v1::RegisterKeyRequest { request_id, parts: digests }.encode_to_vec(),
            other => panic!("no request for {other}"),
        }
    }

    #[test]
    fn each_request_is_refused_from_the_first_element_beyond_its_limit() {
        let limits = Limits { find_missing: 20, key_parts: 30, ..Limits::default() };
        for (list, max) in LISTS.iter().zip([OWN_LIMITS.len(), 20, 1024, 1024, 30, 30]) {
            let path = list.path;
            assert_eq!(check(path, &request(path, max), &limits), Ok(()), "{path}");
            let refusal = check(path, &request(path, max + 1), &limits).expect_err(path);
            assert_eq!(refusal.reason(), list.refusal, "{path}");
            assert!(refusal.message().contains(&format!("at most {max}")), "{path}: {refusal}");
        }
    }

    #[test]
    fn parts_of_a_split_message_are_added_up() {
        // The decoder merges repeated fields of one message.
        let path = "/cloakwork.v1.JobService/SubmitJob";
        let twice = request(path, 600).repeat(2);
        assert_eq!(
            v1::SubmitJobRequest::decode(&twice[..]).expect("a request").spec.expect("a spec").inputs.len(),
            1200
        );
        assert_eq!(inputs(&twice).expect("a request"), 1200);
        assert!(check(path, &twice, &Limits::default()).is_err());
    }

    /// Decoding would find the fault behind all elements only after it has decoded them.
    #[test]
    fn a_malformed_request_with_a_list_is_refused() {
        for list in LISTS {
            let mut message = request(list.path, 5);
            message.push(0xff);
            let refusal = check(list.path, &message, &Limits::default()).expect_err(list.path);
            assert_eq!(refusal.reason(), INVALID_ARGUMENT, "{}", list.path);
        }
        let other = check("/cloakwork.v1.JobService/GetJob", &[0xff], &Limits::default());
        assert_eq!(other, Ok(()), "a request without a list is left to the decoder");
    }

    /// Whether a message contains a list of messages, at any depth. False for names of scalars and
    /// enumerations.
    fn has_list(name: &str, messages: &BTreeMap<String, DescriptorProto>) -> bool {
        let fields = messages.get(name).map(|message| &message.field[..]).unwrap_or_default();
        fields.iter().any(|field| {
            let is_list = field.label() == Label::Repeated && messages.contains_key(field.type_name());
            is_list || has_list(field.type_name(), messages)
        })
    }

    #[test]
    fn the_table_has_every_call_whose_only_message_has_a_list_of_messages() {
        let protocol = FileDescriptorSet::decode(cloakwork_proto::DESCRIPTORS).expect("descriptors");
        let mut messages = BTreeMap::new();
        for file in &protocol.file {
            for message in &file.message_type {
                messages.insert(format!(".{}.{}", file.package(), message.name()), message.clone());
            }
        }
        let mut expected = BTreeSet::new();
        for file in &protocol.file {
            for service in &file.service {
                for method in service.method.iter().filter(|method| !method.client_streaming()) {
                    if has_list(method.input_type(), &messages) {
                        expected.insert(format!("/{}.{}/{}", file.package(), service.name(), method.name()));
                    }
                }
            }
        }
        assert_eq!(LISTS.iter().map(|list| list.path.to_owned()).collect::<BTreeSet<_>>(), expected);
    }
}
