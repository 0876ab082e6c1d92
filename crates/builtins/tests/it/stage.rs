//! All tools, with a working folder and a net that leads nowhere but here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use builtins::{BuiltinSource, Cages, Files, Means, Ruff};
use egress::{Dial, Egress, EgressSettings, Resolve};
use rooted_fs::roots::{Access, Root};
use sandbox::Tier;
use sandbox::process::Launcher;
use serde_json::Value;
use tokio::net::TcpStream;
use tool::executor::{Cancel, ClientCan, Credential, Credentials, Progress};
use tool::{
    Args, Body, Boxed, Call, CallId, Caller, Clock, Context, Granted, Item, Level, Mono, Offer,
    Org, Source as _, SourceName, Step, Ticket, ToolKey, Wall,
};

#[derive(Debug)]
struct Still;
impl Clock for Still {
    fn wall(&self) -> Wall {
        Wall(1_782_945_015_250)
    }
    fn mono(&self) -> Mono {
        Mono(Duration::ZERO)
    }
}

struct Nobody;
impl Cancel for Nobody {
    fn cancelled(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}
impl Progress for Nobody {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
}
impl Credentials for Nobody {
    fn for_source<'a>(&'a self, _: &'a SourceName, _: &'a Caller) -> Boxed<'a, Credential> {
        Box::pin(std::future::ready(Credential::None))
    }
}

/// Counts what is dialled, and connects nothing.
#[derive(Debug, Default)]
pub(crate) struct Dialled(AtomicUsize);
impl Dialled {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
impl Dial for Dialled {
    fn dial(&self, _: SocketAddr) -> Boxed<'_, io::Result<(TcpStream, SocketAddr)>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())))
    }
}

/// Every name is inside.
#[derive(Debug)]
struct Inside;
impl Resolve for Inside {
    fn resolve<'a>(&'a self, _: &'a str) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec!["10.0.0.1".parse().unwrap()])))
    }
}

pub(crate) struct Stage {
    pub(crate) home: tempfile::TempDir,
    pub(crate) dialled: Arc<Dialled>,
    offers: Vec<Offer>,
}

impl Stage {
    /// The working folder is `a/b/c/work` of the home.
    pub(crate) async fn new() -> Self {
        Self::with(None, None).await
    }

    /// With the tools that need a cage where there is a launcher, and with a ruff in a folder.
    pub(crate) async fn with(launcher: Option<Launcher>, folder: Option<PathBuf>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let work = home.path().join("a/b/c/work");
        std::fs::create_dir_all(&work).unwrap();
        let root = Root::open(&work, Access::ReadWrite).unwrap();
        let dialled = Arc::new(Dialled::default());
        let (dialer, resolver) = (Arc::clone(&dialled), Arc::new(Inside));
        let settings = EgressSettings { dialer, resolver, ..EgressSettings::default() };
        let place = work.canonicalize().unwrap();
        let cages = launcher.map(|it| Arc::new(Cages::new(it, Some(place), Tier::Fenced)));
        let ruff = cages.as_ref().map(|cages| Ruff::among(cages, folder));
        let means = Means {
            ruff,
            cages,
            files: Some(Arc::new(Files::new(vec![(work, root)]))),
            egress: Some(Egress::new(settings).unwrap()),
            ..Means::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(Still);
        let offers = BuiltinSource::new(&clock, &means).list().await.unwrap().offers;
        Self { home, dialled, offers }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.home.path().join("a/b/c/work")
    }

    /// What a tool answers, or why it fails.
    pub(crate) async fn call(&self, name: &str, args: &Value) -> Result<Value, Value> {
        self.call_raw(name, args.to_string()).await
    }

    /// The same for arguments that may be no JSON.
    pub(crate) async fn call_raw(
        &self,
        name: &str,
        args: impl Into<bytes::Bytes>,
    ) -> Result<Value, Value> {
        let named =
            |offer: &&Offer| matches!(&offer.item, Item::Tool(it) if it.name.as_str() == name);
        let offer = self.offers.iter().find(named).unwrap_or_else(|| panic!("no {name}"));
        let Item::Tool(tool) = &offer.item else { panic!() };
        let key = ToolKey {
            org: Org::default(),
            source: SourceName::new("builtin").unwrap(),
            name: tool.name.clone(),
        };
        let args = Args::check(args).map_err(|error| error.to_string())?;
        let id = CallId(uuid::Uuid::nil());
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
            cancel: &Nobody,
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
        let step = offer.executor.execute(Granted::of(&call, &ticket).unwrap(), &ctx).await;
        let step = match step {
            Ok(step) => step,
            // What stops a call before it runs, such as a folder that is gone.
            Err(error) => return Err(Value::from(error.message)),
        };
        let Step::Done(outcome) = step else { panic!("it waits") };
        let Body::Value(json) = &outcome.body else { panic!("an MCP result") };
        if outcome.is_error { Err(json.value()) } else { Ok(json.value()) }
    }
}
