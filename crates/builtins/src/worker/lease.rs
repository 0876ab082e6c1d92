//! A worker that somebody has for more than one request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::OwnedSemaphorePermit;
use tool::Json;

use super::{GONE, Job, Worker, Workers};

/// A worker of one's own until this goes, and then the worker goes too: give it back with [`Lease::rest`].
#[derive(Debug)]
pub struct Lease {
    workers: Arc<Workers>,
    /// None while it is asked, and where it is gone.
    worker: Option<Worker>,
    room: OwnedSemaphorePermit,
}

impl Workers {
    /// A worker for a while, as soon as there is one.
    ///
    /// # Errors
    /// In words, for the caller, where none can be started.
    pub async fn lease(self: &Arc<Self>) -> Result<Lease, String> {
        let room = self.room().await.ok_or(GONE)?;
        let worker = Some(self.taken().await?);
        Ok(Lease { workers: Arc::clone(self), worker, room })
    }
}

impl Lease {
    /// Computes `job`. Where the future is dropped, the worker is gone.
    ///
    /// # Errors
    /// In words, for the caller.
    pub async fn compute(&mut self, job: Job, args: &Json) -> Result<Json, String> {
        let worker = self.worker.take().ok_or(GONE)?;
        match worker.answers(job, args.bytes(), None).await {
            Ok((answered, worker)) => {
                self.worker = Some(worker);
                answered
            }
            Err(trouble) => Err(trouble.told(job, None).await),
        }
    }

    /// Whether others wait for a worker.
    pub fn is_wanted(&self) -> bool {
        self.workers.waiting.load(Ordering::Relaxed) > 0
    }

    /// Gives the worker to the next.
    pub fn rest(self) {
        let Self { workers, worker, room } = self;
        if let Some(worker) = worker {
            workers.given_back(worker);
        }
        drop(room);
    }
}
