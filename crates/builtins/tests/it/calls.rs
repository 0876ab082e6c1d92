//! Calls the offered tools as the pipeline does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use builtins::{BuiltinSource, SandboxProvider, ToolDependencies};
use sandbox::SandboxLevel;
use sandbox::process::ProcessLauncher;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tool::executor::{
    CancelSignal, ClientCapabilities, CredentialProvider, ProgressSink, UpstreamCredential,
};
use tool::{
    BoxFuture, CallArguments, CallContext, CallId, Caller, CatalogItem, Clock, ExecuteError,
    ExecutionState, IntentReceipt, MonotonicTime, Offer, Org, Outcome, OutcomeBody,
    PermissionLevel, RecordedCall, Source as _, SourceName, ToolCall, ToolKey, WallTime,
};

pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_builtins-launch");

#[derive(Debug)]
struct Real(Instant);
impl Clock for Real {
    fn wall_now(&self) -> WallTime {
        WallTime(0)
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(self.0.elapsed())
    }
}

pub(crate) struct Token(CancellationToken);
impl CancelSignal for Token {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.cancelled())
    }
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

struct Nobody;
impl ProgressSink for Nobody {
    fn report_progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl CredentialProvider for Nobody {
    fn find_credential<'a>(
        &'a self,
        _: &'a SourceName,
        _: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential> {
        Box::pin(std::future::ready(UpstreamCredential::NotNeeded))
    }
}

/// Tools that require a sandbox, with a working folder.
pub(crate) struct Stage {
    pub(crate) work: tempfile::TempDir,
    offers: Vec<Offer>,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let work = tempfile::tempdir().unwrap();
        let place = work.path().canonicalize().unwrap();
        let launcher = ProcessLauncher::new(PathBuf::from(BIN), vec!["__launch".into()]);
        let sandboxes =
            Arc::new(SandboxProvider::new(launcher, Some(place), SandboxLevel::NoNamespaces));
        let clock: Arc<dyn Clock> = Arc::new(Real(Instant::now()));
        let means = ToolDependencies { sandboxes: Some(sandboxes), ..ToolDependencies::default() };
        let source = BuiltinSource::new(&clock, &means);
        let listing = source.list_offers().await.unwrap();
        assert_eq!(listing.problems, []);
        Self { work, offers: listing.offers }
    }

    pub(crate) async fn call(&self, name: &str, args: &Value) -> Outcome {
        self.tried(name, args, &CancellationToken::new()).await.unwrap()
    }

    pub(crate) async fn tried(
        &self,
        name: &str,
        args: &Value,
        cancel: &CancellationToken,
    ) -> Result<Outcome, ExecuteError> {
        let mut offers = self.offers.iter();
        let (tool, executor) = offers
            .find_map(|offer| match &offer.item {
                CatalogItem::Tool(tool) if tool.name.as_str() == name => {
                    Some((tool, &offer.executor))
                }
                _ => None,
            })
            .unwrap_or_else(|| panic!("no {name}"));
        let key = ToolKey {
            org: Org::default(),
            source: SourceName::new("builtin").unwrap(),
            name: tool.name.clone(),
        };
        let id = CallId(uuid::Uuid::nil());
        let args = CallArguments::from_json(tool::Json::encode(args)).unwrap();
        let tool = Arc::clone(tool);
        let call = ToolCall {
            id,
            parent_id: None,
            resumption: None,
            unsolicited_input: None,
            tool_key: key,
            tool,
            arguments: args,
        };
        let caller = Caller {
            org: Org::default(),
            subject: "someone".into(),
            key_id: "k".into(),
            level: PermissionLevel::User,
            is_agent: true,
            actors: Vec::new(),
            root_key_id: None,
        };
        let ctx = CallContext {
            caller: &caller,
            deadline: MonotonicTime(Duration::MAX),
            cancel: &Token(cancel.clone()),
            progress: &Nobody,
            client_capabilities: &ClientCapabilities::default(),
            meta: None,
            client_requests: None,
            task_handle: None,
            credentials: &Nobody,
            principal: None,
            sandbox_usage: None,
            answering_node: None,
        };
        let ticket = IntentReceipt::with_abandon_hook(id, drop);
        let granted = RecordedCall::from_receipt(&call, &ticket).unwrap();
        match executor.execute(granted, &ctx).await? {
            ExecutionState::Completed(outcome) => Ok(outcome),
            ExecutionState::Pending(wait) => panic!("it waits: {wait:?}"),
        }
    }
}

pub(crate) fn value(outcome: &Outcome) -> Value {
    let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
    json.to_value()
}

pub(crate) fn words(outcome: &Outcome) -> String {
    assert!(outcome.is_error, "{outcome:?}");
    value(outcome).as_str().unwrap().to_owned()
}
