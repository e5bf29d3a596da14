//! Where connections come from: a file, or a server.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Error, Server,
    session::Session,
    sqlite::{self, Access},
};

/// The database that connections are opened to. Clones share what is known of a server.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File(Arc<PathBuf>),
    Server(Arc<Known>),
}

/// A server, and whether it can be reached.
#[derive(Debug)]
pub(crate) struct Known {
    server: Server,
    /// The last failure, and its time.
    failure: Mutex<Option<(Instant, Error)>>,
    /// Held while a connection for reading is opened.
    opening: tokio::sync::Mutex<()>,
}

impl Source {
    pub(crate) fn file(path: PathBuf) -> Self {
        Self::File(Arc::new(path))
    }

    pub(crate) fn server(server: Server) -> Self {
        Self::Server(Arc::new(Known { server, failure: Mutex::default(), opening: tokio::sync::Mutex::default() }))
    }

    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    /// Opens a connection. A server is asked again only some time after it could not be reached:
    /// otherwise each waiting caller would wait as long as one attempt takes, one after another.
    ///
    /// Connections for reading are opened one after another. When a server has lost all of its
    /// connections, its calls would otherwise open many at once, and delay the beat of the owner.
    pub(crate) async fn open(&self, access: Access) -> Result<Session, Error> {
        let known = match self {
            Self::File(path) => return Ok(Session::Sqlite(Box::new(sqlite::Session::open(path, access).await?))),
            Self::Server(known) => known,
        };
        let _turn = match access {
            Access::Read => Some(known.opening.lock().await),
            Access::Write => None,
        };
        if let Some((since, error)) = &*known.failure()
            && since.elapsed() < RETRY_PAUSE
        {
            return Err(error.clone());
        }
        let opened = known.server.connect().await;
        *known.failure() = opened.as_ref().err().map(|error| (Instant::now(), error.clone()));
        Ok(Session::Postgres(Box::new(opened?)))
    }
}

impl Known {
    fn failure(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Error)>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pause after a failed attempt to reach a server.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
