//! Executors that wait, tell of progress, and fail.

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};
use tool::executor::{ExecuteError, Rpc};
use tool::{Boxed, Code, Context, Executor, Granted, Json, Outcome, Step, Wait};

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

/// Asks its client: while it runs where that can be, and by a wait where it cannot.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) method: &'static str,
    pub(crate) params: Json,
}

impl Asking {
    pub(crate) fn elicits() -> Arc<Self> {
        let params = Json::of(&serde_json::json!({"message": "which?", "requestedSchema": {}}));
        Arc::new(Self { method: "elicitation/create", params })
    }
}

impl Executor for Asking {
    fn execute<'a>(&'a self, call: Granted<'a>, ctx: &'a Context<'a>) -> Boxed<'a, Result> {
        let done = |json: Json| Ok(Step::Done(Outcome::value(json)));
        Box::pin(async move {
            if let Some(resume) = &call.call().continues {
                let state = Json::of(&String::from_utf8_lossy(&resume.state));
                let call = Json::of(&resume.call);
                return done(Json::fields([
                    ("state", &state),
                    ("answers", &resume.answers),
                    ("continues", &call),
                ]));
            }
            if let Some(ask) = ctx.ask {
                return match ask.ask(self.method, self.params.clone()).await {
                    Ok(answer) => done(answer),
                    Err(error) => Ok(Step::Done(Outcome::failed(&error.to_string()))),
                };
            }
            let question =
                Json::fields([("method", &Json::of(self.method)), ("params", &self.params)]);
            let requests = Json::fields([("q", &question)]);
            Ok(Step::Wait(Wait::Input { requests, resume: "mine".into() }))
        })
    }
}

/// Says these in MCP's words, and then answers.
#[derive(Debug)]
pub(crate) struct Notifying(pub(crate) Vec<(&'static str, Json)>);

impl Executor for Notifying {
    fn execute<'a>(&'a self, _: Granted<'a>, ctx: &'a Context<'a>) -> Boxed<'a, Result> {
        Box::pin(async move {
            self.0.iter().for_each(|(method, params)| ctx.progress.notify(method, params));
            Ok(Step::Done(Outcome::value(Json::of("done"))))
        })
    }
}

/// Follows a resource until its caller goes; each `update` is told.
#[derive(Debug, Default)]
pub(crate) struct Following {
    pub(crate) update: Notify,
    pub(crate) running: std::sync::atomic::AtomicUsize,
}

impl Executor for Following {
    fn execute<'a>(&'a self, call: Granted<'a>, ctx: &'a Context<'a>) -> Boxed<'a, Result> {
        use std::sync::atomic::Ordering::SeqCst;
        struct Runs<'a>(&'a Following);
        impl Drop for Runs<'_> {
            fn drop(&mut self) {
                self.0.running.fetch_sub(1, SeqCst);
            }
        }
        Box::pin(async move {
            let uri = call.call().args.raw().get("uri").unwrap();
            if uri.as_str() == "\"test://none\"" {
                return Err(ExecuteError::during(Code::UpstreamFailed, "no such resource"));
            }
            self.running.fetch_add(1, SeqCst);
            let _runs = Runs(self);
            ctx.progress.notify("notifications/subscriptions/acknowledged", &Json::empty());
            loop {
                self.update.notified().await;
                let params = Json::fields([("uri", &uri)]);
                ctx.progress.notify("notifications/resources/updated", &params);
            }
        })
    }
}

/// Answers with an error of its own protocol.
#[derive(Debug)]
pub(crate) struct Erring(pub(crate) i64);

impl Executor for Erring {
    fn execute<'a>(&'a self, _: Granted<'a>, _: &'a Context<'a>) -> Boxed<'a, Result> {
        let data = Some(Json::of(&serde_json::json!({"a": 1.0})));
        let rpc = Rpc { code: self.0, message: "its own\u{200b} words".to_owned(), data };
        let failed = ExecuteError::during(Code::UpstreamFailed, "it answered with an error");
        Box::pin(async move { Err(ExecuteError { rpc: Some(Box::new(rpc)), ..failed }) })
    }
}

/// Says far more than anyone reads, and then answers.
#[derive(Debug)]
pub(crate) struct Flooding {
    pub(crate) lines: usize,
    pub(crate) long: usize,
}

impl Executor for Flooding {
    fn execute<'a>(&'a self, _: Granted<'a>, ctx: &'a Context<'a>) -> Boxed<'a, Result> {
        Box::pin(async move {
            let line =
                Json::of(&serde_json::json!({"level": "error", "data": "x".repeat(self.long)}));
            for _ in 0..self.lines {
                ctx.progress.notify("notifications/message", &line);
                tokio::task::yield_now().await;
            }
            Ok(Step::Done(Outcome::value(Json::of("done"))))
        })
    }
}

/// Answers with what its client wrote beside the arguments.
#[derive(Debug)]
pub(crate) struct Beside;

impl Executor for Beside {
    fn execute<'a>(&'a self, _: Granted<'a>, ctx: &'a Context<'a>) -> Boxed<'a, Result> {
        let meta = ctx.meta.cloned().unwrap_or_else(Json::empty);
        Box::pin(async move { Ok(Step::Done(Outcome::value(meta))) })
    }
}

/// Sees how many of its calls run at the same time. With a `meeting`, none ends before so many have come.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    pub(crate) meeting: Option<tokio::sync::Barrier>,
    pub(crate) running: std::sync::atomic::AtomicUsize,
    pub(crate) most: std::sync::atomic::AtomicUsize,
    /// What they came with, in the order they came.
    pub(crate) seen: std::sync::Mutex<Vec<String>>,
}

impl Executor for Crowd {
    fn execute<'a>(&'a self, call: Granted<'a>, _: &'a Context<'a>) -> Boxed<'a, Result> {
        use std::sync::atomic::Ordering::SeqCst;
        Box::pin(async move {
            let args = call.call().args.raw().clone();
            self.seen.lock().unwrap().push(args.as_str().to_owned());
            self.most.fetch_max(self.running.fetch_add(1, SeqCst) + 1, SeqCst);
            if let Some(meeting) = &self.meeting {
                meeting.wait().await;
            }
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            self.running.fetch_sub(1, SeqCst);
            Ok(Step::Done(Outcome::value(args)))
        })
    }
}
