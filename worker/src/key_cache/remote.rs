//! Keys whose parts come from the server.

use std::io::{self, Read};

use cloakwork_device::KeySource;
use cloakwork_params::{KeyId, ParameterSet};
use cloakwork_proto::v1;
use tokio::runtime::Handle;

use super::KeyRequest;
use crate::blob::BlobReader;

/// A key whose parts come from the server.
pub(crate) struct RemoteKey {
    set: &'static ParameterSet,
    key_id: KeyId,
    contents: Vec<u8>,
    parts: Vec<v1::Digest>,
    blobs: BlobReader,
    runtime: Handle,
}

impl RemoteKey {
    /// Creates the source within the runtime. Its parts are read outside of the runtime.
    pub(crate) fn new(request: &KeyRequest) -> Self {
        Self {
            set: request.set,
            key_id: request.group.key_id,
            contents: contents(request),
            parts: request.parts.clone(),
            blobs: request.blobs.clone(),
            runtime: Handle::current(),
        }
    }
}

/// Identifier of the key's contents: the group for which it is loaded, and the digests of its
/// parts. The group keeps tenants apart, even if their keys have equal bytes.
fn contents(request: &KeyRequest) -> Vec<u8> {
    let mut contents = Vec::new();
    let mut put = |bytes: &[u8]| {
        contents.extend((bytes.len() as u64).to_le_bytes());
        contents.extend_from_slice(bytes);
    };
    put(&request.group.group);
    for part in &request.parts {
        put(&part.blake3);
        put(&part.size_bytes.to_le_bytes());
    }
    contents
}

impl KeySource for RemoteKey {
    fn set(&self) -> &'static ParameterSet {
        self.set
    }

    fn key_id(&self) -> KeyId {
        self.key_id
    }

    fn contents(&self) -> Option<Vec<u8>> {
        Some(self.contents.clone())
    }

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn open(&self, part: usize) -> io::Result<Box<dyn Read + '_>> {
        let digest = self.parts.get(part).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(self.blobs.open(digest, &self.runtime)))
    }
}
