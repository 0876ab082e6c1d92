//! Test helpers that make calls through executors, as the pipeline does.

use std::sync::{Arc, Mutex};

use source_mcp::McpSource;
use testkit::context::{quiet_context, test_caller};
use tokio_util::sync::CancellationToken;
use tool::Source as _;
use tool::call::CallResumption;
use tool::executor::{
    CancelSignal, ClientCapabilities, ClientRequestError, ClientRequester, CredentialProvider,
    ProgressSink, TaskHandle,
};
use tool::{
    BoxFuture, CallArguments, CallId, Caller, CatalogItem, ExecuteError, ExecutionState, Executor,
    IntentReceipt, Json, JsonLimits, Org, Outcome, OutcomeBody, PendingReason, RecordedCall,
    SourceListing, SourceName, ToolCall, ToolKey,
};

/// Tool and its executor.
#[derive(Clone)]
pub(crate) struct Runner {
    tool: Arc<tool::Tool>,
    executor: Arc<dyn Executor>,
}

/// Finds the tool with this offered name.
pub(crate) async fn runner(source: &McpSource, name: &str) -> Runner {
    pick(&source.list_offers().await.unwrap(), name)
}

pub(crate) fn pick(listing: &SourceListing, name: &str) -> Runner {
    let found = listing.offers.iter().find_map(|offer| match &offer.item {
        CatalogItem::Tool(tool) | CatalogItem::Method(tool) if tool.name.as_str() == name => {
            Some(Runner { tool: Arc::clone(tool), executor: Arc::clone(&offer.executor) })
        }
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no {name} in {listing:?}"))
}

/// Progress: done, total and message.
pub(crate) type Told = (f64, Option<f64>, Option<String>);

/// Records progress and notifications, and can cancel.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) cancel: CancellationToken,
    pub(crate) progress: Mutex<Vec<Told>>,
    pub(crate) notices: Mutex<Vec<(String, serde_json::Value)>>,
    /// Notified of each notification.
    pub(crate) noticed: tokio::sync::Notify,
}

impl CancelSignal for Watch {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.cancel.cancelled())
    }
    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

impl ProgressSink for Watch {
    fn report_progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.progress.lock().unwrap().push((done, total, message.map(str::to_owned)));
    }
    fn forward_notification(&self, method: &str, params: &Json) {
        if method == "notifications/progress" {
            let (done, total) = (params.get("progress"), params.get("total"));
            let message = params.get("message").and_then(|message| message.decode().ok());
            let number = |json: Option<Json>| json.and_then(|json| json.decode().ok());
            let told = (number(done).unwrap(), number(total), message);
            self.progress.lock().unwrap().push(told);
        }
        self.notices.lock().unwrap().push((method.to_owned(), params.to_value()));
        self.noticed.notify_one();
    }
}

impl Watch {
    /// Waits until this many notifications of this method arrived.
    pub(crate) async fn heard(&self, method: &str, count: usize) {
        while self.notices.lock().unwrap().iter().filter(|(m, _)| m == method).count() < count {
            self.noticed.notified().await;
        }
    }
}

/// Client that answers each request by its method, or refuses.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) refuses: bool,
    pub(crate) asked: Mutex<Vec<(String, serde_json::Value)>>,
}

impl ClientRequester for Client {
    fn send_request<'a>(
        &'a self,
        method: &'a str,
        params: Json,
    ) -> BoxFuture<'a, Result<Json, ClientRequestError>> {
        self.asked.lock().unwrap().push((method.to_owned(), params.to_value()));
        let answer = match method {
            "roots/list" => r#"{"roots":[{"uri":"file:///home"}]}"#,
            _ => r#"{"action":"accept", "content":{"n":1.0e2}}"#,
        };
        Box::pin(std::future::ready(if self.refuses {
            Err(ClientRequestError::Refused { code: -1, message: "the user said no".to_owned() })
        } else {
            Ok(json(answer))
        }))
    }
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap()
}

/// Client with these declared capabilities.
pub(crate) fn declares(text: &str) -> ClientCapabilities {
    ClientCapabilities { raw: Some(json(text)), ..ClientCapabilities::default() }
}

/// Parts of a call that differ between tests.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup<'a> {
    pub(crate) watch: Option<&'a Watch>,
    pub(crate) ask: Option<&'a dyn ClientRequester>,
    pub(crate) task: Option<&'a dyn TaskHandle>,
    pub(crate) client: Option<&'a ClientCapabilities>,
    pub(crate) meta: Option<&'a Json>,
    pub(crate) resume: Option<&'a CallResumption>,
    pub(crate) unasked: Option<&'a Json>,
    pub(crate) caller: Option<&'a Caller>,
    pub(crate) credentials: Option<&'a dyn CredentialProvider>,
}

/// Builds the resumption of `step` for the next call.
pub(crate) fn resume(step: ExecutionState, answers: &str) -> CallResumption {
    let ExecutionState::Pending(PendingReason::Input { state: resume, .. }) = step else {
        panic!("no question: {step:?}")
    };
    CallResumption {
        pending_call_id: CallId(uuid::Uuid::nil()),
        state: resume,
        input_responses: json(answers),
    }
}

/// Returns the input requests of a step.
pub(crate) fn questions(step: &ExecutionState) -> String {
    let ExecutionState::Pending(PendingReason::Input { input_requests: requests, .. }) = step
    else {
        panic!("no question: {step:?}")
    };
    requests.as_str().to_owned()
}

/// Returns the outcome of a step.
pub(crate) fn done(step: ExecutionState) -> Outcome {
    match step {
        ExecutionState::Completed(outcome) => outcome,
        ExecutionState::Pending(wait) => panic!("waits: {wait:?}"),
    }
}

impl Runner {
    pub(crate) async fn call(&self, args: &str) -> Result<Outcome, ExecuteError> {
        self.watched(args, &Watch::default()).await
    }

    pub(crate) async fn owned(self, args: String) -> Result<Outcome, ExecuteError> {
        self.call(&args).await
    }

    pub(crate) async fn watched(&self, args: &str, watch: &Watch) -> Result<Outcome, ExecuteError> {
        self.step(args, Setup { watch: Some(watch), ..Setup::default() }).await.map(done)
    }

    pub(crate) async fn step(
        &self,
        args: &str,
        setup: Setup<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let id = CallId(uuid::Uuid::now_v7());
        let source = SourceName::new("source").unwrap();
        let call = ToolCall {
            id,
            parent_id: None,
            resumption: setup.resume.cloned(),
            unsolicited_input: setup.unasked.cloned(),
            tool_key: ToolKey { org: Org::default(), source, name: self.tool.name.clone() },
            tool: Arc::clone(&self.tool),
            arguments: CallArguments::parse(args.to_owned()).unwrap(),
        };
        let ticket = IntentReceipt::with_abandon_hook(id, |_| {});
        let (ann, unwatched) = (test_caller(), Watch::default());
        let caller = setup.caller.unwrap_or(&ann);
        let watch = setup.watch.unwrap_or(&unwatched);
        let plain = quiet_context(caller);
        let ctx = tool::CallContext {
            cancel: watch,
            progress: watch,
            client_requests: setup.ask,
            task_handle: setup.task,
            client_capabilities: setup.client.unwrap_or(plain.client_capabilities),
            meta: setup.meta,
            credentials: setup.credentials.unwrap_or(plain.credentials),
            ..plain
        };
        let step =
            self.executor.execute(RecordedCall::from_receipt(&call, &ticket).unwrap(), &ctx).await;
        ticket.mark_complete();
        step
    }
}

/// Returns the body as received.
pub(crate) fn body(outcome: &Outcome) -> String {
    let OutcomeBody::Mcp(body) = &outcome.body else { panic!("not MCP's shape") };
    body.as_str().to_owned()
}

/// Returns the first text of the outcome.
pub(crate) fn said(outcome: &Outcome) -> String {
    let value: serde_json::Value = serde_json::from_str(&body(outcome)).unwrap();
    value["content"][0]["text"].as_str().unwrap().to_owned()
}
