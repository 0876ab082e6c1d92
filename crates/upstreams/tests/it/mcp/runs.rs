//! Makes calls through executors, as a pipeline would.

use std::sync::{Arc, Mutex};

use testkit::context::{caller, context};
use tokio_util::sync::CancellationToken;
use tool::Source as _;
use tool::executor::{Cancel, Progress};
use tool::{
    Args, Body, Boxed, Call, CallId, ExecuteError, Executor, Granted, Item, Listing, Org, Outcome,
    SourceName, Step, Ticket, ToolKey,
};
use upstreams::mcp::McpSource;

/// A tool and what runs it.
#[derive(Clone)]
pub(crate) struct Runner {
    tool: Arc<tool::Tool>,
    executor: Arc<dyn Executor>,
}

/// The tool of this offered name.
pub(crate) async fn runner(source: &McpSource, name: &str) -> Runner {
    pick(&source.list().await.unwrap(), name)
}

pub(crate) fn pick(listing: &Listing, name: &str) -> Runner {
    let found = listing.offers.iter().find_map(|offer| match &offer.item {
        Item::Tool(tool) if tool.name.as_str() == name => {
            Some(Runner { tool: Arc::clone(tool), executor: Arc::clone(&offer.executor) })
        }
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no {name} in {listing:?}"))
}

/// Done, of how much, and in words.
pub(crate) type Told = (f64, Option<f64>, Option<String>);

/// Cancels and listens.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) cancel: CancellationToken,
    pub(crate) progress: Mutex<Vec<Told>>,
}

impl Cancel for Watch {
    fn cancelled(&self) -> Boxed<'_, ()> {
        Box::pin(self.cancel.cancelled())
    }
    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

impl Progress for Watch {
    fn report(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.progress.lock().unwrap().push((done, total, message.map(str::to_owned)));
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
        let id = CallId(uuid::Uuid::now_v7());
        let source = SourceName::new("source").unwrap();
        let call = Call {
            id,
            parent: None,
            continues: None,
            key: ToolKey { org: Org::default(), source, name: self.tool.name.clone() },
            tool: Arc::clone(&self.tool),
            args: Args::check(args.to_owned()).unwrap(),
        };
        let ticket = Ticket::issue(id, |_| {});
        let caller = caller();
        let ctx = tool::Context { cancel: watch, progress: watch, ..context(&caller) };
        let step = self.executor.execute(Granted::of(&call, &ticket).unwrap(), &ctx).await;
        ticket.redeem();
        match step? {
            Step::Done(outcome) => Ok(outcome),
            Step::Wait(wait) => panic!("waits: {wait:?}"),
        }
    }
}

/// The body, as it came.
pub(crate) fn body(outcome: &Outcome) -> String {
    let Body::Mcp(body) = &outcome.body else { panic!("not MCP's shape") };
    body.as_str().to_owned()
}

/// The first text of it.
pub(crate) fn said(outcome: &Outcome) -> String {
    let value: serde_json::Value = serde_json::from_str(&body(outcome)).unwrap();
    value["content"][0]["text"].as_str().unwrap().to_owned()
}
