//! A collector of OpenTelemetry, which keeps what it gets.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{
            ExportMetricsServiceRequest, ExportMetricsServiceResponse,
            metrics_service_server::{MetricsService, MetricsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    common::v1::{KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::Span,
};
use prost::Message as _;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A collector with a port for gRPC and a port for HTTP.
pub struct Collector {
    /// Address of the port for gRPC.
    pub grpc: String,
    /// Address of the port for HTTP.
    pub http: String,
    kept: Kept,
    ports: [JoinHandle<()>; 2],
}

/// A span, and the service that recorded it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Name of the service.
    pub service: String,
    /// The span.
    pub span: Span,
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Received>>);

#[derive(Default)]
struct Received {
    spans: Vec<Recorded>,
    /// Metrics by service and name.
    metrics: BTreeSet<(String, String)>,
}

impl Collector {
    /// Starts a collector.
    pub async fn start() -> Self {
        let kept = Kept::default();
        let [(grpc_listener, grpc), (http_listener, http)] = [listen().await, listen().await];
        let services = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(kept.clone()))
            .add_service(MetricsServiceServer::new(kept.clone()));
        let routes = Router::new()
            .route("/v1/traces", post(take_traces))
            .route("/v1/metrics", post(take_metrics))
            .with_state(kept.clone());
        let ports = [
            tokio::spawn(async move {
                services.serve_with_incoming(TcpListenerStream::new(grpc_listener)).await.expect("the port");
            }),
            tokio::spawn(async move { axum::serve(http_listener, routes).await.expect("the port") }),
        ];
        Self { grpc, http, kept, ports }
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Recorded> {
        self.kept.state().spans.clone()
    }

    /// Whether a service has sent a metric.
    pub fn has_metric(&self, service: &str, name: &str) -> bool {
        self.kept.state().metrics.contains(&(service.to_owned(), name.to_owned()))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.ports.iter().for_each(JoinHandle::abort);
    }
}

impl Recorded {
    /// The text of an attribute.
    pub fn text(&self, name: &str) -> Option<String> {
        match value(&self.span.attributes, name)? {
            Value::StringValue(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// The number of an attribute.
    pub fn number(&self, name: &str) -> Option<i64> {
        match value(&self.span.attributes, name)? {
            Value::IntValue(number) => Some(*number),
            _ => None,
        }
    }

    /// Nanoseconds between start and end.
    pub fn nanos(&self) -> u64 {
        self.span.end_time_unix_nano - self.span.start_time_unix_nano
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    (listener, address)
}

async fn take_traces(State(kept): State<Kept>, body: Bytes) -> Result<Vec<u8>, StatusCode> {
    let request = ExportTraceServiceRequest::decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    kept.keep_spans(request);
    Ok(ExportTraceServiceResponse::default().encode_to_vec())
}

async fn take_metrics(State(kept): State<Kept>, body: Bytes) -> Result<Vec<u8>, StatusCode> {
    let request = ExportMetricsServiceRequest::decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    kept.keep_metrics(request);
    Ok(ExportMetricsServiceResponse::default().encode_to_vec())
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.keep_spans(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Kept {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.keep_metrics(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Kept {
    fn state(&self) -> MutexGuard<'_, Received> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_spans(&self, request: ExportTraceServiceRequest) {
        let mut state = self.state();
        for of_resource in request.resource_spans {
            let service = service(of_resource.resource.as_ref());
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            state.spans.extend(spans.map(|span| Recorded { service: service.clone(), span }));
        }
    }

    fn keep_metrics(&self, request: ExportMetricsServiceRequest) {
        let mut state = self.state();
        for of_resource in request.resource_metrics {
            let service = service(of_resource.resource.as_ref());
            let metrics = of_resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
            state.metrics.extend(metrics.map(|metric| (service.clone(), metric.name)));
        }
    }
}

fn service(resource: Option<&Resource>) -> String {
    match resource.and_then(|resource| value(&resource.attributes, "service.name")) {
        Some(Value::StringValue(name)) => name.clone(),
        _ => String::new(),
    }
}

fn value<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.key == name)?.value.as_ref()?.value.as_ref()
}
