//! Calls of an executor without the pipeline, with a switch that cancels them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tool::executor::Cancel;
use tool::{
    Args, Body, Boxed, Call, CallId, Caller, Context, ExecuteError, Executor, Granted, Item, Level,
    Listing, Mono, Offer, Org, Outcome, SourceName, Step, Ticket, Tool, ToolKey,
};

use crate::context::context;

/// A cancel signal that the test triggers.
#[derive(Debug, Default)]
pub struct Switch {
    off: AtomicBool,
    told: Notify,
}

impl Switch {
    /// Triggers the cancellation.
    pub fn cancel(&self) {
        self.off.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }
}

impl Cancel for Switch {
    fn cancelled(&self) -> Boxed<'_, ()> {
        Box::pin(async {
            let told = self.told.notified();
            if !self.is_cancelled() {
                told.await;
            }
        })
    }
    fn is_cancelled(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }
}

/// An agent of a user of the default organization.
fn caller() -> Caller {
    Caller {
        org: Org::default(),
        subject: "alice".into(),
        key: "key-1".into(),
        level: Level::User,
        agent: true,
        actors: Vec::new(),
        root: None,
    }
}

/// Runs one call to completion.
pub async fn run(
    tool: &Arc<Tool>,
    executor: &dyn Executor,
    args: &str,
) -> Result<Outcome, ExecuteError> {
    run_until(tool, executor, args, &Switch::default()).await
}

/// Runs one call to completion or cancellation.
pub async fn run_until(
    tool: &Arc<Tool>,
    executor: &dyn Executor,
    args: &str,
    cancel: &Switch,
) -> Result<Outcome, ExecuteError> {
    let source = SourceName::new("test").unwrap();
    let key = ToolKey { org: Org::default(), source, name: tool.name.clone() };
    let id = CallId(uuid::Uuid::nil());
    let args = Args::check(args.to_owned()).unwrap();
    let call = Call {
        id,
        parent: None,
        continues: None,
        unasked: None,
        key,
        tool: Arc::clone(tool),
        args,
    };
    let caller = caller();
    let ctx = Context { cancel, deadline: Mono(Duration::MAX), ..context(&caller) };
    let ticket = Ticket::issue(id, drop);
    match executor.execute(Granted::of(&call, &ticket).unwrap(), &ctx).await? {
        Step::Done(outcome) => Ok(outcome),
        Step::Wait(wait) => panic!("it waits: {wait:?}"),
    }
}

/// Finds a tool of a listing with its executor.
pub fn offered(listing: &Listing, name: &str) -> (Arc<Tool>, Arc<dyn Executor>) {
    let named = |offer: &Offer| match &offer.item {
        Item::Tool(tool) if tool.name.as_str() == name => {
            Some((Arc::clone(tool), Arc::clone(&offer.executor)))
        }
        Item::Tool(_) | Item::Prompt(_) | Item::Resource(_) | Item::Method(_) => None,
    };
    listing.offers.iter().find_map(named).unwrap_or_else(|| panic!("no {name}"))
}

/// The tool names of a listing, in order.
pub fn names(listing: &Listing) -> Vec<String> {
    let name = |offer: &Offer| match &offer.item {
        Item::Tool(tool) => tool.name.to_string(),
        Item::Prompt(_) | Item::Resource(_) | Item::Method(_) => panic!("no tool"),
    };
    listing.offers.iter().map(name).collect()
}

/// The JSON value of an outcome.
pub fn value(outcome: &Outcome) -> Value {
    match &outcome.body {
        Body::Value(json) | Body::Mcp(json) => json.value(),
    }
}
