//! A lease of one worker for several requests.

use std::sync::{Arc, Mutex, PoisonError};

use tool::{Caged, Json};

use super::{GONE, Job, Worker, WorkerPlace, Workers};

/// Exclusive use of one worker. Dropping the lease ends the worker; [`Lease::rest`] returns it to
/// the pool.
#[derive(Debug)]
pub struct Lease {
    workers: Arc<Workers>,
    /// `None` while a request runs, and after the worker has ended.
    worker: Option<Worker>,
    place: WorkerPlace,
    took: Mutex<Option<Caged>>,
}

impl Workers {
    /// Leases a worker, as soon as one is available for this root key.
    ///
    /// # Errors
    /// A message for the caller if no worker can be started or too many calls of this key are
    /// waiting.
    pub async fn lease(self: &Arc<Self>, key: &str) -> Result<Lease, String> {
        let place = self.quota.enter(key).await?;
        let worker = Some(self.taken().await?);
        Ok(Lease { workers: Arc::clone(self), worker, place, took: Mutex::default() })
    }
}

impl Lease {
    /// Runs `job` in the leased worker. Dropping the future ends the worker.
    ///
    /// # Errors
    /// A message for the caller.
    pub async fn compute(&mut self, job: Job, args: &Json) -> Result<Json, String> {
        let worker = self.worker.take().ok_or(GONE)?;
        let ran = |took| self.ran(took);
        match worker.answers(job, args.bytes(), &ran).await {
            Ok((answered, worker)) => {
                self.worker = Some(worker);
                answered
            }
            Err(trouble) => Err(trouble.told(job, &ran).await),
        }
    }

    /// Returns whether other calls wait for a worker.
    pub fn is_wanted(&self) -> bool {
        self.workers.quota.is_wanted()
    }

    fn ran(&self, took: Caged) {
        let mut all = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Some(took.after(all.take()));
    }

    /// Returns the worker to the pool and the resource usage of all requests.
    pub fn rest(self) -> Option<Caged> {
        let Self { workers, worker, place, took } = self;
        if let Some(worker) = worker {
            workers.given_back(worker);
        }
        drop(place);
        took.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
