//! Signatures of requests to a bucket, at the time of another machine.
//!
//! S3 refuses a request whose time is more than 15 minutes off. The client library signs with the
//! time of this machine. A server goes by the clock of its database, so if the clock of its machine
//! is wrong, the requests are signed again with the time of the database.
//!
//! The signature is version 4 of AWS: a MAC, under a key of the day, over the method, the path, the
//! query, some headers and the digest of the body.

use std::sync::{Arc, OnceLock, Weak};

use chrono::{DateTime, Utc};
use cloakwork_clock::Clock;
use object_store::{
    ClientOptions, CredentialProvider,
    aws::{AmazonS3, AwsCredential},
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    },
};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use ring::{digest, hmac};

/// Makes the connections of the client library to a bucket.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    clock: Clock,
    credentials: Arc<OnceLock<Credentials>>,
}

/// The credentials of the client library, which itself holds the connections.
type Credentials = Weak<dyn CredentialProvider<Credential = AwsCredential>>;

impl Connector {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, credentials: Arc::default() }
    }

    /// Uses the credentials of the client library, which exists only after its connector.
    pub(super) fn take_credentials(&self, of: &AmazonS3) {
        // A second client of one connector would have the same credentials.
        let _ = self.credentials.set(Arc::downgrade(of.credentials()));
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Connection { client, connector: self.clone() }))
    }
}

#[derive(Debug)]
struct Connection {
    client: HttpClient,
    connector: Connector,
}

#[async_trait::async_trait]
impl HttpService for Connection {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Connector { clock, credentials } = &self.connector;
        let signed = request.headers().get(AUTHORIZATION).and_then(Signed::parse);
        // A request without a signature asks another service for credentials.
        if clock.moved_micros() != 0
            && let Some(signed) = signed
            && let Some(credentials) = credentials.get().and_then(Weak::upgrade)
        {
            let credential = credentials.get_credential().await.map_err(failed)?;
            let now = DateTime::from_timestamp_micros(clock.unix_micros()).unwrap_or_default();
            sign(&mut request, &signed, &credential, now).map_err(failed)?;
        }
        self.client.execute(request).await
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}

/// The properties of a signature that another signature keeps.
#[derive(Debug, PartialEq)]
struct Signed {
    region: String,
    service: String,
    /// Names of headers in order, separated by semicolons.
    headers: String,
}

impl Signed {
    fn parse(authorization: &HeaderValue) -> Option<Self> {
        let fields = authorization.to_str().ok()?.strip_prefix(ALGORITHM)?;
        let field = |name: &str| fields.split(',').find_map(|field| field.trim().strip_prefix(name));
        // An id of a key may have slashes.
        let mut scope = field("Credential=")?.rsplit('/').skip(1);
        let (service, region) = (scope.next()?.to_owned(), scope.next()?.to_owned());
        Some(Self { region, service, headers: field("SignedHeaders=")?.to_owned() })
    }
}

/// Replaces the time and the signature of a request.
fn sign(
    request: &mut HttpRequest,
    signed: &Signed,
    credential: &AwsCredential,
    now: DateTime<Utc>,
) -> Result<(), reqwest::header::InvalidHeaderValue> {
    let (day, time) = (now.format("%Y%m%d").to_string(), now.format("%Y%m%dT%H%M%SZ").to_string());
    request.headers_mut().insert(DATE, HeaderValue::from_str(&time)?);
    // The credentials may have changed since the first signature.
    request.headers_mut().remove(TOKEN);
    let mut names: Vec<&str> = signed.headers.split(';').filter(|name| *name != TOKEN).collect();
    if let Some(token) = &credential.token {
        request.headers_mut().insert(TOKEN, HeaderValue::from_str(token)?);
        names.push(TOKEN);
        names.sort_unstable();
    }
    let headers = &names.join(";");
    let Signed { region, service, .. } = signed;
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let canonical = digest::digest(&digest::SHA256, canonical(request, headers).as_bytes());
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hex(canonical.as_ref()));
    let key = [&*day, region, service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{}", credential.secret_key).into_bytes(), |key, part| mac(&key, part));
    let signature = hex(&mac(&key, &text));
    let id = &credential.key_id;
    let value = format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={headers}, Signature={signature}");
    let mut value = HeaderValue::from_str(&value)?;
    value.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, value);
    Ok(())
}

/// The text of a request that is signed.
fn canonical(request: &HttpRequest, signed_headers: &str) -> String {
    let url = Url::parse(&request.uri().to_string()).ok();
    let (path, query) = url.as_ref().map(|url| (url.path(), canonical_query(url))).unwrap_or_default();
    let mut text = format!("{}\n{path}\n{query}\n", request.method());
    for name in signed_headers.split(';') {
        let value = match (name, &url) {
            // The connection adds this header later.
            ("host", Some(url)) => host(url),
            _ => value(request.headers(), name),
        };
        text += &format!("{name}:{value}\n");
    }
    text += &format!("\n{signed_headers}\n{}", value(request.headers(), BODY_DIGEST));
    text
}

/// The values of a header, with single spaces.
fn value(headers: &HeaderMap, name: &str) -> String {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(",")
}

fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The parameters of a query, encoded in one way and sorted.
fn canonical_query(url: &Url) -> String {
    let mut pairs: Vec<_> = url.query_pairs().map(|(name, value)| (encoded(&name), encoded(&value))).collect();
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Text in which all but letters, digits and four marks are percent-encoded.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: &str = "x-amz-security-token";
const BODY_DIGEST: &str = "x-amz-content-sha256";

#[cfg(test)]
mod tests;
