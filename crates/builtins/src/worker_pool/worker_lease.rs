//! A lease of one worker for several requests.

use std::sync::{Arc, Mutex, PoisonError};

use tool::{Json, SandboxUsage};

use super::{POOL_CLOSED, WorkerJob, WorkerPool, WorkerProcess, WorkerSlot};

/// Exclusive use of one worker. Dropping the lease ends the worker; [`WorkerLease::release`] returns it to
/// the pool.
#[derive(Debug)]
pub struct WorkerLease {
    pool: Arc<WorkerPool>,
    /// `None` while a request runs, and after the worker has ended.
    worker: Option<WorkerProcess>,
    slot: WorkerSlot,
    usage: Mutex<Option<SandboxUsage>>,
}

impl WorkerPool {
    /// Leases a worker, as soon as one is available for this root key.
    ///
    /// # Errors
    /// A message for the caller if no worker can be started or too many calls of this key are
    /// waiting.
    pub async fn lease_worker(self: &Arc<Self>, key: &str) -> Result<WorkerLease, String> {
        let place = self.quota.acquire_slot(key).await?;
        let worker = Some(self.checkout_worker().await?);
        Ok(WorkerLease { pool: Arc::clone(self), worker, slot: place, usage: Mutex::default() })
    }
}

impl WorkerLease {
    /// Runs `job` in the leased worker. Dropping the future ends the worker.
    ///
    /// # Errors
    /// A message for the caller.
    pub async fn run_job(&mut self, job: WorkerJob, args: &Json) -> Result<Json, String> {
        let worker = self.worker.take().ok_or(POOL_CLOSED)?;
        let ran = |took| self.add_usage(took);
        match worker.run_job(job, args.bytes(), &ran).await {
            Ok((answered, worker)) => {
                self.worker = Some(worker);
                answered
            }
            Err(trouble) => Err(trouble.describe_failure(job, &ran).await),
        }
    }

    /// Returns whether other calls wait for a worker.
    pub fn has_waiters(&self) -> bool {
        self.pool.quota.has_waiters()
    }

    fn add_usage(&self, took: SandboxUsage) {
        let mut all = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Some(took.plus_earlier(all.take()));
    }

    /// Returns the worker to the pool and the resource usage of all requests.
    pub fn release(self) -> Option<SandboxUsage> {
        let Self { pool: workers, worker, slot: place, usage: took } = self;
        if let Some(worker) = worker {
            workers.checkin_worker(worker);
        }
        drop(place);
        took.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
