//! Connections that a test can disturb: a TCP proxy on loopback.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    time::sleep,
};

/// The fate of the bytes of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The bytes pass, each piece after this delay.
    Passes(Duration),
    /// The bytes stay where they are, as in a partition of the network. Connections stay open.
    Stalls,
}

/// A port whose connections lead to another port. Dropping the wire closes its port.
#[derive(Debug)]
pub struct Wire {
    port: u16,
    state: watch::Sender<State>,
    /// Whether the connection of the next commit ends before the answer.
    cuts_commit: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Debug)]
struct State {
    ends: Vec<SocketAddr>,
    course: Course,
    commit_delay: Duration,
}

impl Wire {
    /// Opens a port. Its connections take turns at these ends, and leave out ends that refuse them.
    pub async fn to(ends: &[u16]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (state, seen) = watch::channel(State {
            ends: addresses(ends),
            course: Course::Passes(Duration::ZERO),
            commit_delay: Duration::ZERO,
        });
        let cuts_commit = Arc::<AtomicBool>::default();
        let cut = cuts_commit.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            let mut count = 0;
            loop {
                let Ok((near, _)) = listener.accept().await else { continue };
                count += 1;
                connections.spawn(connection(near, count, seen.clone(), cut.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, state, cuts_commit, task }
    }

    /// The port of the near end.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the fate of all bytes from now on.
    pub fn set(&self, course: Course) {
        self.state.send_modify(|state| state.course = course);
    }

    /// Leads new connections to other ends, and ends the open ones.
    pub fn lead_to(&self, ends: &[u16]) {
        self.state.send_modify(|state| state.ends = addresses(ends));
    }

    /// Passes the commits of PostgreSQL on so much later.
    pub fn delay_commits(&self, delay: Duration) {
        self.state.send_modify(|state| state.commit_delay = delay);
    }

    /// Ends the connection of the next commit of PostgreSQL, after the server got the commit and
    /// before its answer. Returns once a commit was cut.
    pub async fn cut_commit(&self) {
        self.cuts_commit.store(true, Relaxed);
        while self.cuts_commit.load(Relaxed) {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn addresses(ports: &[u16]) -> Vec<SocketAddr> {
    ports.iter().map(|port| (Ipv4Addr::LOCALHOST, *port).into()).collect()
}

/// Serves a connection until one of its ends closes it, or the wire leads elsewhere.
async fn connection(near: TcpStream, count: usize, mut state: watch::Receiver<State>, cut: Arc<AtomicBool>) {
    let _ = near.set_nodelay(true);
    let ends = state.borrow().ends.clone();
    let mut far = None;
    for turn in 0..ends.len() {
        if let Ok(stream) = TcpStream::connect(ends[(count + turn) % ends.len()]).await {
            far = Some(stream);
            break;
        }
    }
    let Some(far) = far else { return };
    let _ = far.set_nodelay(true);
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    let has_cut = Notify::new();
    let there = pump(near_read, far_write, state.clone(), Some((&cut, &has_cut)));
    let back = pump(far_read, near_write, state.clone(), None);
    let led_away = state.wait_for(|state| state.ends != ends);
    tokio::select! {
        biased;
        () = has_cut.notified() => {}
        _ = led_away => {}
        () = async { tokio::join!(there, back); } => {}
    }
}

/// Passes bytes on in one direction. With `cut`, notifies the connection after a commit that is to
/// be cut.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
    cut: Option<(&AtomicBool, &Notify)>,
) {
    let mut piece = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let Ok(course) = state.wait_for(|state| state.course != Course::Stalls).await.map(|state| state.course) else {
            break;
        };
        if let Course::Passes(delay) = course
            && !delay.is_zero()
        {
            sleep(delay).await;
        }
        let is_commit = || piece[..length].windows(COMMIT.len()).any(|text| text == COMMIT);
        let commit_delay = state.borrow().commit_delay;
        if !commit_delay.is_zero() && is_commit() {
            sleep(commit_delay).await;
        }
        let cuts = cut.filter(|(cuts, _)| is_commit() && cuts.swap(false, Relaxed));
        if to.write_all(&piece[..length]).await.is_err() {
            break;
        }
        if let Some((_, has_cut)) = cuts {
            return has_cut.notify_one();
        }
    }
    let _ = to.shutdown().await;
}

/// The commit of a transaction in the protocol of PostgreSQL.
const COMMIT: &[u8] = b"COMMIT";
