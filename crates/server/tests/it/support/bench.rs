//! A server: a catalog through intake, a ledger and a store in memory, a listener on port 0.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gateway::{Gateway, Holding, Options, Patience};
use identity::{NewKey, Principal, Right};
use intake::{Intake, Pins, Sourced, Times};
use ledger::FileLedger;
use server::Front;
use server_core::{Counts, Hosts, Issuers, Keys, Parts, SteadyClock};
use server_mcp::McpDoors;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::ledger::MemoryLedger;
use testkit::source::{Answer, Scripted};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::ledger::Kind;
use tool::{
    CallId, Clock as _, End, Intent, Level, Listing, Offer, Org, Refusal, Secret, Store, Trust,
};

use super::Client;

/// What a test's server differs in.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) offers: Vec<Offer>,
    pub(crate) hosts: Hosts,
    pub(crate) options: Options,
    pub(crate) open: Option<Level>,
    /// The ledger that ships, where the one in memory is not enough.
    pub(crate) files: Option<Arc<FileLedger>>,
    /// The kind of its source, where that is not one of the tests' own.
    pub(crate) kind: Option<&'static str>,
    /// What its source says of itself.
    pub(crate) about: Option<tool::Json>,
    /// The installation's secret.
    pub(crate) secret: Option<Secret>,
    /// Whether calls can be held, and how.
    pub(crate) patience: Option<Patience>,
    /// How callers are told of them.
    pub(crate) notices: server_core::Notices,
    /// What its source answers first, where that is no listing of the offers.
    pub(crate) first: Option<Answer>,
    /// How far its source is trusted, with pins that hold it to that; without pins where absent.
    pub(crate) trust: Option<Trust>,
    /// Where large answers are kept.
    pub(crate) artefacts: Option<Arc<dyn tool::artefact::Artefacts>>,
    /// Where its keys are kept, where that is not a store of its own.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// The registry of nodes' tools.
    pub(crate) nodes: Option<Arc<dyn tool::node::Nodes>>,
    pub(crate) programs: Option<Arc<dyn server_core::Programs>>,
    /// The catalogue.
    pub(crate) catalogue: Option<Arc<dyn tool::catalogue::Catalogue>>,
    /// The plugins.
    pub(crate) plugins: Option<Arc<dyn tool::plugin::Plugins>>,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) ledger: Arc<MemoryLedger>,
    pub(crate) source: Arc<Scripted>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) doors: McpDoors,
    pub(crate) stop: CancellationToken,
    pub(crate) listening: TaskTracker,
    pub(crate) keys: Arc<Keys>,
    pub(crate) issuers: Arc<Issuers>,
}

impl Server {
    /// With the tools of [`super::tools`].
    pub(crate) async fn new() -> Self {
        Self::of(super::tools::standard()).await
    }

    pub(crate) async fn of(offers: Vec<Offer>) -> Self {
        Self::with(Setup { offers, ..Setup::default() }).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let (ledger, clock) = (Arc::new(MemoryLedger::default()), Arc::new(FakeClock::default()));
        let kept = kept(setup.files, &ledger);
        let counts = Counts::default();
        let (offers, about) = (setup.offers, setup.about);
        let listing = Listing { offers, about, ..Listing::default() };
        let first = setup.first.unwrap_or(Answer::Listing(listing));
        let source = Arc::new(Scripted::new("s", first));
        let intake = listed(&source, (setup.kind, setup.trust), (&ledger, &clock)).await;
        let store = setup.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let (keys, problems) = Keys::read(store, setup.open).await.unwrap();
        assert_eq!(problems, []);
        let keys = Arc::new(keys);
        let holding = setup.patience.map(|patience| holding(&keys, patience));
        let gateway = Gateway::new(gateway::Parts {
            current: intake.current(),
            ledger: counts.over(kept.0),
            clock: Arc::clone(&clock) as _,
            credentials: Arc::new(testkit::context::Quiet),
            mac_key: Secret::new("key"),
            holding,
            options: setup.options,
        });
        let gateway = Arc::new(match setup.artefacts {
            Some(artefacts) => gateway.with_artefacts(artefacts),
            None => gateway,
        });
        let issuers = Arc::new(Issuers::default());
        let doors = McpDoors::new(Parts {
            gateway: Arc::clone(&gateway),
            intake: Arc::clone(&intake),
            keys: Arc::clone(&keys),
            issuers: Arc::clone(&issuers),
            records: kept.1,
            counts,
            clock: Arc::new(SteadyClock::new(Arc::clone(&clock) as _)),
            max_body: server_core::MAX_BODY,
            notices: setup.notices,
            nodes: setup.nodes,
            programs: setup.programs,
            catalogue: setup.catalogue,
            plugins: setup.plugins,
            secret: setup.secret.unwrap_or_else(|| Secret::new("key")),
            hosts: setup.hosts,
        });
        let (address, stop, listening) = listen(Front::new(&doors)).await;
        Self {
            address,
            gateway,
            ledger,
            source,
            clock,
            intake,
            doors,
            stop,
            listening,
            keys,
            issuers,
        }
    }

    /// With a module of which nothing can be had.
    pub(crate) async fn away(error: tool::SourceError) -> Self {
        let setup =
            Setup { kind: Some("module"), first: Some(Answer::Error(error)), ..Setup::default() };
        Self::with(setup).await
    }

    /// Those who have no persona may use these sources alone.
    pub(crate) async fn guests(&self, modules: Option<&[&str]>) {
        let modules = modules.map(|all| all.iter().map(|&module| module.to_owned()).collect());
        self.keys.set_guests(modules).await.unwrap();
    }

    /// Its source lists these from now on; resolves when the catalog has them.
    pub(crate) async fn relist(&self, offers: Vec<Offer>) {
        let mut numbers = self.intake.numbers();
        let before = *numbers.borrow_and_update();
        self.source.set(Answer::Listing(Listing { offers, ..Listing::default() }));
        soon(numbers.wait_for(|number| *number > before)).await.unwrap();
    }

    /// A client without a key.
    pub(crate) fn anyone(&self) -> Client {
        Client::new(self.address)
    }

    /// A client with a new key for an agent.
    pub(crate) async fn agent(&self, subject: &str, level: Level) -> Client {
        self.client(|key| (key.subject, key.level) = (subject.to_owned(), level)).await
    }

    /// A client with a person's key that has every right.
    pub(crate) async fn owner(&self) -> Client {
        self.client(|key| {
            (key.subject, key.level, key.agent) = ("owner".to_owned(), Level::Owner, false);
            key.rights = Right::ALL.iter().copied().collect();
        })
        .await
    }

    pub(crate) async fn client(&self, change: impl FnOnce(&mut NewKey)) -> Client {
        let mut key = NewKey::user(Keys::fresh_id().unwrap(), "ann");
        change(&mut key);
        let (secret, record) = self.keys.create(key, self.clock.wall()).await.unwrap();
        self.anyone().key(secret.open(), record.id.as_str())
    }

    /// Another key, with the principal that it makes.
    pub(crate) async fn known(&self, mut key: NewKey) -> (Client, Principal) {
        for hand in 0..key.delegations.len() {
            let id = Keys::fresh_id().unwrap();
            let delegations = key.delegations[..hand].to_vec();
            key.delegations[hand].by = id.to_string();
            let above = NewKey { id, delegations, ..key.clone() };
            self.keys.create(above, self.clock.wall()).await.unwrap();
        }
        let (secret, record) = self.keys.create(key, self.clock.wall()).await.unwrap();
        let principal = self.keys.ring().verify(Some(secret.open()), self.clock.wall()).unwrap();
        (self.anyone().key(secret.open(), record.id.as_str()), principal)
    }

    pub(crate) async fn revoke(&self, client: &Client) {
        self.keys.revoke(&client.key_id, self.clock.wall()).await.unwrap();
    }

    pub(crate) fn intents(&self) -> Vec<Intent> {
        self.bodies(Kind::Intent)
    }

    pub(crate) fn ends(&self) -> Vec<End> {
        self.bodies(Kind::Outcome)
    }

    /// Ends with the calls that they are of.
    pub(crate) fn outcomes(&self) -> Vec<(CallId, End)> {
        let frames = self.ledger.frames().into_iter().filter(|f| f.kind == Kind::Outcome);
        frames.map(|frame| (frame.call.unwrap(), frame.body.read().unwrap())).collect()
    }

    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.bodies(Kind::Refused)
    }

    fn bodies<T: for<'de> serde::Deserialize<'de>>(&self, kind: Kind) -> Vec<T> {
        let frames = self.ledger.frames().into_iter().filter(|frame| frame.kind == kind);
        frames.map(|frame| frame.body.read().unwrap()).collect()
    }

    /// Waits until no call runs. The server takes none from here on.
    pub(crate) async fn drained(&self) {
        soon(self.gateway.drain()).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Calls are held in memory, and nobody is told.
fn holding(keys: &Arc<Keys>, patience: Patience) -> Holding {
    Holding {
        store: Arc::new(MemoryStore::new()),
        holders: Arc::clone(keys) as _,
        herald: Arc::new(gateway::Nobody),
        patience,
    }
}

/// With pins, where it is said how far the source is trusted.
async fn listed(
    source: &Arc<Scripted>,
    (kind, trust): (Option<&'static str>, Option<Trust>),
    (ledger, clock): (&Arc<MemoryLedger>, &Arc<FakeClock>),
) -> Arc<Intake> {
    let sourced = Sourced {
        source: Arc::clone(source) as Arc<dyn tool::Source>,
        kind: kind.unwrap_or("test"),
        trust: trust.unwrap_or(Trust::Full),
        durability: None,
        poll: None,
        fingerprint: 1,
    };
    let (sources, times, time) = (vec![sourced], Times::default(), Arc::clone(clock) as _);
    let intake = if trust.is_some() {
        let (store, events) = (Arc::new(MemoryStore::new()) as _, Arc::clone(ledger) as _);
        let pins = Arc::new(Pins::new(Org::default(), store, events, Arc::clone(clock) as _));
        Intake::pinned((Org::default(), pins), sources, times, time)
    } else {
        Intake::start(Org::default(), sources, times, time)
    };
    intake.settled().await;
    Arc::new(intake)
}

/// The record, to write and to read.
fn kept(
    files: Option<Arc<FileLedger>>,
    memory: &Arc<MemoryLedger>,
) -> (Arc<dyn tool::Ledger>, Arc<dyn tool::ledger::Records>) {
    match files {
        Some(files) => (Arc::clone(&files) as _, files),
        None => (Arc::clone(memory) as _, Arc::clone(memory) as _),
    }
}

/// Serves on a port of its own.
pub(crate) async fn listen(
    front: impl Into<Front>,
) -> (SocketAddr, CancellationToken, TaskTracker) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let (front, until) = (front.into(), stop.clone());
    // On the test's own runtime, whose clock it may hold.
    let serving = async move {
        server::listen(listener, front, &server::Workers::here(), until).await;
    };
    drop(tasks.spawn(serving));
    tasks.close();
    (address, stop, tasks)
}

/// Fails where it takes so long that it will not come: a minute, by whichever clock the test has.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("it comes within a minute")
}
