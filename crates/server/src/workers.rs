//! Threads that serve connections, each with a runtime of its own.
//!
//! A connection stays on the thread it was given to, and so do the calls that come through it and the
//! connections to sources that they use. Nothing of a call is woken from another thread: with one
//! caller that takes a third less time than with a runtime whose threads take work from each other.
//! What does not belong to a connection (sources, configuration, commands) runs elsewhere.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use server_core::pending_connections::PendingConnections;

/// Connections at once, where nobody says otherwise.
const CONNECTIONS: usize = 10_000;

/// The threads. Dropped, they end with all that runs on them: so after the sources are closed.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<Worker>,
    places: Arc<Semaphore>,
    pending: Arc<PendingConnections>,
}

#[derive(Debug)]
struct Worker {
    /// With one thread for tasks. It is no single-threaded one, because that could not set its other
    /// tasks free while one of them works long.
    runtime: Option<Runtime>,
    /// Connections that it has.
    has: Arc<AtomicUsize>,
}

/// A seat on one of the threads. Dropped, it is free for another connection.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) on: Handle,
    has: Arc<AtomicUsize>,
}

impl Workers {
    /// Starts as many threads as the machine can run at once.
    ///
    /// # Errors
    /// The system has none left to give.
    pub fn start() -> io::Result<Self> {
        Self::of(std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn of(count: usize) -> io::Result<Self> {
        (0..count).map(Worker::start).collect::<io::Result<_>>().map(Self::on)
    }

    fn on(threads: Vec<Worker>) -> Self {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        Self { threads, places, pending: PendingConnections::new(CONNECTIONS / 2) }
    }

    /// The same with `most` connections at once, of which half may be without an accepted credential.
    #[must_use]
    pub fn with_connections(mut self, most: usize) -> Self {
        self.places = Arc::new(Semaphore::new(most.clamp(2, Semaphore::MAX_PERMITS)));
        self.pending = PendingConnections::new(most / 2);
        self
    }

    /// A place for a connection, once there is one. Never closed.
    pub(crate) async fn connection_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// The connections that have not authenticated.
    pub(crate) fn pending(&self) -> &Arc<PendingConnections> {
        &self.pending
    }

    /// No threads: connections run where they are listened for.
    pub fn here() -> Self {
        Self::on(Vec::new())
    }

    /// On the thread that has the fewest connections; without threads, on the caller's own runtime.
    pub(crate) fn seat(&self) -> Seat {
        let fewest = self.threads.iter().min_by_key(|worker| worker.has.load(Ordering::Relaxed));
        let (on, has) = fewest
            .and_then(|worker| Some((worker.runtime.as_ref()?.handle().clone(), &worker.has)))
            .map_or_else(|| (Handle::current(), Arc::default()), |(on, has)| (on, Arc::clone(has)));
        has.fetch_add(1, Ordering::Relaxed);
        Seat { on, has }
    }
}

impl Worker {
    fn start(at: usize) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(1).thread_name(format!("connections-{at}"));
        let runtime = builder.enable_all().build()?;
        Ok(Self { runtime: Some(runtime), has: Arc::default() })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for it may not be done where other tasks run.
            runtime.shutdown_background();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.has.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::{Seat, Workers};

    #[test]
    fn connections_are_spread_and_stay() {
        let workers = Workers::of(2).unwrap();
        let seats: Vec<_> = (0..6).map(|_| workers.seat()).collect();
        let on = |seat: &Seat| seat.on.id();
        let first = seats.iter().filter(|seat| on(seat) == on(&seats[0])).count();
        assert_eq!(first, 3);
        // Those of the first thread go: the next three take their places.
        let (gone, left): (Vec<_>, Vec<_>) =
            seats.into_iter().partition(|seat| on(seat) == on(&workers.seat()));
        drop(gone);
        let next: Vec<_> = (0..3).map(|_| workers.seat()).collect();
        assert!(next.iter().all(|seat| on(seat) != on(&left[0])));
    }

    #[test]
    fn who_works_long_leaves_the_other_connections_of_its_thread_alone() {
        let workers = Workers::of(1).unwrap();
        let (told, heard) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        drop(workers.seat().on.spawn(async move {
            tokio::task::block_in_place(|| ended.recv().unwrap());
        }));
        drop(workers.seat().on.spawn(async move { told.send(()).unwrap() }));
        heard.recv().unwrap();
        end.send(()).unwrap();
    }
}
