//! Calls of an executor without the pipeline, with a switch that cancels them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tool::executor::CancelSignal;
use tool::{
    BoxFuture, CallArguments, CallContext, CallId, Caller, CatalogItem, ExecuteError,
    ExecutionState, Executor, IntentReceipt, MonotonicTime, Offer, Org, Outcome, OutcomeBody,
    PermissionLevel, RecordedCall, SourceListing, SourceName, Tool, ToolCall, ToolKey,
};

use crate::context::quiet_context;

/// A cancel signal that the test triggers.
#[derive(Debug, Default)]
pub struct CancelSwitch {
    is_set: AtomicBool,
    notify: Notify,
}

impl CancelSwitch {
    /// Triggers the cancellation of the call.
    pub fn cancel_call(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }
}

impl CancelSignal for CancelSwitch {
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let notified = self.notify.notified();
            if !self.is_cancelled() {
                notified.await;
            }
        })
    }
    fn is_cancelled(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }
}

/// An agent of a user of the default organization.
fn test_agent() -> Caller {
    Caller {
        org: Org::default(),
        subject: "alice".into(),
        key_id: "key-1".into(),
        level: PermissionLevel::User,
        is_agent: true,
        actors: Vec::new(),
        root_key_id: None,
    }
}

/// Runs one call to completion.
pub async fn run_call(
    tool: &Arc<Tool>,
    executor: &dyn Executor,
    args: &str,
) -> Result<Outcome, ExecuteError> {
    run_cancellable(tool, executor, args, &CancelSwitch::default()).await
}

/// Runs one call to completion or cancellation.
pub async fn run_cancellable(
    tool: &Arc<Tool>,
    executor: &dyn Executor,
    args: &str,
    cancel: &CancelSwitch,
) -> Result<Outcome, ExecuteError> {
    let source = SourceName::new("test").unwrap();
    let key = ToolKey { org: Org::default(), source, name: tool.name.clone() };
    let id = CallId(uuid::Uuid::nil());
    let args = CallArguments::parse(args.to_owned()).unwrap();
    let call = ToolCall {
        id,
        parent_id: None,
        resumption: None,
        unsolicited_input: None,
        tool_key: key,
        tool: Arc::clone(tool),
        arguments: args,
    };
    let caller = test_agent();
    let ctx =
        CallContext { cancel, deadline: MonotonicTime(Duration::MAX), ..quiet_context(&caller) };
    let ticket = IntentReceipt::with_abandon_hook(id, drop);
    match executor.execute(RecordedCall::from_receipt(&call, &ticket).unwrap(), &ctx).await? {
        ExecutionState::Completed(outcome) => Ok(outcome),
        ExecutionState::Pending(wait) => panic!("it waits: {wait:?}"),
    }
}

/// Finds a tool of a listing with its executor.
pub fn find_offer(listing: &SourceListing, name: &str) -> (Arc<Tool>, Arc<dyn Executor>) {
    let named = |offer: &Offer| match &offer.item {
        CatalogItem::Tool(tool) if tool.name.as_str() == name => {
            Some((Arc::clone(tool), Arc::clone(&offer.executor)))
        }
        CatalogItem::Tool(_)
        | CatalogItem::Prompt(_)
        | CatalogItem::Resource(_)
        | CatalogItem::Skill(_)
        | CatalogItem::Event(_)
        | CatalogItem::Method(_) => None,
    };
    listing.offers.iter().find_map(named).unwrap_or_else(|| panic!("no {name}"))
}

/// The tool names of a listing, in order.
pub fn tool_names(listing: &SourceListing) -> Vec<String> {
    let name = |offer: &Offer| match &offer.item {
        CatalogItem::Tool(tool) => tool.name.to_string(),
        CatalogItem::Prompt(_)
        | CatalogItem::Resource(_)
        | CatalogItem::Skill(_)
        | CatalogItem::Event(_)
        | CatalogItem::Method(_) => {
            panic!("no tool")
        }
    };
    listing.offers.iter().map(name).collect()
}

/// The JSON value of an outcome.
pub fn outcome_json(outcome: &Outcome) -> Value {
    match &outcome.body {
        OutcomeBody::Value(json) | OutcomeBody::Mcp(json) => json.to_value(),
    }
}
