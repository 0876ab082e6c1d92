//! Worker threads that serve connections, each with its own runtime.
//!
//! A connection stays on its thread, as do its calls and the upstream connections that they use. No
//! call is woken from another thread. With one caller this takes a third less time than a
//! work-stealing runtime. Work outside connections (sources, configuration, commands) runs
//! elsewhere.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

use server_core::pending_connections::PendingConnections;

/// Default limit of concurrent connections.
const DEFAULT_MAX_CONNECTIONS: usize = 10_000;

/// The worker threads and the connection limits. Dropping them aborts everything that runs on them,
/// so close the sources first.
#[derive(Debug)]
pub struct ConnectionWorkers {
    threads: Vec<WorkerRuntime>,
    connection_permits: Arc<Semaphore>,
    pending: Arc<PendingConnections>,
}

#[derive(Debug)]
struct WorkerRuntime {
    /// A multi-thread runtime with one worker: a single-threaded one could not release its other
    /// tasks while one of them blocks.
    runtime: Option<Runtime>,
    /// Number of connections assigned to this thread.
    connection_count: Arc<AtomicUsize>,
}

/// The worker of one connection. Dropping it frees the slot for another connection.
#[derive(Debug)]
pub(crate) struct WorkerAssignment {
    pub(crate) runtime: Handle,
    connection_count: Arc<AtomicUsize>,
}

impl ConnectionWorkers {
    /// Starts one thread for each available CPU.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn start_threads() -> io::Result<Self> {
        Self::with_thread_count(std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn with_thread_count(count: usize) -> io::Result<Self> {
        (0..count)
            .map(WorkerRuntime::start_thread)
            .collect::<io::Result<_>>()
            .map(Self::from_threads)
    }

    fn from_threads(threads: Vec<WorkerRuntime>) -> Self {
        let places = Arc::new(Semaphore::new(DEFAULT_MAX_CONNECTIONS));
        Self {
            threads,
            connection_permits: places,
            pending: PendingConnections::new(DEFAULT_MAX_CONNECTIONS / 2),
        }
    }

    /// Sets the limit of concurrent connections. Half of them may be unauthenticated.
    #[must_use]
    pub fn with_max_connections(mut self, max_connections: usize) -> Self {
        self.connection_permits =
            Arc::new(Semaphore::new(max_connections.clamp(2, Semaphore::MAX_PERMITS)));
        self.pending = PendingConnections::new(max_connections / 2);
        self
    }

    /// Returns the limit of concurrent connections, which all listeners share.
    pub(crate) fn connection_permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.connection_permits)
    }

    /// Returns the connections that have not authenticated yet.
    pub(crate) fn pending_connections(&self) -> &Arc<PendingConnections> {
        &self.pending
    }

    /// Creates a pool without threads: connections run on the runtime of the listener.
    pub fn on_current_runtime() -> Self {
        Self::from_threads(Vec::new())
    }

    /// Assigns the thread with the fewest connections, or the current runtime if there are no
    /// threads.
    pub(crate) fn assign_worker(&self) -> WorkerAssignment {
        let fewest = self
            .threads
            .iter()
            .min_by_key(|worker| worker.connection_count.load(Ordering::Relaxed));
        let (on, has) = fewest
            .and_then(|worker| {
                Some((worker.runtime.as_ref()?.handle().clone(), &worker.connection_count))
            })
            .map_or_else(|| (Handle::current(), Arc::default()), |(on, has)| (on, Arc::clone(has)));
        has.fetch_add(1, Ordering::Relaxed);
        WorkerAssignment { runtime: on, connection_count: has }
    }
}

impl WorkerRuntime {
    fn start_thread(index: usize) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(1).thread_name(format!("connections-{index}"));
        let runtime = builder.enable_all().build()?;
        Ok(Self { runtime: Some(runtime), connection_count: Arc::default() })
    }
}

impl Drop for WorkerRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A blocking shutdown is not allowed on an async thread.
            runtime.shutdown_background();
        }
    }
}

impl Drop for WorkerAssignment {
    fn drop(&mut self) {
        self.connection_count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::{ConnectionWorkers, WorkerAssignment};

    #[test]
    fn connections_are_spread_and_stay() {
        let workers = ConnectionWorkers::with_thread_count(2).unwrap();
        let seats: Vec<_> = (0..6).map(|_| workers.assign_worker()).collect();
        let on = |seat: &WorkerAssignment| seat.runtime.id();
        let first = seats.iter().filter(|seat| on(seat) == on(&seats[0])).count();
        assert_eq!(first, 3);
        // When the connections of the first thread end, the next three go to that thread.
        let (gone, left): (Vec<_>, Vec<_>) =
            seats.into_iter().partition(|seat| on(seat) == on(&workers.assign_worker()));
        drop(gone);
        let next: Vec<_> = (0..3).map(|_| workers.assign_worker()).collect();
        assert!(next.iter().all(|seat| on(seat) != on(&left[0])));
    }

    #[test]
    fn who_works_long_leaves_the_other_connections_of_its_thread_alone() {
        let workers = ConnectionWorkers::with_thread_count(1).unwrap();
        let (told, heard) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        drop(workers.assign_worker().runtime.spawn(async move {
            tokio::task::block_in_place(|| ended.recv().unwrap());
        }));
        drop(workers.assign_worker().runtime.spawn(async move { told.send(()).unwrap() }));
        heard.recv().unwrap();
        end.send(()).unwrap();
    }
}
