//! Export of traces and metrics to a collector of OpenTelemetry (OTLP), over gRPC or HTTP.

mod convert;
mod export;
mod http;

use std::{collections::HashMap, fs, io, path::PathBuf, str::FromStr as _, time::Duration};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::{Resource, metrics::PeriodicReader, trace::SpanExporter as _};
use tonic::{
    metadata::MetadataMap,
    transport::{Certificate, ClientTlsConfig},
};

pub use export::{Export, SpanCounts};
use http::TokioClient;

/// A collector that traces and metrics are sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collector {
    /// Address of the collector, such as `http://127.0.0.1:4317`.
    pub endpoint: String,
    /// The protocol that the collector speaks at the address.
    pub protocol: Protocol,
    /// Authority for the certificate of the collector, in PEM, instead of the authorities of the
    /// system.
    pub ca_file: Option<PathBuf>,
    /// File with headers of the requests, such as a token. Each line is `name: value`.
    pub headers_file: Option<PathBuf>,
}

/// A protocol of a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC, usually on port 4317.
    #[default]
    Grpc,
    /// HTTP with messages of Protocol Buffers, usually on port 4318.
    Http,
}

/// The sender of traces and metrics.
#[derive(Clone, Debug)]
pub struct Service {
    /// Name of the service.
    pub name: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// A name that tells this process from others of the service.
    pub instance: String,
}

/// Why the export cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// A file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line of the file with headers is no header.
    #[error("{path}, line {line}: expected `name: value`", path = path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The authority's certificate cannot be used.
    #[error("{path} must hold a certificate in PEM: {cause}", path = path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// The address cannot be used.
    #[error("the address {endpoint}: {cause}")]
    Endpoint {
        /// The address.
        endpoint: String,
        /// The cause.
        cause: String,
    },
}

/// Longest time for one request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Builds an exporter for a collector. Exporters of spans and of metrics have the same options, and
/// builders of different types.
macro_rules! exporter {
    ($collector:expr, $exporter:ident, $path:literal) => {
        match $collector.protocol {
            Protocol::Grpc => $exporter::builder()
                .with_tonic()
                .with_endpoint(&$collector.endpoint)
                .with_timeout(REQUEST_TIMEOUT)
                .with_metadata($collector.metadata()?)
                .with_tls_config($collector.tls()?)
                .build(),
            Protocol::Http => $exporter::builder()
                .with_http()
                .with_endpoint($collector.path($path))
                .with_timeout(REQUEST_TIMEOUT)
                .with_headers($collector.headers()?)
                .with_http_client($collector.http()?)
                .build(),
        }
        .map_err(|error| $collector.refused(error))
    };
}

impl Collector {
    /// An exporter of spans. Must be called in a runtime.
    pub fn spans(&self, service: &Service) -> Result<Export, OtlpError> {
        let mut exporter = exporter!(self, SpanExporter, "v1/traces")?;
        exporter.set_resource(&service.resource());
        Ok(Export::new(exporter))
    }

    /// A reader that sends all metrics each `interval`. Must be called in a runtime.
    pub(crate) fn metrics(&self, interval: Duration) -> Result<PeriodicReader<MetricExporter>, OtlpError> {
        let exporter = exporter!(self, MetricExporter, "v1/metrics")?;
        Ok(PeriodicReader::builder(exporter).with_interval(interval).build())
    }

    fn path(&self, path: &str) -> String {
        format!("{}/{path}", self.endpoint.trim_end_matches('/'))
    }

    fn refused(&self, error: ExporterBuildError) -> OtlpError {
        OtlpError::Endpoint { endpoint: self.endpoint.clone(), cause: error.to_string() }
    }

    fn tls(&self) -> Result<ClientTlsConfig, OtlpError> {
        let tls = ClientTlsConfig::new();
        Ok(match self.authority()? {
            Some(authority) => tls.ca_certificate(Certificate::from_pem(authority)),
            None => tls.with_native_roots(),
        })
    }

    fn http(&self) -> Result<TokioClient, OtlpError> {
        let authority = match (self.authority()?, &self.ca_file) {
            (Some(pem), Some(path)) => {
                let refused =
                    |error: reqwest::Error| OtlpError::Authority { path: path.clone(), cause: error.to_string() };
                Some(reqwest::Certificate::from_pem(&pem).map_err(refused)?)
            }
            _ => None,
        };
        TokioClient::new(authority)
            .map_err(|error| OtlpError::Endpoint { endpoint: self.endpoint.clone(), cause: error.to_string() })
    }

    fn authority(&self) -> Result<Option<Vec<u8>>, OtlpError> {
        let read =
            |path: &PathBuf| fs::read(path).map_err(|source| OtlpError::Unreadable { path: path.clone(), source });
        self.ca_file.as_ref().map(read).transpose()
    }

    fn headers(&self) -> Result<HashMap<String, String>, OtlpError> {
        let Some(path) = &self.headers_file else { return Ok(HashMap::new()) };
        let text = fs::read_to_string(path).map_err(|source| OtlpError::Unreadable { path: path.clone(), source })?;
        let header = |(index, line): (usize, &str)| {
            let malformed = || OtlpError::Header { path: path.clone(), line: index + 1 };
            let (name, value) = line.split_once(':').ok_or_else(malformed)?;
            let name = ::http::HeaderName::from_str(name.trim()).map_err(|_| malformed())?;
            ::http::HeaderValue::from_str(value.trim()).map_err(|_| malformed())?;
            Ok((name.to_string(), value.trim().to_owned()))
        };
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(header).collect()
    }

    fn metadata(&self) -> Result<MetadataMap, OtlpError> {
        let headers = self.headers()?;
        let pairs = headers.iter().filter_map(|(name, value)| {
            let mut value = ::http::HeaderValue::from_str(value).ok()?;
            value.set_sensitive(true);
            Some((::http::HeaderName::from_str(name).ok()?, value))
        });
        Ok(MetadataMap::from_headers(pairs.collect()))
    }
}

impl Service {
    pub(crate) fn resource(&self) -> Resource {
        let attributes = [
            KeyValue::new("service.name", self.name),
            KeyValue::new("service.version", self.version),
            KeyValue::new("service.instance.id", self.instance.clone()),
        ];
        Resource::builder_empty().with_attributes(attributes).build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_headers(text: &str) -> (tempfile::TempDir, Collector) {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("headers");
        fs::write(&file, text).expect("a file");
        (directory, Collector { headers_file: Some(file), ..Collector::default() })
    }

    #[test]
    fn headers_come_from_a_file() {
        let (_directory, collector) = with_headers("authorization: Bearer a:b\n\nX-Scope-OrgID:  7 \n");
        let headers = collector.headers().expect("headers");
        assert_eq!((&*headers["authorization"], &*headers["x-scope-orgid"]), ("Bearer a:b", "7"));
        let metadata = collector.metadata().expect("headers").into_headers();
        assert!(metadata["authorization"].is_sensitive());
        let (_directory, wrong) = with_headers("authorization: x\nBearer y\n");
        let error = wrong.headers().expect_err("no header").to_string();
        assert!(error.ends_with("line 2: expected `name: value`") && !error.contains("Bearer"), "{error}");
    }

    #[tokio::test]
    async fn wrong_settings_are_refused_at_the_start() {
        let service = Service { name: "a", version: "1", instance: "b".to_owned() };
        for (endpoint, protocol) in [("not a URL", Protocol::Grpc), ("not a URL", Protocol::Http)] {
            let collector = Collector { endpoint: endpoint.to_owned(), protocol, ..Collector::default() };
            assert!(matches!(collector.spans(&service), Err(OtlpError::Endpoint { .. })), "{endpoint} {protocol:?}");
        }
        let nowhere = Some(PathBuf::from("/nonexistent"));
        let collector =
            Collector { endpoint: "https://127.0.0.1:1".to_owned(), ca_file: nowhere, ..Collector::default() };
        assert!(matches!(collector.spans(&service), Err(OtlpError::Unreadable { .. })));
    }
}
