//! A worker that somebody has for more than one request.

use std::sync::{Arc, Mutex, PoisonError};

use tool::{Caged, Json};

use super::{GONE, Job, Worker, WorkerPlace, Workers};

/// A worker of one's own until this goes, and then the worker goes too: give it back with [`Lease::rest`].
#[derive(Debug)]
pub struct Lease {
    workers: Arc<Workers>,
    /// None while it is asked, and where it is gone.
    worker: Option<Worker>,
    place: WorkerPlace,
    took: Mutex<Option<Caged>>,
}

impl Workers {
    /// A worker for a while, as soon as there is one for this root key.
    ///
    /// # Errors
    /// In words, for the caller, where none can be started, or too many of this key wait already.
    pub async fn lease(self: &Arc<Self>, key: &str) -> Result<Lease, String> {
        let place = self.quota.enter(key).await?;
        let worker = Some(self.taken().await?);
        Ok(Lease { workers: Arc::clone(self), worker, place, took: Mutex::default() })
    }
}

impl Lease {
    /// Computes `job`. Where the future is dropped, the worker is gone.
    ///
    /// # Errors
    /// In words, for the caller.
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

    /// Whether others wait for a worker.
    pub fn is_wanted(&self) -> bool {
        self.workers.quota.is_wanted()
    }

    fn ran(&self, took: Caged) {
        let mut all = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Some(took.after(all.take()));
    }

    /// Gives the worker to the next. Answers what all requests took.
    pub fn rest(self) -> Option<Caged> {
        let Self { workers, worker, place, took } = self;
        if let Some(worker) = worker {
            workers.given_back(worker);
        }
        drop(place);
        took.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
