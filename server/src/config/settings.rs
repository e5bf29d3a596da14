//! Table of all settings with their documentation. The limits are added as the section `limits`.

use super::{
    Config,
    pools::{self, PoolSetting},
    value::{Raw, Value as _},
};
use crate::limits::{LIMITS, Limit};

/// A section of the file. The first section is the top level of the file and has no name.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    pub(super) settings: &'static [Setting],
}

/// A row of the table.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    /// An example in TOML, for a setting without a default.
    pub(super) example: &'static str,
    set: fn(&mut Config, &Raw) -> Result<(), String>,
    pub(super) show: fn(&Config) -> Option<String>,
}

/// The setting or limit that a full name refers to.
pub(super) enum Target {
    Setting(&'static Setting),
    Limit(&'static Limit),
    Pool(String, &'static PoolSetting),
}

impl Target {
    /// Returns the setting or limit with this full name, for example `listen.address`.
    pub(super) fn named(key: &str) -> Option<Self> {
        if let Some((pool, setting)) = PoolSetting::named(key) {
            return Some(Self::Pool(pool.to_owned(), setting));
        }
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        if section == "limits" {
            return Limit::named(name).map(Self::Limit);
        }
        let section = SECTIONS.iter().find(|row| row.name == section)?;
        section.settings.iter().find(|row| row.name == name).map(Self::Setting)
    }

    pub(super) fn set(&self, config: &mut Config, raw: &Raw) -> Result<(), String> {
        match self {
            Self::Setting(setting) => (setting.set)(config, raw),
            Self::Limit(limit) => config.limits.set(limit, u64::read(raw)?),
            Self::Pool(pool, setting) => setting.set(config, pool, raw),
        }
    }
}

/// The full names of all settings and limits.
pub(super) fn keys() -> impl Iterator<Item = String> {
    let settings = SECTIONS.iter().flat_map(|section| {
        section.settings.iter().map(|setting| {
            if section.name.is_empty() { setting.name.to_owned() } else { format!("{}.{}", section.name, setting.name) }
        })
    });
    settings.chain(pools::keys()).chain(LIMITS.iter().map(|limit| format!("limits.{}", limit.name)))
}

/// Whether a section with this name exists.
pub(super) fn is_section(name: &str) -> bool {
    name == "limits" || (!name.is_empty() && SECTIONS.iter().any(|section| section.name == name))
}

macro_rules! sections {
    ($($section:literal $section_doc:literal { $($path:ident $(. $field:ident)? $(= $example:literal)?: $doc:literal;)* })*) => {
        pub(super) const SECTIONS: &[Section] = &[$(
            Section {
                name: $section,
                doc: $section_doc,
                settings: &[$(
                    Setting {
                        name: sections!(@name $path $($field)?),
                        doc: $doc,
                        example: concat!("" $(, $example)?),
                        set: |config, raw| {
                            config.$path $(.$field)? = super::value::Value::read(raw)?;
                            Ok(())
                        },
                        show: |config| config.$path $(.$field)?.show(),
                    },
                )*],
            },
        )*];
    };
    (@name $path:ident) => { stringify!($path) };
    (@name $path:ident $field:ident) => { stringify!($field) };
}

sections! {
    "" "" {
        allow_weak_sets:
            "Accept keys and jobs of parameter sets with less than 128 bits of security or a failure probability above 2^-128. For tests and comparisons only.";
        verify_percent:
            "Percentage of rows, 0 to 100, that a second worker computes again. Workers whose results differ from those of others are quarantined. Only workers of one build, with the same kind of device and instruction set, can be compared: see docs/operations.md.";
    }
    "listen" "Addresses and transport security." {
        listen.address:
            "Address of the gRPC port. On an address beyond loopback, set auth.anonymous = false, and configure TLS unless a proxy in front of the server terminates it.";
        listen.admin_address:
            "Address of the port for /livez, /readyz, /metrics and the console. Except for the console, the port has no authentication: keep it on a private network.";
        listen.operator_address = "\"127.0.0.1:7272\"":
            "Address of the port of operators, for `cloakwork admin` (gRPC). Every call needs a token with the scope `admin`. Empty for no such port.";
        listen.tls_certificate = "\"/etc/cloakwork/server.pem\"":
            "Certificate chain in PEM. TLS is on if this is set.";
        listen.tls_key = "\"/etc/cloakwork/server.key\"":
            "The certificate's private key in PEM.";
        listen.client_ca = "\"/etc/cloakwork/ca.pem\"":
            "Authority for the certificates of workers, in PEM. A certificate that a caller presents must be signed by it, and makes the caller a worker.";
        listen.admin_tls:
            "Use the certificate on the admin port as well.";
        listen.trusted_proxies:
            "Addresses and networks of trusted proxies, such as \"10.0.0.7, 10.1.0.0/16\". The limits by address apply to the caller's address that these proxies report in x-forwarded-for.";
    }
    "storage" "Location of stored data." {
        storage.directory:
            "Directory of the database file, of staged uploads and of local blobs. Only one server at a time can use it.";
        storage.blobs:
            "Store for keys and ciphertexts: \"local\" (the directory) or \"s3\" (an S3-compatible store).";
        storage.s3_endpoint:
            "Address of the S3-compatible store, such as \"http://127.0.0.1:9000\"; empty for Amazon S3.";
        storage.s3_bucket:
            "The bucket. It must exist.";
        storage.s3_region:
            "The bucket's region.";
        storage.s3_credentials_file = "\"/etc/cloakwork/s3-credentials\"":
            "File with the credentials of the store in the form of ~/.aws/credentials, which is read for each request. Without it, the credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from the role of the machine.";
    }
    "database" "The database, if it is on a PostgreSQL server. Several servers may use it." {
        database.url:
            "Address of the database, such as \"postgres://cloakwork@db.internal:5432/cloakwork\", without a password. Empty for a file in storage.directory.";
        database.password_file = "\"/etc/cloakwork/database-password\"":
            "File with the password, which is read for each new connection.";
        database.ca_file = "\"/etc/cloakwork/database-ca.pem\"":
            "Authority for the certificate of the database server, in PEM. Without it, the authorities of the system are trusted. Connections to other machines are encrypted unless the URL ends with ?sslmode=disable.";
        database.require_sync_standby:
            "Refuse to start unless a standby of the database server has every change before its commit is reported. Otherwise the loss of the database server may lose accepted jobs.";
    }
    "replica" "This server, among several servers of one database. Each owns at most one shard, and passes other calls on." {
        replica.url:
            "URL at which the other servers, and workers, reach this server, such as \"https://a.internal:7270\". Empty for listen.address.";
        replica.ca_file = "\"/etc/cloakwork/ca.pem\"":
            "Authority for the certificates of the other servers, in PEM. Needed with TLS.";
    }
    "auth" "Authentication of callers. `cloakwork-server token create` creates tokens." {
        auth.anonymous:
            "Callers without a token act as the tenant `local`. The server refuses to start with this setting on an address beyond loopback.";
        auth.worker_mtls:
            "Workers that connect over the network must present a certificate signed by listen.client_ca. A token is not sufficient.";
        auth.oidc_issuer = "\"https://login.example/realms/main\"":
            "Issuer of OpenID Connect whose tokens (JWT) are accepted beside those of this installation; empty for none.";
        auth.oidc_audience:
            "Name of this service in the claim `aud` of those tokens.";
        auth.oidc_keys_url:
            "Address of the issuer's keys (JWKS); empty for the one that the issuer states.";
        auth.oidc_tenant_claim:
            "Claim with the name of the caller's tenant. The tenant must exist.";
        auth.oidc_scopes_claim:
            "Claim with the caller's scopes: one text with spaces between them, or a list.";
        auth.oidc_ca_file = "\"/etc/cloakwork/issuer-ca.pem\"":
            "Authority for the certificate of the issuer, in PEM. Without it, the authorities of the system are trusted.";
    }
    "attestation" "Signatures under results. `cloakwork-server anchor` prints the public key that clients pin." {
        attestation.sign_command = "\"/usr/local/bin/sign-with-kms\"":
            "Program that signs with the installation's key: it reads 104 bytes and writes their Ed25519 signature of 64 bytes. Without it, the key is in storage.directory.";
        attestation.anchor = "\"ed25519:...\"":
            "Public key of attestation.sign_command, as `ed25519:` and 64 hexadecimal digits. More keys, separated by commas, are next or retired ones.";
        attestation.certificate_hours:
            "Life of the certificate of a worker's key, which is renewed after half of it. A worker that must not sign any more stops at its end.";
    }
    "worker" "The worker inside this process. `cloakwork-worker --server` starts further workers." {
        worker.embedded:
            "Run a worker inside this process.";
        worker.threads:
            "Number of compute threads; 0 for one for each processor (hardware thread).";
        worker.memory_bytes:
            "Memory for expanded keys, in bytes; 0 for 4 GiB. Ciphertexts and jobs take up to 3 GiB in addition.";
        worker.vector_memory_bytes:
            "Additional memory for jobs on vectors (CKKS), in bytes; 0 for 8 GiB. The worker allocates it as these jobs arrive, for keys, matrices of bootstraps, and the vectors that are computed on.";
    }
    "console" "The web console on the admin port, for operators: see docs/operators.md." {
        console.enabled:
            "Serve the console at /console/.";
        console.writes:
            "Let operators drain workers and cancel jobs in the console. Otherwise it only shows.";
        console.hosts = "\"console.internal\"":
            "Host names under which browsers reach the console, separated by commas. Addresses and localhost work without.";
        console.trusted_networks = "\"172.16.0.0/12\"":
            "Addresses and networks from which operators may log in with a token although the admin port has no TLS: the bridge of a container whose port is open to its machine alone, or a proxy that terminates TLS.";
    }
    "log" "Logging, on standard error." {
        log.format:
            "\"text\" for people or \"json\" for machines.";
        log.level:
            "error, warn, info, debug or trace; or a filter such as \"info,cloakwork_server=debug\".";
    }
    "telemetry" "Export of traces and metrics to a collector of OpenTelemetry (OTLP). /metrics on the admin port works without." {
        telemetry.otlp_endpoint:
            "Address of the collector, such as \"http://127.0.0.1:4317\"; empty for no export.";
        telemetry.otlp_protocol:
            "\"grpc\", usually on port 4317, or \"http\", usually on port 4318.";
        telemetry.otlp_ca_file = "\"/etc/cloakwork/collector-ca.pem\"":
            "Authority for the certificate of the collector, in PEM. Without it, the authorities of the system are trusted.";
        telemetry.otlp_headers_file = "\"/etc/cloakwork/collector-headers\"":
            "File with headers of the requests to the collector, such as a token: a line for each, as in \"authorization: Bearer ...\".";
        telemetry.trace_percent:
            "Percentage of calls, 0 to 100, that begin a trace. A caller that sends the header traceparent decides for its own calls.";
        telemetry.traces_per_second:
            "Maximum number of traces in a second, with those of callers that decide for their own calls.";
        telemetry.metrics_seconds:
            "Seconds between two exports of all metrics; 0 for no export of metrics.";
    }
}
