//! At most so many calls at once, and at most so many that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};
use tool::executor::Cancel;
use tool::{Boxed, Code, Context, ExecuteError, Executor, Granted, Step};

/// Places for calls, shared by the executors of one source.
#[derive(Debug)]
pub struct Gate {
    running: usize,
    places: Semaphore,
    waiting: AtomicUsize,
    queue: usize,
}

impl Gate {
    /// `running` calls at once, at least one; `queue` more wait, in order; all others are busy.
    pub fn new(running: usize, queue: usize) -> Arc<Self> {
        let running = running.clamp(1, Semaphore::MAX_PERMITS);
        let places = Semaphore::new(running);
        Arc::new(Self { running, places, waiting: AtomicUsize::new(0), queue })
    }

    async fn enter(&self, cancel: &dyn Cancel) -> Result<SemaphorePermit<'_>, ExecuteError> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let _turn = self.queue_up().ok_or_else(|| {
            let message = format!(
                "{} calls of this source run and {} wait; try again later",
                self.running, self.queue
            );
            ExecuteError::before(Code::Busy, message)
        })?;
        tokio::select! {
            place = self.places.acquire() => {
                place.map_err(|_| ExecuteError::before(Code::ShuttingDown, "the source is closed"))
            }
            () = cancel.cancelled() => {
                Err(ExecuteError::before(Code::Cancelled, "given up while it waited for its turn"))
            }
        }
    }

    fn queue_up(&self) -> Option<Turn<'_>> {
        let more = |waiting| (waiting < self.queue).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Turn(&self.waiting))
    }
}

/// A place in the queue, left when dropped.
struct Turn<'a>(&'a AtomicUsize);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs calls through a [`Gate`].
#[derive(Debug)]
pub struct Concurrency {
    inner: Arc<dyn Executor>,
    gate: Arc<Gate>,
}

impl Concurrency {
    /// Around `inner`.
    pub fn new(inner: Arc<dyn Executor>, gate: Arc<Gate>) -> Self {
        Self { inner, gate }
    }

    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let _place = self.gate.enter(ctx.cancel).await?;
        self.inner.execute(call, ctx).await
    }
}

impl Executor for Concurrency {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }
}
