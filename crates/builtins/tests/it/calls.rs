//! Calls of what the source offers, as the pipeline makes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use builtins::{BuiltinSource, Cages, Means};
use sandbox::Tier;
use sandbox::process::Launcher;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tool::executor::{Cancel, ClientCan, Credential, Credentials, Progress};
use tool::{
    Args, Body, Boxed, Call, CallId, Caller, Clock, Context, ExecuteError, Granted, Item, Level,
    Mono, Offer, Org, Outcome, Source as _, SourceName, Step, Ticket, ToolKey, Wall,
};

pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_builtins-launch");

#[derive(Debug)]
struct Real(Instant);
impl Clock for Real {
    fn wall(&self) -> Wall {
        Wall(0)
    }
    fn mono(&self) -> Mono {
        Mono(self.0.elapsed())
    }
}

pub(crate) struct Token(CancellationToken);
impl Cancel for Token {
    fn cancelled(&self) -> Boxed<'_, ()> {
        Box::pin(self.0.cancelled())
    }
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

struct Nobody;
impl Progress for Nobody {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl Credentials for Nobody {
    fn for_source<'a>(&'a self, _: &'a SourceName, _: &'a Caller) -> Boxed<'a, Credential> {
        Box::pin(std::future::ready(Credential::None))
    }
}

/// The tools that need a cage, with a folder to work in.
pub(crate) struct Stage {
    pub(crate) work: tempfile::TempDir,
    offers: Vec<Offer>,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let work = tempfile::tempdir().unwrap();
        let place = work.path().canonicalize().unwrap();
        let launcher = Launcher::new(PathBuf::from(BIN), vec!["__launch".into()]);
        let cages = Arc::new(Cages::new(launcher, Some(place), Tier::Fenced));
        let clock: Arc<dyn Clock> = Arc::new(Real(Instant::now()));
        let means = Means { cages: Some(cages), ..Means::default() };
        let source = BuiltinSource::new(&clock, &means);
        let listing = source.list().await.unwrap();
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
                Item::Tool(tool) if tool.name.as_str() == name => Some((tool, &offer.executor)),
                _ => None,
            })
            .unwrap_or_else(|| panic!("no {name}"));
        let key = ToolKey {
            org: Org::default(),
            source: SourceName::new("builtin").unwrap(),
            name: tool.name.clone(),
        };
        let id = CallId(uuid::Uuid::nil());
        let args = Args::from_json(tool::Json::of(args)).unwrap();
        let tool = Arc::clone(tool);
        let call = Call { id, parent: None, continues: None, unasked: None, key, tool, args };
        let caller = Caller {
            org: Org::default(),
            subject: "someone".into(),
            key: "k".into(),
            level: Level::User,
            agent: true,
            actors: Vec::new(),
            root: None,
        };
        let ctx = Context {
            caller: &caller,
            deadline: Mono(Duration::MAX),
            cancel: &Token(cancel.clone()),
            progress: &Nobody,
            client: &ClientCan::default(),
            meta: None,
            ask: None,
            task: None,
            credentials: &Nobody,
            principal: None,
            caged: None,
            node: None,
        };
        let ticket = Ticket::issue(id, drop);
        let granted = Granted::of(&call, &ticket).unwrap();
        match executor.execute(granted, &ctx).await? {
            Step::Done(outcome) => Ok(outcome),
            Step::Wait(wait) => panic!("it waits: {wait:?}"),
        }
    }
}

pub(crate) fn value(outcome: &Outcome) -> Value {
    let Body::Value(json) = &outcome.body else { panic!("an MCP result") };
    json.value()
}

pub(crate) fn words(outcome: &Outcome) -> String {
    assert!(outcome.is_error, "{outcome:?}");
    value(outcome).as_str().unwrap().to_owned()
}
