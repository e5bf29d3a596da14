//! Evaluation keys on the server.

use cloakwork_params::KeyId;
use cloakwork_proto::v1::{self, DeleteKeyRequest, GetKeyRequest, ListKeysRequest, RegisterKeyRequest};
use futures_util::Stream;

use super::Keys;
use crate::{
    Client, Progress, Result,
    client::{request_id, required},
    pages,
};

impl Client {
    /// Uploads the parts that the server lacks and registers the key. Called again after a break, it goes on where it
    /// was, from another process too.
    pub async fn push_key(&self, keys: &Keys, progress: &Progress) -> Result<v1::Key> {
        let mut parts = Vec::with_capacity(keys.parts().len());
        for part in keys.parts() {
            parts.push((part, part.source.digest().await?));
        }
        let digests: Vec<_> = parts.iter().map(|(_, digest)| *digest).collect();
        let missing = self.find_missing(&digests).await?;
        for (part, digest) in parts.iter().filter(|(_, digest)| missing.contains(digest)) {
            self.upload(&part.kind.to_string(), &part.source, *digest, progress).await?;
        }
        let parts = digests.iter().map(|digest| digest.message()).collect();
        let request = RegisterKeyRequest { request_id: request_id(), parts };
        let send = |client: Self, request| async move { client.keys_stub().register_key(request).await };
        required(self.call(request, send).await?.key, "key")
    }

    /// The resource name of a key.
    pub async fn key_name(&self, key_id: KeyId) -> Result<String> {
        Ok(format!("tenants/{}/keys/{key_id}", self.tenant().await?))
    }

    /// A key by its resource name.
    pub async fn key(&self, name: &str) -> Result<v1::Key> {
        let request = GetKeyRequest { name: name.into() };
        let send = |client: Self, request| async move { client.keys_stub().get_key(request).await };
        required(self.call(request, send).await?.key, "key")
    }

    /// The tenant's keys; further pages are fetched as the stream is read.
    pub fn keys(&self) -> impl Stream<Item = Result<v1::Key>> + Send + Unpin {
        let client = self.clone();
        pages::stream(move |page_token| {
            let client = client.clone();
            async move {
                let request = ListKeysRequest { page_size: 0, page_token };
                let send = |client: Self, request| async move { client.keys_stub().list_keys(request).await };
                let answer = client.call(request, send).await?;
                Ok((answer.keys, answer.next_page_token))
            }
        })
    }

    /// Deletes a key; its parts go when no live job uses them any more.
    pub async fn delete_key(&self, name: &str) -> Result<v1::Key> {
        let request = DeleteKeyRequest { name: name.into() };
        let send = |client: Self, request| async move { client.keys_stub().delete_key(request).await };
        required(self.call(request, send).await?.key, "key")
    }
}
