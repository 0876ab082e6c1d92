//! Makes calls through executors, as a pipeline would.

use std::sync::{Arc, Mutex};

use source_mcp::McpSource;
use testkit::context::{caller, context};
use tokio_util::sync::CancellationToken;
use tool::Source as _;
use tool::call::Resume;
use tool::executor::{Ask, Cancel, ClientCan, Credentials, Progress, Task, Unanswered};
use tool::{
    Args, Body, Boxed, Call, CallId, Caller, ExecuteError, Executor, Granted, Item, Json, Limits,
    Listing, Org, Outcome, SourceName, Step, Ticket, ToolKey, Wait,
};

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
        Item::Tool(tool) | Item::Method(tool) if tool.name.as_str() == name => {
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
    pub(crate) notices: Mutex<Vec<(String, serde_json::Value)>>,
    /// Told of each notice.
    pub(crate) noticed: tokio::sync::Notify,
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
    fn notify(&self, method: &str, params: &Json) {
        if method == "notifications/progress" {
            let (done, total) = (params.get("progress"), params.get("total"));
            let message = params.get("message").and_then(|message| message.read().ok());
            let number = |json: Option<Json>| json.and_then(|json| json.read().ok());
            let told = (number(done).unwrap(), number(total), message);
            self.progress.lock().unwrap().push(told);
        }
        self.notices.lock().unwrap().push((method.to_owned(), params.value()));
        self.noticed.notify_one();
    }
}

impl Watch {
    /// Waits until so many notices of this method came.
    pub(crate) async fn heard(&self, method: &str, count: usize) {
        while self.notices.lock().unwrap().iter().filter(|(m, _)| m == method).count() < count {
            self.noticed.notified().await;
        }
    }
}

/// A client that answers each question by its method, or refuses.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) refuses: bool,
    pub(crate) asked: Mutex<Vec<(String, serde_json::Value)>>,
}

impl Ask for Client {
    fn ask<'a>(&'a self, method: &'a str, params: Json) -> Boxed<'a, Result<Json, Unanswered>> {
        self.asked.lock().unwrap().push((method.to_owned(), params.value()));
        let answer = match method {
            "roots/list" => r#"{"roots":[{"uri":"file:///home"}]}"#,
            _ => r#"{"action":"accept", "content":{"n":1.0e2}}"#,
        };
        Box::pin(std::future::ready(if self.refuses {
            Err(Unanswered::Refused { code: -1, message: "the user said no".to_owned() })
        } else {
            Ok(json(answer))
        }))
    }
}

pub(crate) fn json(text: &str) -> Json {
    Json::check(text.to_owned(), Limits::DOCUMENT).unwrap()
}

/// A client that declared so much.
pub(crate) fn declares(text: &str) -> ClientCan {
    ClientCan { declared: Some(json(text)), ..ClientCan::default() }
}

/// What of a call differs from test to test.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup<'a> {
    pub(crate) watch: Option<&'a Watch>,
    pub(crate) ask: Option<&'a dyn Ask>,
    pub(crate) task: Option<&'a dyn Task>,
    pub(crate) client: Option<&'a ClientCan>,
    pub(crate) meta: Option<&'a Json>,
    pub(crate) resume: Option<&'a Resume>,
    pub(crate) unasked: Option<&'a Json>,
    pub(crate) caller: Option<&'a Caller>,
    pub(crate) credentials: Option<&'a dyn Credentials>,
}

/// What the next call brings along to go on after `step`.
pub(crate) fn resume(step: Step, answers: &str) -> Resume {
    let Step::Wait(Wait::Input { resume, .. }) = step else { panic!("no question: {step:?}") };
    Resume { call: CallId(uuid::Uuid::nil()), state: resume, answers: json(answers) }
}

/// The questions of a step.
pub(crate) fn questions(step: &Step) -> String {
    let Step::Wait(Wait::Input { requests, .. }) = step else { panic!("no question: {step:?}") };
    requests.as_str().to_owned()
}

/// The outcome of a step.
pub(crate) fn done(step: Step) -> Outcome {
    match step {
        Step::Done(outcome) => outcome,
        Step::Wait(wait) => panic!("waits: {wait:?}"),
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

    pub(crate) async fn step(&self, args: &str, setup: Setup<'_>) -> Result<Step, ExecuteError> {
        let id = CallId(uuid::Uuid::now_v7());
        let source = SourceName::new("source").unwrap();
        let call = Call {
            id,
            parent: None,
            continues: setup.resume.cloned(),
            unasked: setup.unasked.cloned(),
            key: ToolKey { org: Org::default(), source, name: self.tool.name.clone() },
            tool: Arc::clone(&self.tool),
            args: Args::check(args.to_owned()).unwrap(),
        };
        let ticket = Ticket::issue(id, |_| {});
        let (ann, unwatched) = (caller(), Watch::default());
        let caller = setup.caller.unwrap_or(&ann);
        let watch = setup.watch.unwrap_or(&unwatched);
        let plain = context(caller);
        let ctx = tool::Context {
            cancel: watch,
            progress: watch,
            ask: setup.ask,
            task: setup.task,
            client: setup.client.unwrap_or(plain.client),
            meta: setup.meta,
            credentials: setup.credentials.unwrap_or(plain.credentials),
            ..plain
        };
        let step = self.executor.execute(Granted::of(&call, &ticket).unwrap(), &ctx).await;
        ticket.redeem();
        step
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
