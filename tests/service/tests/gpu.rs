//! The service with a worker on GPUs. The GPUs are emulated, everything else is as in production.

use std::sync::Arc;

use cloakwork_cuda::CudaDevice;
use cloakwork_tests_cuda::emulator::Emulated;
use cloakwork_tests_service::{Server, Setup, Tenant, VALUES, Worker};
use cloakwork_worker::{CancellationToken, Options, Uplink, WorkerError, run_on};
use tokio::task::JoinHandle;
use tonic::transport::Endpoint;

struct GpuWorker {
    gpus: Vec<Arc<Emulated>>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), WorkerError>>,
}

impl GpuWorker {
    /// Starts a worker on two GPUs, within this process.
    fn start(server: &Server, token: String) -> Self {
        let gpus: Vec<_> = (0..2).map(|_| Arc::new(Emulated::new(512 << 20))).collect();
        let device = CudaDevice::new(gpus.iter().map(|gpu| gpu.clone() as _).collect()).expect("memory");
        let options = Options {
            name: "emulated".to_owned(),
            pool: "gpu".to_owned(),
            token: Some(token),
            arena_memory: 16 << 20,
            vector_memory: 0,
            ..Options::default()
        };
        let uplink = Uplink::new(Endpoint::from_shared(server.url()).expect("an address").connect_lazy());
        let stop = CancellationToken::new();
        Self { gpus, task: tokio::spawn(run_on(Arc::new(device), options, uplink, stop.clone())), stop }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_on_gpus_and_move_to_another_worker_when_a_gpu_is_lost() {
    let server = Server::start(Setup::default().without_worker()).await;
    let worker = GpuWorker::start(&server, server.token("gpus", "worker"));
    let tenant = Tenant::new(server.client().await).await;
    let values: Vec<u64> = (0..300).map(|index| index % VALUES).collect();
    let finished = tenant.check_squares(&values).await;
    let record = finished.job.latency.expect("a record");
    assert!(record.blind_rotate_nanos > 0 && record.key_switch_nanos > 0, "{record:?}");
    assert!(worker.gpus.iter().all(|gpu| gpu.launches() > 0));
    let capabilities = tenant.client.capabilities().await.expect("an answer");
    assert!(capabilities.pools.iter().any(|pool| pool.kind == "gpu"), "{:?}", capabilities.pools);

    // A GPU is lost, and its worker ends. The job continues on another worker.
    worker.gpus[0].fail_after(0);
    let another = Worker::start(&server, "another", &server.token("cpus", "worker"));
    let finished = tenant.check_squares(&values).await;
    let attempts = finished.job.latency.expect("a record").attempts;
    assert!(finished.job.rows_done == 300 && attempts <= 2, "{attempts} attempts");
    let ended = worker.task.await.expect("no panic").expect_err("its GPU is gone");
    assert!(ended.to_string().contains("off the bus"), "{ended}");
    drop((another, worker.stop));
}

#[tokio::test(flavor = "multi_thread")]
async fn waves_use_the_companion_set_where_it_is_faster_or_untried() {
    let server = Server::start(Setup::default().without_worker()).await;
    let worker = GpuWorker::start(&server, server.token("gpus", "worker"));
    let tenant = Tenant::with_companion(server.client().await, "TOY_MESSAGE_2_CARRY_2_N2048").await;
    let mut waves = [0, 0];
    for width in [1, 1, 1, 24, 24, 24] {
        let values: Vec<u64> = (0..width).map(|index| (index + 5) % VALUES).collect();
        let record = tenant.check_squares(&values).await.job.latency.expect("a record");
        waves[0] += record.wave_count - record.companion_waves;
        waves[1] += record.companion_waves;
    }
    // Each set was tried at each width at least once, whichever is faster on this machine.
    assert!(waves.iter().all(|waves| *waves >= 1), "{waves:?}");
    let key = tenant.client.key(&tenant.key).await.expect("an answer");
    assert_eq!(key.resident_workers.len(), 1, "{:?}", key.resident_workers);
    worker.stop.cancel();
    worker.task.await.expect("no panic").expect("an end");
}
