//! Jobs to send, and their answers.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_circuit::wire;
use cloakwork_math::Torus;
use cloakwork_params::{CiphertextInfo, Expected};
use cloakwork_proto::v1;
use cloakwork_tfhe::{
    LweList,
    format::{CiphertextList, decode, encode},
};
use prost::Message as _;

use crate::{
    host::Keys,
    server::{End, FakeServer},
};

/// A client whose key the server has.
pub struct Client {
    /// The key.
    pub keys: Keys,
    /// Its parts on the server.
    pub parts: Vec<v1::Digest>,
    /// The group of its jobs.
    pub group: Bytes,
    server: Arc<FakeServer>,
}

impl Client {
    /// Generates a key and uploads it.
    pub fn new<T: Torus, S: Torus>(server: &Arc<FakeServer>, set: &str, seed: u64) -> Self {
        let keys = Keys::generate::<T, S>(set, seed);
        let parts = keys.parts.iter().map(|part| server.blob(part.clone())).collect();
        let group = Bytes::copy_from_slice(&seed.to_le_bytes());
        Self { keys, parts, group, server: server.clone() }
    }

    /// One input, and one table after the other.
    pub fn chain(&self, tables: &[Vec<u32>]) -> Bytes {
        let operation = |(index, entries): (usize, &Vec<u32>)| wire::Operation {
            kind: wire::operation::Kind::Lookup.into(),
            arguments: vec![index as u32],
            tables: vec![wire::Table { entries: entries.clone() }],
            ..Default::default()
        };
        self.program(1, 15, tables.iter().enumerate().map(operation).collect(), vec![tables.len() as u32])
    }

    /// A program of blocks.
    pub fn program(
        &self,
        inputs: usize,
        degree_max: u32,
        operations: Vec<wire::Operation>,
        outputs: Vec<u32>,
    ) -> Bytes {
        let input = |index| wire::program::Input {
            name: format!("input {index}"),
            r#type: wire::Type::Block.into(),
            degree_max,
            noise_level_max: 0,
            ..Default::default()
        };
        let parameter_set = self.keys.set.name.to_owned();
        let inputs = (0..inputs).map(input).collect();
        wire::Program { parameter_set, inputs, operations, outputs, ..Default::default() }.encode_to_vec().into()
    }

    /// A job whose one input holds `messages`, a row each; as a blob or inline.
    pub fn job(&mut self, program: &Bytes, messages: &[u64], inline: bool) -> v1::JobContent {
        let list = self.keys.encrypt::<u64>(messages);
        let bytes = Bytes::from(self.envelope(list));
        let source = match inline {
            true => v1::assigned_input::Source::Inline(bytes),
            false => v1::assigned_input::Source::Blob(self.server.blob(bytes)),
        };
        v1::JobContent {
            program: program.clone(),
            group: self.group.clone(),
            key_id: Bytes::copy_from_slice(&self.keys.client.key_id().0),
            parameter_set: self.keys.set.name.to_owned(),
            key_parts: self.parts.clone(),
            inputs: vec![v1::AssignedInput { source: Some(source) }],
            rows: messages.len() as u64,
            priority: 0,
        }
    }

    /// Messages of the one output of a job that succeeded, whose digest is held to its bytes.
    pub fn answer(&self, end: &End) -> Vec<u64> {
        let bytes = end.result.as_ref().expect("a result");
        assert_eq!(end.digests.len(), 1);
        assert_eq!(end.digests[0].blake3[..], blake3::hash(bytes).as_bytes()[..]);
        let expected = Expected { set: Some(self.keys.set), key_id: Some(self.keys.client.key_id()) };
        let list = decode::<CiphertextList<LweList<u64>>>(&bytes[..], &expected).expect("an envelope").object;
        self.keys.decrypt(list.list())
    }

    fn envelope(&self, list: LweList<u64>) -> Vec<u8> {
        let fresh = CiphertextInfo::fresh(self.keys.set);
        let info = vec![CiphertextInfo { degree: fresh.degree, ..fresh }; list.len()];
        let mut bytes = Vec::new();
        let list = CiphertextList::new(list, info).expect("one entry each");
        encode(&list, self.keys.set, self.keys.client.key_id(), &mut bytes).expect("an envelope");
        bytes
    }
}
