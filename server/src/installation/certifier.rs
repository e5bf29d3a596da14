//! The holder of the installation's key: a file, or a program of the operator.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use cloakwork_attestation::{Anchor, Certificate, Claim, InstallationKey, PublicKey};
use cloakwork_proto::printable_at_most;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    time::timeout,
};

/// Signs certificates.
#[tonic::async_trait]
pub(super) trait Certifier: Send + Sync {
    /// The public key that certificates are signed under.
    fn installation(&self) -> PublicKey;

    /// Signs a claim of this installation. The error says why this failed, for the log.
    async fn certify(&self, claim: Claim) -> Result<Certificate, String>;
}

/// A key in this process, from a file.
pub(super) struct KeyInFile(pub(super) InstallationKey);

#[tonic::async_trait]
impl Certifier for KeyInFile {
    fn installation(&self) -> PublicKey {
        self.0.public()
    }

    async fn certify(&self, claim: Claim) -> Result<Certificate, String> {
        Ok(Certificate::sign(&self.0, claim))
    }
}

/// A program of the operator, in front of a key management service or a hardware module. The
/// program reads the bytes to sign from its input, and writes the signature to its output.
pub(super) struct SignCommand {
    program: PathBuf,
    installation: PublicKey,
}

/// Longest run of the program.
const SIGN_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of its error output that the log shows.
const SHOWN_BYTES: u64 = 200;

impl SignCommand {
    /// A program that signs under the first key of an anchor.
    pub(super) fn new(program: &Path, anchor: &Anchor) -> Self {
        Self { program: program.to_owned(), installation: anchor.keys()[0] }
    }

    async fn run(&self, message: &[u8]) -> Result<[u8; 64], String> {
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A run that takes too long is dropped, and the program must not go on.
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut input), Some(output), Some(errors)) = pipes else { return Err("no pipes".to_owned()) };
        let write = async move {
            // A program that signs nothing need not read. Its exit status tells.
            let _ = input.write_all(message).await;
        };
        // One byte more than a signature shows an output that is too long. Each pipe closes as soon
        // as enough was read, so that no program waits for a reader.
        let (signature, shown, ()) = tokio::join!(read(output, 65), read(errors, SHOWN_BYTES), write);
        let (signature, shown) = (signature?, shown?);
        let status = child.wait().await.map_err(|error| error.to_string())?;
        if !status.success() {
            let shown = printable_at_most(String::from_utf8_lossy(&shown).trim(), SHOWN_BYTES as usize);
            return Err(format!("attestation.sign_command ended with {status}: {shown}"));
        }
        let length = signature.len();
        signature.try_into().map_err(|_| match length {
            65 => "attestation.sign_command wrote more than the 64 bytes of a signature".to_owned(),
            _ => format!("attestation.sign_command wrote {length} bytes: a signature has 64"),
        })
    }
}

/// Reads up to `bytes_max` bytes, and closes the pipe.
async fn read(pipe: impl AsyncRead + Unpin, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    pipe.take(bytes_max).read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[tonic::async_trait]
impl Certifier for SignCommand {
    fn installation(&self) -> PublicKey {
        self.installation
    }

    async fn certify(&self, claim: Claim) -> Result<Certificate, String> {
        let signature = timeout(SIGN_TIMEOUT, self.run(&claim.encode())).await;
        let signature = signature.map_err(|_| format!("attestation.sign_command took over {SIGN_TIMEOUT:?}"))??;
        Certificate::signed(claim, signature)
            .map_err(|_| "attestation.sign_command signs under another key than the first of attestation.anchor".into())
    }
}
