//! Handling of Ctrl-C.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use tokio::{signal::ctrl_c, sync::Notify};

use crate::failure::{Failure, INTERRUPTED};

/// Reports Ctrl-C to running work. Without running work, Ctrl-C ends the process. A second Ctrl-C
/// also ends the process if the work has not yet handled the first.
#[derive(Default)]
pub(crate) struct Interrupts {
    heard: OnceLock<Arc<Heard>>,
}

#[derive(Default)]
struct Heard {
    /// Whether work is running.
    is_awaited: AtomicBool,
    /// Whether Ctrl-C was pressed and the work has not yet handled it.
    is_pending: AtomicBool,
    pressed: Notify,
}

impl Interrupts {
    /// Runs work to its end or until Ctrl-C. After Ctrl-C, `left` makes a failure that describes
    /// the remaining work.
    pub(crate) async fn until<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
        left: impl AsyncFnOnce() -> Failure,
    ) -> Result<T, Failure> {
        let heard = self.heard.get_or_init(|| {
            let heard = Arc::new(Heard::default());
            tokio::spawn(listen(heard.clone()));
            heard
        });
        heard.is_awaited.store(true, SeqCst);
        let done = tokio::select! {
            biased;
            () = heard.pressed() => Err(left().await),
            done = work => done,
        };
        heard.is_awaited.store(false, SeqCst);
        done
    }
}

impl Heard {
    async fn pressed(&self) {
        while !self.is_pending.swap(false, SeqCst) {
            self.pressed.notified().await;
        }
    }
}

/// Listens for Ctrl-C until the process ends. After the first listener, the system no longer ends
/// the process by itself.
async fn listen(heard: Arc<Heard>) {
    while ctrl_c().await.is_ok() {
        if !heard.is_awaited.load(SeqCst) || heard.is_pending.swap(true, SeqCst) {
            std::process::exit(INTERRUPTED.into());
        }
        heard.pressed.notify_one();
    }
}
