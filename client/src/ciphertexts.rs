//! Lists of ciphertexts on the server.

use bytes::{Bytes, BytesMut};
use cloakwork_proto::v1::{self, DeleteRequest, DescribeRequest, GetRequest, JobOutput, PutRequest};
use tonic::Code;

use crate::{
    Asked, Client, ClientError, Digest, Encrypted, Output, Progress, Result, Shape, Source, names,
    response::required,
    retry::{Attempts, retry},
};

/// Largest list that is stored by a single call. Longer lists use resumable uploads.
const PUT_BYTES_MAX: usize = 4 << 20;

/// Largest list that the client accepts, whatever size a server states, because lists are held in
/// memory.
const LIST_BYTES_MAX: u64 = 4 << 30;

/// Bytes of each message of a put.
const CHUNK_BYTES: usize = 1 << 20;

impl Client {
    /// Stores a list under its digest and returns its resource name.
    pub async fn store(&self, list: &Encrypted) -> Result<String> {
        let digest = list.digest();
        if list.envelope.len() > PUT_BYTES_MAX {
            let source = Source::Bytes(list.envelope.clone());
            self.upload("ciphertexts", &source, digest, &Progress::none()).await?;
            return Ok(format!("tenants/{}/ciphertexts/{digest}", self.tenant().await?));
        }
        let messages = put_messages(&list.envelope, digest);
        let answer = retry(self.policy(), || async {
            let stream = tokio_stream::iter(messages.clone());
            Ok(self.ciphertexts().put(stream).await?.into_inner())
        });
        names::checked(required(answer.await?.ciphertext, "ciphertext")?.name)
    }

    /// Description of a list, as far as its envelope tells in the clear.
    pub async fn describe(&self, name: &str) -> Result<v1::Ciphertext> {
        let request = DescribeRequest { name: name.into() };
        let send = |client: Self, request| async move { client.ciphertexts().describe(request).await };
        required(self.call(request, send).await?.ciphertext, "ciphertext")
    }

    /// A list on the server, by its name and the shape that it must have. For the output of a job,
    /// a worker must have signed that the job made it, and that the job is the one asked for.
    pub async fn ciphertext(&self, name: &str, shape: Shape, asked: Option<&Asked>) -> Result<Encrypted> {
        let digest = self.list_digest(name, asked).await?;
        self.known_list(name, digest, shape).await
    }

    /// A list on the server whose digest the client knows.
    pub(crate) async fn known_list(&self, name: &str, digest: Digest, shape: Shape) -> Result<Encrypted> {
        let message = JobOutput { name: name.to_owned(), digest: Some(digest.message()), ..Default::default() };
        self.output(&Output { message, shape }).await
    }

    /// Deletes a list.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let request = DeleteRequest { name: name.into() };
        let send = |client: Self, request| async move { client.ciphertexts().delete(request).await };
        match self.call(request, send).await {
            // An earlier attempt has deleted the list.
            Err(ClientError::Refused(refusal)) if refusal.code == Code::NotFound => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// A job's output, inline or from the server, checked against its digest. At most 4 GiB,
    /// because the output is held in memory. Decryption compares the output with its shape.
    pub async fn output(&self, output: &Output) -> Result<Encrypted> {
        let Output { message, shape } = output;
        let digest = output.digest()?;
        if digest.size_bytes > LIST_BYTES_MAX {
            let problem = format!("{}: {} bytes are more than a list has", message.name, digest.size_bytes);
            return Err(ClientError::malformed(problem));
        }
        let envelope = match message.inline.is_empty() {
            true => self.fetch(&message.name, digest.size_bytes).await?,
            false => message.inline.clone(),
        };
        if Digest::of(&envelope) == digest {
            Ok(Encrypted { envelope, shape: shape.clone() })
        } else {
            Err(ClientError::malformed(format!("the bytes of {} are not those of its digest", message.name)))
        }
    }

    /// Fetches `size` bytes, and resumes whenever the stream breaks off.
    async fn fetch(&self, name: &str, size: u64) -> Result<Bytes> {
        let mut bytes = BytesMut::new();
        let mut attempts = Attempts::new(self.policy());
        loop {
            let before = bytes.len();
            match self.fetch_on(name, size, &mut bytes).await {
                Ok(()) => return Ok(bytes.freeze()),
                Err(error) => {
                    if bytes.len() > before {
                        attempts.progress();
                    }
                    attempts.pause(error).await?;
                }
            }
        }
    }

    async fn fetch_on(&self, name: &str, size: u64, bytes: &mut BytesMut) -> Result<()> {
        let request = GetRequest { name: name.into(), offset_bytes: bytes.len() as u64 };
        let mut stream = self.ciphertexts().get(request).await?.into_inner();
        while let Some(message) = stream.message().await? {
            if (bytes.len() + message.data.len()) as u64 > size {
                return Err(ClientError::malformed(format!("{name} is longer than its digest says")));
            }
            bytes.extend_from_slice(&message.data);
        }
        match bytes.len() as u64 == size {
            true => Ok(()),
            false => Err(ClientError::Transport { problem: format!("{name} ended early") }),
        }
    }
}

fn put_messages(envelope: &Bytes, digest: Digest) -> Vec<PutRequest> {
    let starts = (0..envelope.len().max(1)).step_by(CHUNK_BYTES);
    let message = |start: usize| PutRequest {
        digest: (start == 0).then(|| digest.message()),
        data: envelope.slice(start..envelope.len().min(start + CHUNK_BYTES)),
    };
    starts.map(message).collect()
}
