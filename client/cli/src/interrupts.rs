//! What Ctrl-C does.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use tokio::{signal::ctrl_c, sync::Notify};

use crate::failure::{Failure, INTERRUPTED};

/// Tells whoever works that Ctrl-C was pressed. It ends the process where nobody does, and where nothing has come of it when it
/// is pressed again.
#[derive(Default)]
pub(crate) struct Interrupts {
    heard: OnceLock<Arc<Heard>>,
}

#[derive(Default)]
struct Heard {
    /// Does somebody work?
    is_awaited: AtomicBool,
    /// Has it been pressed, and they have not got to it?
    is_pending: AtomicBool,
    pressed: Notify,
}

impl Interrupts {
    /// Works to the end or until Ctrl-C, when `left` says what is left of it.
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

/// Where somebody has listened once, the system does not end the process any more.
async fn listen(heard: Arc<Heard>) {
    while ctrl_c().await.is_ok() {
        if !heard.is_awaited.load(SeqCst) || heard.is_pending.swap(true, SeqCst) {
            std::process::exit(INTERRUPTED.into());
        }
        heard.pressed.notify_one();
    }
}
