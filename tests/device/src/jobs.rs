//! Jobs that tests submit, and their answers.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_circuit::wire;
use cloakwork_math::Torus;
use cloakwork_params::{CiphertextInfo, Expected, table::companion_of};
use cloakwork_proto::v1;
use cloakwork_tfhe::{
    LweList,
    format::{CiphertextList, ListForm, decode, encode},
};
use prost::Message as _;

use crate::{
    host::Keys,
    server::{End, FakeServer},
};

/// A client whose key is on the server.
pub struct Client {
    /// The key.
    pub keys: Keys,
    /// Digests of the key's parts on the server.
    pub parts: Vec<v1::Digest>,
    /// Group of the client's jobs.
    pub group: Bytes,
    /// Key of the set's companion, which jobs then name.
    companion: Option<v1::CompanionKey>,
    server: Arc<FakeServer>,
}

impl Client {
    /// Generates a key and uploads it.
    pub fn new<T: Torus, S: Torus>(server: &Arc<FakeServer>, set: &str, seed: u64) -> Self {
        let keys = Keys::generate::<T, S>(set, seed);
        let parts = keys.parts.iter().map(|part| server.blob(part.clone())).collect();
        let group = Bytes::copy_from_slice(&seed.to_le_bytes());
        Self { keys, parts, group, companion: None, server: server.clone() }
    }

    /// Generates the key of the set's companion and uploads it, if the set has a companion.
    pub fn add_companion<T: Torus, S: Torus>(&mut self) {
        let Some(companion) = companion_of(self.keys.set) else { return };
        let parts = self.keys.add::<T, S>(companion.set);
        self.companion = Some(v1::CompanionKey {
            parameter_set: companion.set.name.to_owned(),
            group: [&self.group[..], b" companion"].concat().into(),
            key_parts: parts.into_iter().map(|part| self.server.blob(part)).collect(),
        });
    }

    /// A program with one input that passes through the tables in sequence.
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

    /// A job with one input that holds `messages`, one in each row. The input is a blob or inline.
    pub fn job(&mut self, program: &Bytes, messages: &[u64], inline: bool) -> v1::JobContent {
        let list = self.keys.encrypt::<u64>(messages);
        let bytes = self.envelope(list, CiphertextInfo::fresh(self.keys.set).degree);
        let source = match inline {
            true => v1::assigned_input::Source::Inline(bytes),
            false => v1::assigned_input::Source::Blob(self.server.blob(bytes)),
        };
        self.content(program, vec![source], messages.len() as u64)
    }

    /// A job of one row with freshly encrypted inputs. An input gives the largest message that a
    /// block may hold, and the messages of its blocks.
    pub fn fresh_job(&mut self, program: &Bytes, inputs: &[(u32, Vec<u64>)]) -> v1::JobContent {
        let mut sources = Vec::with_capacity(inputs.len());
        for (largest, messages) in inputs {
            let Keys { client, set, randomness, .. } = &mut self.keys;
            let list = client.encrypt_seeded::<u64>(set, messages, randomness).expect("ciphertexts");
            sources.push(v1::assigned_input::Source::Inline(self.envelope(list, *largest)));
        }
        self.content(program, sources, 1)
    }

    /// A job on inputs of several blocks in each row. Each input gives the messages of all rows.
    pub fn wide_job(&mut self, program: &Bytes, inputs: &[Vec<u64>], rows: u64) -> v1::JobContent {
        let degree = CiphertextInfo::fresh(self.keys.set).degree;
        let mut sources = Vec::with_capacity(inputs.len());
        for messages in inputs {
            let list = self.keys.encrypt::<u64>(messages);
            sources.push(v1::assigned_input::Source::Inline(self.envelope(list, degree)));
        }
        self.content(program, sources, rows)
    }

    /// The ciphertexts of the single output of a job that succeeded.
    pub fn ciphertexts(&self, end: &End) -> CiphertextList<LweList<u64>> {
        let bytes = end.result.clone().expect("a result");
        let expected = Expected { set: Some(self.keys.set), key_id: Some(self.keys.client.key_id()) };
        decode(&bytes[..], &expected).expect("an envelope").object
    }

    /// Messages of the single output of a job that succeeded.
    pub fn answer(&self, end: &End) -> Vec<u64> {
        let mut answers = self.answers(end);
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Messages of each output of a job that succeeded. Checks the digests against the bytes.
    pub fn answers(&self, end: &End) -> Vec<Vec<u64>> {
        let mut rest = end.result.clone().expect("a result");
        let expected = Expected { set: Some(self.keys.set), key_id: Some(self.keys.client.key_id()) };
        let answer = |digest: &v1::Digest| {
            let bytes = rest.split_to(digest.size_bytes as usize);
            assert_eq!(digest.blake3[..], blake3::hash(&bytes).as_bytes()[..]);
            let list = decode::<CiphertextList<LweList<u64>>>(&bytes[..], &expected).expect("an envelope").object;
            self.keys.decrypt(list.list())
        };
        let answers = end.digests.iter().map(answer).collect();
        assert!(rest.is_empty(), "bytes that belong to no output");
        answers
    }

    fn content(&self, program: &Bytes, sources: Vec<v1::assigned_input::Source>, rows: u64) -> v1::JobContent {
        v1::JobContent {
            program: program.clone(),
            group: self.group.clone(),
            key_id: Bytes::copy_from_slice(&self.keys.client.key_id().0),
            parameter_set: self.keys.set.name.to_owned(),
            key_parts: self.parts.clone(),
            inputs: sources.into_iter().map(|source| v1::AssignedInput { source: Some(source) }).collect(),
            rows,
            priority: 0,
            companion: self.companion.clone(),
            request_id: Bytes::from_static(b"the request's id"),
            ..Default::default()
        }
    }

    fn envelope<L: ListForm>(&self, list: L, degree: u32) -> Bytes {
        let fresh = CiphertextInfo::fresh(self.keys.set);
        let info = vec![CiphertextInfo { degree, ..fresh }; list.count()];
        let mut bytes = Vec::new();
        let list = CiphertextList::new(list, info).expect("one entry each");
        encode(&list, self.keys.set, self.keys.client.key_id(), &mut bytes).expect("an envelope");
        bytes.into()
    }
}
