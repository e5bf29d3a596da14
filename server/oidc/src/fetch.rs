//! Fetches the key set of an issuer.

use std::{error::Error, fmt::Write as _, fs, time::Duration};

use reqwest::{Certificate, Client, Response, StatusCode, Url, header::ACCEPT, redirect};
use serde::Deserialize;

use crate::{
    key::{Keys, SetError},
    options::{Options, OptionsError, is_loopback, secure_url},
};

/// Longest time for a fetch: of the issuer's description and of its keys together.
const FETCH_TIME_MAX: Duration = Duration::from_secs(5);

/// Maximum size of an answer of the issuer in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Why a fetch of keys has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The issuer has not answered in time.
    #[error("no complete answer came within {} seconds", FETCH_TIME_MAX.as_secs())]
    TimedOut,
    /// The connection failed.
    #[error("{0}")]
    Connection(String),
    /// The answer is a redirection.
    #[error("the answer redirects, and redirections are not followed")]
    Redirected,
    /// The answer has another status than 200.
    #[error("the answer has the status {0}")]
    Status(u16),
    /// The answer is too large.
    #[error("the answer has more than {} bytes", ANSWER_BYTES_MAX)]
    TooLarge,
    /// The description of the issuer cannot be read.
    #[error("the description of the issuer (openid-configuration) is malformed")]
    Description,
    /// The description is that of another issuer.
    #[error("the description of the issuer names another issuer than the setting")]
    OtherIssuer,
    /// The description names an address of the keys that cannot be trusted.
    #[error("the address of the keys (jwks_uri) in the description of the issuer is not an https URL")]
    KeysAddress,
    /// The key set cannot be read.
    #[error("the key set is malformed")]
    Keys,
    /// The key set is too large.
    #[error("the key set has too many keys")]
    TooManyKeys,
}

/// Fetches the keys of one issuer.
pub(crate) struct Fetcher {
    client: Client,
    issuer: String,
    first_url: Url,
    /// Whether the first answer is the issuer's description, which names the address of the keys.
    discovers: bool,
}

/// The two members of an issuer's description that are read. Others are ignored.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    jwks_uri: String,
}

impl Fetcher {
    /// Builds the client and reads the file of the authority.
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        let first_url = options.first_url()?;
        // An error means only that the process already has a provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("cloakwork/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false);
        if is_loopback(&first_url) {
            // A proxy has other loopback addresses.
            builder = builder.no_proxy();
        }
        let client = match &options.ca_file {
            None => builder.build().map_err(|error| OptionsError::new("issuer", with_causes(&error)))?,
            Some(path) => {
                let wrong = |problem: String| OptionsError::new("ca_file", format!("{}: {problem}", path.display()));
                let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
                let authorities = Certificate::from_pem_bundle(&text).unwrap_or_default();
                if authorities.is_empty() {
                    return Err(wrong("must hold certificates in PEM".to_owned()));
                }
                builder.tls_certs_only(authorities).build().map_err(|error| wrong(with_causes(&error)))?
            }
        };
        Ok(Self { client, issuer: options.issuer.clone(), first_url, discovers: options.jwks_url.is_none() })
    }

    /// The issuer, for log messages.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Fetches the keys.
    pub(crate) async fn fetch(&self) -> Result<Keys, Failure> {
        tokio::time::timeout(FETCH_TIME_MAX, self.keys()).await.unwrap_or(Err(Failure::TimedOut))
    }

    async fn keys(&self) -> Result<Keys, Failure> {
        let mut answer = self.get(self.first_url.clone()).await?;
        if self.discovers {
            answer = self.get(self.keys_url(&answer)?).await?;
        }
        Keys::parse(&answer).map_err(|error| match error {
            SetError::Malformed => Failure::Keys,
            SetError::TooMany => Failure::TooManyKeys,
        })
    }

    /// The address of the keys in a description. An issuer of https cannot name an address of http,
    /// which a loopback address could otherwise be.
    fn keys_url(&self, description: &[u8]) -> Result<Url, Failure> {
        let description: Description = serde_json::from_slice(description).map_err(|_| Failure::Description)?;
        if description.issuer != self.issuer {
            return Err(Failure::OtherIssuer);
        }
        secure_url(&description.jwks_uri)
            .filter(|url| url.scheme() == "https" || self.first_url.scheme() == "http")
            .ok_or(Failure::KeysAddress)
    }

    async fn get(&self, url: Url) -> Result<Vec<u8>, Failure> {
        let answer =
            self.client.get(url).header(ACCEPT, "application/json").send().await.map_err(|error| failed(&error))?;
        match answer.status() {
            StatusCode::OK => body(answer).await,
            status if status.is_redirection() => Err(Failure::Redirected),
            status => Err(Failure::Status(status.as_u16())),
        }
    }
}

async fn body(mut answer: Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| failed(&error))? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(Failure::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

fn failed(error: &reqwest::Error) -> Failure {
    if error.is_timeout() { Failure::TimedOut } else { Failure::Connection(with_causes(error)) }
}

/// The message of an error and of its causes. The outermost message alone says little.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {inner}");
        cause = inner.source();
    }
    text
}
