//! Renewal of a worker's certificate while its stream is open.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cloakwork_attestation::{Certificate, PublicKey};
use cloakwork_scheduler::WorkerId;
use tokio::{sync::watch, time::sleep};
use tonic::Status;

use super::Installation;
use crate::error::ApiError;

/// Keeps a worker's certificate valid.
pub struct Renewal {
    installation: Arc<Installation>,
    worker: WorkerId,
    key: PublicKey,
    certificate: Certificate,
    sent: watch::Sender<Bytes>,
}

/// Pause between two attempts at a renewal, and longest sleep: the clock may be set meanwhile.
const PAUSE: Duration = Duration::from_secs(60);

impl Renewal {
    /// Certifies a worker's key, unless the worker has a valid certificate. A worker that attaches
    /// again then waits for no signature, and needs none while signing fails.
    pub async fn begin(
        installation: Arc<Installation>,
        worker: WorkerId,
        key: PublicKey,
        latest: Option<Certificate>,
    ) -> Result<Self, ApiError> {
        let certificate = match latest.filter(|latest| installation.is_valid(latest, worker, key)) {
            Some(latest) => latest,
            None => installation.certify(worker, key).await?,
        };
        let sent = watch::Sender::new(certificate.encode().into());
        Ok(Self { installation, worker, key, certificate, sent })
    }

    /// Makes all later renewals fail.
    #[cfg(test)]
    pub(super) fn fail(&mut self) {
        struct Failing(PublicKey);

        #[tonic::async_trait]
        impl super::Certifier for Failing {
            fn installation(&self) -> PublicKey {
                self.0
            }

            async fn certify(&self, _: cloakwork_attestation::Claim) -> Result<Certificate, String> {
                Err("by the test".to_owned())
            }
        }

        let installation = Arc::get_mut(&mut self.installation).expect("no other user");
        installation.certifier = Box::new(Failing(installation.certifier.installation()));
    }

    /// The latest certificate, encoded.
    pub fn certificates(&self) -> watch::Receiver<Bytes> {
        self.sent.subscribe()
    }

    /// Renews the certificate when half of its life has passed. Ends with an error when the
    /// certificate has expired: without one, the worker's results would be refused.
    pub async fn run(mut self) -> Status {
        loop {
            let now = self.installation.clock.unix_micros();
            let (renewal, end) =
                (self.installation.renewal_time(&self.certificate), self.certificate.claim().not_after_micros);
            if now < renewal {
                let left = u64::try_from(renewal.saturating_sub(now)).unwrap_or(0);
                sleep(Duration::from_micros(left).min(PAUSE)).await;
                continue;
            }
            match self.installation.certify(self.worker, self.key).await {
                Ok(certificate) => {
                    self.certificate = certificate;
                    self.sent.send_replace(certificate.encode().into());
                }
                Err(error) if now >= end => return error.into(),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}
