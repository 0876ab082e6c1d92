//! Executors that wait, tell of progress, and fail.

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};
use tool::executor::ExecuteError;
use tool::{Boxed, Code, Context, Executor, Granted, Json, Outcome, Step};

type Result = std::result::Result<Step, ExecuteError>;

/// Holds its calls until it is opened, and tells when one came.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    entered: Notify,
    open: Notify,
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Resolves when a call runs.
    pub(crate) async fn entered(&self) {
        super::bench::soon(self.entered.notified()).await;
    }

    /// Lets one call end.
    pub(crate) fn open(&self) {
        self.open.notify_one();
    }
}

impl Executor for Gate {
    fn execute<'a>(&'a self, _: Granted<'a>, ctx: &'a Context<'a>) -> Boxed<'a, Result> {
        Box::pin(async move {
            self.entered.notify_one();
            tokio::select! {
                () = self.open.notified() => Ok(Step::Done(Outcome::value(Json::of("opened")))),
                () = ctx.cancel.cancelled() => {
                    Err(ExecuteError::during(Code::Cancelled, "the caller gave the call up"))
                }
            }
        })
    }
}

/// Reports these, each when `next` allows it, and then answers.
#[derive(Debug)]
pub(crate) struct Reporting {
    pub(crate) reports: Vec<(f64, Option<f64>, Option<&'static str>)>,
    pub(crate) next: Arc<Semaphore>,
}

impl Executor for Reporting {
    fn execute<'a>(&'a self, _: Granted<'a>, ctx: &'a Context<'a>) -> Boxed<'a, Result> {
        Box::pin(async move {
            for (done, total, line) in &self.reports {
                self.next.acquire().await.unwrap().forget();
                ctx.progress.report(*done, *total, *line);
            }
            Ok(Step::Done(Outcome::value(Json::of("done"))))
        })
    }
}

/// Does not get to answer.
#[derive(Debug)]
pub(crate) struct Failing(pub(crate) Code, pub(crate) &'static str);

impl Executor for Failing {
    fn execute<'a>(&'a self, _: Granted<'a>, _: &'a Context<'a>) -> Boxed<'a, Result> {
        Box::pin(async move { Err(ExecuteError::during(self.0, self.1)) })
    }
}
