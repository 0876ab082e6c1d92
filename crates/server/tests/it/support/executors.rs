//! Executors that wait, report progress, ask the client or fail.

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};
use tool::executor::{ExecuteError, UpstreamRpcError};
use tool::{
    BoxFuture, CallContext, ErrorCode, ExecutionState, Executor, Json, Outcome, PendingReason,
    RecordedCall,
};

type Result = std::result::Result<ExecutionState, ExecuteError>;

/// Blocks its calls until it is opened, and reports their arrival.
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
        super::test_server::within_a_minute(self.entered.notified()).await;
    }

    /// Lets one call end.
    pub(crate) fn release_call(&self) {
        self.open.notify_one();
    }
}

impl Executor for Gate {
    fn execute<'a>(
        &'a self,
        _: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result> {
        Box::pin(async move {
            self.entered.notify_one();
            tokio::select! {
                () = self.open.notified() => Ok(ExecutionState::Completed(Outcome::from_value(Json::encode("opened")))),
                () = ctx.cancel.cancelled() => {
                    Err(ExecuteError::maybe_sent(ErrorCode::Cancelled, "the caller cancelled the \
                        call"))
                }
            }
        })
    }
}

/// Reports these, each when `next` allows it, and then answers.
#[derive(Debug)]
pub(crate) struct ReportingExecutor {
    pub(crate) reports: Vec<(f64, Option<f64>, Option<&'static str>)>,
    pub(crate) next: Arc<Semaphore>,
}

impl Executor for ReportingExecutor {
    fn execute<'a>(
        &'a self,
        _: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result> {
        Box::pin(async move {
            for (done, total, line) in &self.reports {
                self.next.acquire().await.unwrap().forget();
                ctx.progress.report_progress(*done, *total, *line);
            }
            Ok(ExecutionState::Completed(Outcome::from_value(Json::encode("done"))))
        })
    }
}

/// Does not get to answer.
#[derive(Debug)]
pub(crate) struct FailingExecutor(pub(crate) ErrorCode, pub(crate) &'static str);

impl Executor for FailingExecutor {
    fn execute<'a>(&'a self, _: RecordedCall<'a>, _: &'a CallContext<'a>) -> BoxFuture<'a, Result> {
        Box::pin(async move { Err(ExecuteError::maybe_sent(self.0, self.1)) })
    }
}

/// Requests input from its client: within the call if possible, else by a pending result.
#[derive(Debug)]
pub(crate) struct AskingExecutor {
    pub(crate) method: &'static str,
    pub(crate) params: Json,
}

impl AskingExecutor {
    pub(crate) fn elicitation() -> Arc<Self> {
        let params = Json::encode(&serde_json::json!({"message": "which?", "requestedSchema": {}}));
        Arc::new(Self { method: "elicitation/create", params })
    }
}

impl Executor for AskingExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result> {
        let done = |json: Json| Ok(ExecutionState::Completed(Outcome::from_value(json)));
        Box::pin(async move {
            if let Some(resume) = &call.call().resumption {
                let state = Json::encode(&String::from_utf8_lossy(&resume.state));
                let call = Json::encode(&resume.pending_call_id);
                return done(Json::object_from([
                    ("state", &state),
                    ("answers", &resume.input_responses),
                    ("continues", &call),
                ]));
            }
            if let Some(ask) = ctx.client_requests {
                return match ask.send_request(self.method, self.params.clone()).await {
                    Ok(answer) => done(answer),
                    Err(error) => {
                        Ok(ExecutionState::Completed(Outcome::tool_failure(&error.to_string())))
                    }
                };
            }
            let question = Json::object_from([
                ("method", &Json::encode(self.method)),
                ("params", &self.params),
            ]);
            let requests = Json::object_from([("q", &question)]);
            Ok(ExecutionState::Pending(PendingReason::Input {
                input_requests: requests,
                state: "mine".into(),
            }))
        })
    }
}

/// Says these in MCP's words, and then answers.
#[derive(Debug)]
pub(crate) struct NotifyingExecutor(pub(crate) Vec<(&'static str, Json)>);

impl Executor for NotifyingExecutor {
    fn execute<'a>(
        &'a self,
        _: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result> {
        Box::pin(async move {
            self.0
                .iter()
                .for_each(|(method, params)| ctx.progress.forward_notification(method, params));
            Ok(ExecutionState::Completed(Outcome::from_value(Json::encode("done"))))
        })
    }
}

/// Watches a resource until its caller disconnects, and forwards each `update`.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionExecutor {
    pub(crate) update: Notify,
    pub(crate) running: std::sync::atomic::AtomicUsize,
    /// Number of updates that were forwarded.
    pub(crate) updates: std::sync::atomic::AtomicUsize,
}

impl Executor for SubscriptionExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result> {
        use std::sync::atomic::Ordering::SeqCst;
        struct Runs<'a>(&'a SubscriptionExecutor);
        impl Drop for Runs<'_> {
            fn drop(&mut self) {
                self.0.running.fetch_sub(1, SeqCst);
            }
        }
        Box::pin(async move {
            let uri = call.call().arguments.as_json().get("uri").unwrap();
            if uri.as_str() == "\"test://none\"" {
                return Err(ExecuteError::maybe_sent(
                    ErrorCode::UpstreamFailed,
                    "no such resource",
                ));
            }
            self.running.fetch_add(1, SeqCst);
            let _runs = Runs(self);
            ctx.progress.forward_notification(
                "notifications/subscriptions/acknowledged",
                &Json::empty_object(),
            );
            loop {
                self.update.notified().await;
                let params = Json::object_from([("uri", &uri)]);
                ctx.progress.forward_notification("notifications/resources/updated", &params);
                self.updates.fetch_add(1, SeqCst);
            }
        })
    }
}

/// Streams the notifications that it is given, to each of its calls in turn.
#[derive(Debug, Default)]
pub(crate) struct StreamingExecutor {
    /// The params of its calls.
    pub(crate) calls: std::sync::Mutex<Vec<serde_json::Value>>,
    queue: std::sync::Mutex<std::collections::VecDeque<Streamed>>,
    ready: Notify,
}

/// What a [`StreamingExecutor`] does next.
#[derive(Debug)]
pub(crate) enum Streamed {
    Notification(&'static str, serde_json::Value),
    /// Ends the call.
    End,
    /// Fails with an error of the protocol.
    Refuse(i64),
}

impl StreamingExecutor {
    pub(crate) fn push(&self, next: Streamed) {
        self.queue.lock().unwrap().push_back(next);
        self.ready.notify_one();
    }

    async fn next(&self) -> Streamed {
        loop {
            let next = self.queue.lock().unwrap().pop_front();
            match next {
                Some(next) => return next,
                None => self.ready.notified().await,
            }
        }
    }
}

impl Executor for StreamingExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result> {
        self.calls.lock().unwrap().push(call.call().arguments.as_json().to_value());
        Box::pin(async move {
            loop {
                match self.next().await {
                    Streamed::Notification(method, params) => {
                        ctx.progress.forward_notification(method, &Json::encode(&params));
                    }
                    Streamed::End => {
                        let body = tool::OutcomeBody::Mcp(Json::empty_object());
                        return Ok(ExecutionState::Completed(Outcome { body, is_error: false }));
                    }
                    Streamed::Refuse(code) => {
                        return RpcErrorExecutor(code).execute(call, ctx).await;
                    }
                }
            }
        })
    }
}

/// Answers with an error of its own protocol.
#[derive(Debug)]
pub(crate) struct RpcErrorExecutor(pub(crate) i64);

impl Executor for RpcErrorExecutor {
    fn execute<'a>(&'a self, _: RecordedCall<'a>, _: &'a CallContext<'a>) -> BoxFuture<'a, Result> {
        let data = Some(Json::encode(&serde_json::json!({"a": 1.0})));
        let rpc =
            UpstreamRpcError { code: self.0, message: "its own\u{200b} words".to_owned(), data };
        let failed =
            ExecuteError::maybe_sent(ErrorCode::UpstreamFailed, "it answered with an error");
        Box::pin(async move { Err(ExecuteError { rpc_error: Some(Box::new(rpc)), ..failed }) })
    }
}

/// Says far more than anyone reads, and then answers.
#[derive(Debug)]
pub(crate) struct FloodingExecutor {
    pub(crate) lines: usize,
    pub(crate) long: usize,
}

impl Executor for FloodingExecutor {
    fn execute<'a>(
        &'a self,
        _: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result> {
        Box::pin(async move {
            let line =
                Json::encode(&serde_json::json!({"level": "error", "data": "x".repeat(self.long)}));
            for _ in 0..self.lines {
                ctx.progress.forward_notification("notifications/message", &line);
                tokio::task::yield_now().await;
            }
            Ok(ExecutionState::Completed(Outcome::from_value(Json::encode("done"))))
        })
    }
}

/// Returns the `_meta` of its client.
#[derive(Debug)]
pub(crate) struct MetaExecutor;

impl Executor for MetaExecutor {
    fn execute<'a>(
        &'a self,
        _: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result> {
        let meta = ctx.meta.cloned().unwrap_or_else(Json::empty_object);
        Box::pin(async move { Ok(ExecutionState::Completed(Outcome::from_value(meta))) })
    }
}

/// Sees how many of its calls run at the same time. With a `meeting`, none ends before so many have come.
#[derive(Debug, Default)]
pub(crate) struct ConcurrencyProbe {
    pub(crate) barrier: Option<tokio::sync::Barrier>,
    pub(crate) running: std::sync::atomic::AtomicUsize,
    pub(crate) max_running: std::sync::atomic::AtomicUsize,
    /// The received calls in order.
    pub(crate) seen_arguments: std::sync::Mutex<Vec<String>>,
}

impl Executor for ConcurrencyProbe {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result> {
        use std::sync::atomic::Ordering::SeqCst;
        Box::pin(async move {
            let args = call.call().arguments.as_json().clone();
            self.seen_arguments.lock().unwrap().push(args.as_str().to_owned());
            self.max_running.fetch_max(self.running.fetch_add(1, SeqCst) + 1, SeqCst);
            if let Some(meeting) = &self.barrier {
                meeting.wait().await;
            }
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            self.running.fetch_sub(1, SeqCst);
            Ok(ExecutionState::Completed(Outcome::from_value(args)))
        })
    }
}
