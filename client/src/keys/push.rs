//! Evaluation keys on the server.

use cloakwork_params::KeyId;
use cloakwork_proto::v1::{self, AddPartRequest, DeleteKeyRequest, GetKeyRequest, ListKeysRequest, RegisterKeyRequest};
use futures_util::Stream;

use super::{EvaluationKey, Keys, Part, digests::digests_of};
use crate::{Client, Progress, Result, Source, client::request_id, names, pages};

impl Client {
    /// Uploads the parts that the server lacks and registers the key. If the server has the key
    /// already, the call adds the parts of further sets. After a broken connection, a second call
    /// resumes, also from another process.
    pub async fn push_key(&self, keys: &Keys, progress: &Progress) -> Result<v1::Key> {
        self.push_parts(keys.parts(), progress).await
    }

    /// Like [`Self::push_key`], for the parts of any key.
    pub async fn push_parts(&self, parts: &[Part], progress: &Progress) -> Result<v1::Key> {
        let parts = self.upload_parts(parts, progress).await?;
        let request = RegisterKeyRequest { request_id: request_id(), parts };
        let send = |client: Self, request| async move { client.keys_stub().register_key(request).await };
        names::key(self.call(request, send).await?.key)
    }

    /// Uploads parts that the server lacks and adds them to a registered key, for example those of
    /// another set. Unlike [`Self::push_key`], this call registers no key, so a key that was
    /// deleted in the meantime stays deleted.
    pub async fn add_parts(&self, name: &str, parts: &[Part], progress: &Progress) -> Result<v1::Key> {
        let parts = self.upload_parts(parts, progress).await?;
        let request = AddPartRequest { request_id: request_id(), name: name.into(), parts };
        let send = |client: Self, request| async move { client.keys_stub().add_part(request).await };
        names::key(self.call(request, send).await?.key)
    }

    async fn upload_parts(&self, parts: &[Part], progress: &Progress) -> Result<Vec<v1::Digest>> {
        let mut digests = Vec::with_capacity(parts.len());
        for part in parts {
            digests.push(part.source.digest().await?);
        }
        self.verification.know(&digests);
        let missing = self.find_missing(&digests).await?;
        let to_send = || parts.iter().zip(&digests).filter(|(_, digest)| missing.contains(digest));
        let total = to_send().map(|(_, digest)| digest.size_bytes).sum();
        let mut sent = 0;
        for (part, digest) in to_send() {
            let sending = match part.shape {
                None => self.upload(&part.kind.to_string(), &part.source, *digest, progress).await,
                // The key has many parts, so report the progress of the whole key.
                Some(_) => self.upload(KEY, &part.source, *digest, &progress.within(KEY, sent, total)).await,
            };
            sending.map_err(|error| match &part.source {
                // The server refused this file.
                Source::File(path) if error.refusal().is_some() => error.of_part(path),
                _ => error,
            })?;
            sent += digest.size_bytes;
        }
        Ok(digests.iter().map(|digest| digest.message()).collect())
    }

    /// The resource name of a key that was pushed before. From here on, the client takes results of
    /// jobs under the key: a worker signs which parts it computed with, and only the parts of keys
    /// that the client has pushed or used are its own.
    pub async fn use_key(&self, key: &impl EvaluationKey) -> Result<String> {
        self.verification.know(&digests_of(key.parts()).await?);
        self.key_name(key.key_id()).await
    }

    /// The resource name of a key.
    pub async fn key_name(&self, key_id: KeyId) -> Result<String> {
        Ok(format!("tenants/{}/keys/{key_id}", self.tenant().await?))
    }

    /// A key by its resource name.
    pub async fn key(&self, name: &str) -> Result<v1::Key> {
        let request = GetKeyRequest { name: name.into() };
        let send = |client: Self, request| async move { client.keys_stub().get_key(request).await };
        names::key(self.call(request, send).await?.key)
    }

    /// The tenant's keys. Further pages are fetched as the stream is read.
    pub fn keys(&self) -> impl Stream<Item = Result<v1::Key>> + Send + Unpin {
        let client = self.clone();
        pages::stream(move |page_token| {
            let client = client.clone();
            async move {
                let request = ListKeysRequest { page_size: 0, page_token };
                let send = |client: Self, request| async move { client.keys_stub().list_keys(request).await };
                let answer = client.call(request, send).await?;
                let keys = answer.keys.into_iter().map(|key| names::key(Some(key)));
                Ok((keys.collect::<Result<_>>()?, answer.next_page_token))
            }
        })
    }

    /// Deletes a key. The server deletes its parts when no live job uses them.
    pub async fn delete_key(&self, name: &str) -> Result<v1::Key> {
        let request = DeleteKeyRequest { name: name.into() };
        let send = |client: Self, request| async move { client.keys_stub().delete_key(request).await };
        names::key(self.call(request, send).await?.key)
    }
}

/// Progress name of a key with many parts.
const KEY: &str = "evaluation key";
