//! Checks of combinations of settings.

use std::net::SocketAddr;

use cloakwork_attestation::CERTIFICATE_LIFE_MAX_MICROS;
use cloakwork_oidc::OptionsError;
use cloakwork_storage::{Server, ServerError};
use http::Uri;
use tracing_subscriber::EnvFilter;

use super::{BlobStore, Config, Problem, pools};

/// Longest life of a worker's certificate: a year. A stolen key signs as long.
const CERTIFICATE_HOURS_MAX: u64 = 8784;
const _: () = assert!(CERTIFICATE_HOURS_MAX * 3_600_000_000 == CERTIFICATE_LIFE_MAX_MICROS as u64);

/// The error of a setting of the issuer, by the name of the setting.
pub(crate) fn wrong_issuer(error: &OptionsError) -> String {
    let name = if error.setting == "jwks_url" { "keys_url" } else { error.setting };
    format!("auth.oidc_{name}: {}", error.problem)
}

/// Returns the errors of settings whose values are valid individually but not in combination.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let Config {
        verify_percent, listen, storage, database, replica, auth, attestation, limits, log, telemetry, ..
    } = config;
    let mut problems = limits.contradictions();
    problems.extend(pools::problems(config));
    let mut unless = |fine: bool, text: &str| {
        if !fine {
            problems.push(text.to_owned());
        }
    };
    unless(*verify_percent <= 100, &format!("verify_percent must be from 0 to 100, not {verify_percent}"));
    unless(
        !auth.anonymous || listen.address.ip().is_loopback(),
        &format!(
            "auth.anonymous admits every caller that can reach {}: set auth.anonymous = false and create tokens, or \
             listen on a loopback address",
            listen.address
        ),
    );
    unless(!same_port(listen.address, listen.admin_address), "listen.address and listen.admin_address are the same");
    for (name, other) in [("listen.address", listen.address), ("listen.admin_address", listen.admin_address)] {
        let is_other = listen.operator_address.is_none_or(|address| !same_port(address, other));
        unless(is_other, &format!("listen.operator_address and {name} are the same"));
    }
    unless(
        listen.tls_certificate.is_some() == listen.tls_key.is_some(),
        "listen.tls_certificate and listen.tls_key go together: set both or neither",
    );
    unless(
        listen.client_ca.is_none() || listen.tls_certificate.is_some(),
        "listen.client_ca needs TLS: set listen.tls_certificate and listen.tls_key",
    );
    unless(
        !listen.admin_tls || listen.tls_certificate.is_some(),
        "listen.admin_tls needs listen.tls_certificate and listen.tls_key",
    );
    unless(
        !auth.worker_mtls || listen.client_ca.is_some(),
        "auth.worker_mtls needs listen.client_ca, the authority that the workers' certificates come from",
    );
    if let Some(Err(error)) = auth.issuer().map(|issuer| issuer.check()) {
        unless(false, &wrong_issuer(&error));
    }
    let needs_issuer = !auth.oidc_keys_url.is_empty() || auth.oidc_ca_file.is_some();
    unless(
        !needs_issuer || !auth.oidc_issuer.is_empty(),
        "auth.oidc_keys_url and auth.oidc_ca_file need auth.oidc_issuer",
    );
    unless(
        attestation.sign_command.is_some() == attestation.anchor.is_some(),
        "attestation.sign_command and attestation.anchor go together: set both or neither",
    );
    unless(
        (1..=CERTIFICATE_HOURS_MAX).contains(&attestation.certificate_hours),
        &format!("attestation.certificate_hours must be from 1 to {CERTIFICATE_HOURS_MAX}"),
    );
    unless(
        storage.blobs != BlobStore::S3 || !storage.s3_bucket.is_empty(),
        "storage.blobs = \"s3\" needs storage.s3_bucket",
    );
    let endpoint = storage.s3_endpoint.as_str();
    unless(
        endpoint.is_empty() || endpoint.starts_with("http://") || endpoint.starts_with("https://"),
        "storage.s3_endpoint must begin with http:// or https://",
    );
    unless(
        !endpoint.contains('@'),
        "storage.s3_endpoint must not hold credentials: put them into a file, named by storage.s3_credentials_file",
    );
    unless(
        storage.s3_credentials_file.is_none() || storage.blobs == BlobStore::S3,
        "storage.s3_credentials_file needs storage.blobs = \"s3\"",
    );
    if !database.url.is_empty()
        && let Err(error) = Server::check(&database.url)
    {
        let text = match error {
            ServerError::Password => {
                "must not hold a password: put it into a file, named by database.password_file".to_owned()
            }
            other => format!("cannot be used: {other}"),
        };
        unless(false, &format!("database.url {text}"));
    }
    let alone = database.password_file.is_some() || database.ca_file.is_some() || database.require_sync_standby;
    unless(!alone || !database.url.is_empty(), "the other settings of [database] need database.url");
    let is_alone = database.url.is_empty();
    unless(
        !is_alone || (replica.url.is_empty() && replica.ca_file.is_none()),
        "the settings of [replica] need database.url: other servers cannot use a database file",
    );
    unless(
        is_alone || !replica.url.is_empty() || !listen.address.ip().is_unspecified(),
        &format!(
            "replica.url is missing: the other servers of the database pass calls on to it, and cannot reach {}",
            listen.address
        ),
    );
    let tls = listen.tls_certificate.is_some();
    let scheme = if tls { "https" } else { "http" };
    unless(
        replica.url.is_empty() || is_url_of_server(&replica.url, scheme),
        &format!("replica.url must be {scheme}://HOST:PORT, not '{}'", replica.url),
    );
    unless(
        is_alone || tls == replica.ca_file.is_some(),
        if tls {
            "replica.ca_file is missing: it is the authority of the certificates (listen.tls_certificate) of the servers"
        } else {
            "replica.ca_file needs TLS: set listen.tls_certificate and listen.tls_key"
        },
    );
    let endpoint = telemetry.otlp_endpoint.as_str();
    unless(
        endpoint.is_empty()
            || endpoint.parse::<Uri>().is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https"))),
        &format!("telemetry.otlp_endpoint must be http://HOST:PORT or https://HOST:PORT, not '{endpoint}'"),
    );
    unless(
        !endpoint.contains('@'),
        "telemetry.otlp_endpoint must not hold credentials: put them into a file, named by telemetry.otlp_headers_file",
    );
    unless(
        !endpoint.is_empty() || (telemetry.otlp_ca_file.is_none() && telemetry.otlp_headers_file.is_none()),
        "telemetry.otlp_ca_file and telemetry.otlp_headers_file need telemetry.otlp_endpoint",
    );
    unless(
        telemetry.trace_percent <= 100,
        &format!("telemetry.trace_percent must be from 0 to 100, not {}", telemetry.trace_percent),
    );
    if let Err(text) = check_level(&log.level) {
        problems.push(format!("log.level {text}"));
    }
    problems.into_iter().map(|text| Problem { place: "configuration".to_owned(), text }).collect()
}

/// Whether this is the URL of a host and a port, without a path and without credentials.
fn is_url_of_server(url: &str, scheme: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|parts| {
        parts.scheme_str() == Some(scheme)
            && parts.authority().is_some_and(|authority| !authority.as_str().contains('@'))
            && parts.port().is_some()
            && parts.path_and_query().is_none_or(|path| path == "/")
    })
}

/// Port 0 never conflicts, because the system assigns a free port each time.
fn same_port(left: SocketAddr, right: SocketAddr) -> bool {
    left.port() != 0 && left == right
}

/// Checks a level or filter of the log. The error names the allowed values.
fn check_level(level: &str) -> Result<(), String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    // The filter would take a word that is not a level for the name of a crate.
    let plain = level.split(',').all(|part| part.contains('=') || LEVELS.contains(&part));
    if plain && EnvFilter::try_new(level).is_ok() {
        return Ok(());
    }
    Err(format!("must be {}, or a filter such as 'info,cloakwork_server=debug', not '{level}'", LEVELS.join(", ")))
}
