//! Keeps one server up: starts it at the first need, again when it ends, and not for ever.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::mcp::Era;
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::source::SourceFault;
use tool::{Revision, SourceName};

use super::audience::Asking;
use super::callers::Callers;
use super::dial::{Dial, Fault};
use super::eras::{Begun, Other};
use super::follow::follow;
use super::http::Http;
use super::link::Link;
use super::options::Options;
use super::parked::{Held, Owner, Parked};
use super::patience::{ENOUGH, LONGEST, Next, Patience, WINDOW};
use super::session::Setting;

/// Changes of lists are told no more often than this.
const CALM: Duration = Duration::from_millis(500);

/// The longest wait before an endpoint is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Where the server is.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// Not asked for yet, or on its way.
    Coming,
    /// There.
    Up(Arc<Link>),
    /// Gone, and to be started again.
    Resting(Fault),
    /// Gone, and left so until the operator asks.
    Down(Fault),
    /// Closed for good.
    Closed,
}

/// How it is reached.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// By a child of ours.
    Pipes(Arc<dyn Dial>),
    /// By streamable HTTP.
    Http(Arc<Http>),
}

/// One server.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) name: SourceName,
    pub(super) options: Options,
    pub(super) place: String,
    target: Target,
    pub(super) state: watch::Sender<State>,
    revision: watch::Sender<Revision>,
    /// Why it last ended, while it is up again.
    pub(super) scar: Mutex<Option<(Fault, usize)>>,
    /// What worked last.
    pub(super) era: Mutex<Option<Era>>,
    /// The connection beside the main one, for servers of both eras.
    pub(super) other: Other,
    refresh: Notify,
    started: AtomicBool,
    setting: Setting,
    parked: Arc<Parked>,
    /// The same server for callers with connections of their own.
    pub(super) callers: Callers,
    /// Whether this is it for one of them: it is not started again by itself.
    single: bool,
}

impl Upstream {
    /// Nothing is started yet.
    pub(super) fn new(name: SourceName, options: Options, target: Target) -> Arc<Self> {
        let shared = (Asking::new(name.clone()), Arc::default());
        Self::made((name, options), target, shared, false)
    }

    /// The same server for one caller, reached by `target`.
    pub(super) fn single(&self, target: Target) -> Arc<Self> {
        let shared = (self.setting.asking.clone(), Arc::clone(&self.parked));
        Self::made((self.name.clone(), self.options.clone()), target, shared, true)
    }

    fn made(
        (name, options): (SourceName, Options),
        target: Target,
        (asking, parked): (Asking, Arc<Parked>),
        single: bool,
    ) -> Arc<Self> {
        let place = match &target {
            Target::Pipes(dial) => dial.place(),
            Target::Http(http) => http.place().to_owned(),
        };
        let setting = Setting {
            bounds: options.bounds.clone(),
            dialect: options.dialect,
            asking,
            changed: Arc::new(Notify::new()),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        Arc::new(Self {
            name,
            options,
            place,
            target,
            state: watch::Sender::new(State::Coming),
            revision: watch::Sender::new(Revision::default()),
            scar: Mutex::new(None),
            era: Mutex::new(None),
            other: Other::default(),
            refresh: Notify::new(),
            started: AtomicBool::new(false),
            setting,
            parked,
            callers: Callers::default(),
            single,
        })
    }

    /// Starts the server where that has not happened. Needs a tokio runtime.
    pub(super) fn start(self: &Arc<Self>) {
        if !self.started.swap(true, Ordering::AcqRel) && !self.setting.closing.is_cancelled() {
            drop(self.setting.tasks.spawn(Arc::clone(self).supervise()));
            drop(self.setting.tasks.spawn(Arc::clone(self).listen()));
        }
    }

    /// Whether it was started.
    pub(super) fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// The connection, once the server is up; or why it is not.
    pub(super) async fn link(&self) -> Result<Arc<Link>, Fault> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Coming)).await;
        match settled.as_deref() {
            Ok(State::Up(link)) => Ok(Arc::clone(link)),
            Ok(State::Resting(fault) | State::Down(fault)) => Err(fault.clone()),
            Ok(State::Coming | State::Closed) | Err(_) => Err(closed()),
        }
    }

    /// Keeps a request that waits for its client; gives it back where too many do.
    pub(super) fn park(&self, held: Held) -> Result<Bytes, Box<Held>> {
        self.parked.park(held, &self.setting.closing)
    }

    /// How it is reached.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// `text` that came from the server, without the secrets that this was given.
    pub(super) fn redact(&self, text: String) -> String {
        match &self.target {
            Target::Pipes(dial) => dial.redact(text),
            Target::Http(http) => http.redact(text),
        }
    }

    /// How it is reached over HTTP.
    pub(super) fn http(&self) -> Option<&Arc<Http>> {
        match &self.target {
            Target::Http(http) => Some(http),
            Target::Pipes(_) => None,
        }
    }

    /// Gives such a request back, once, to whom it belongs.
    pub(super) fn unpark(&self, name: &[u8], owner: &Owner) -> Option<Held> {
        self.parked.take(name, owner)
    }

    pub(super) fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    /// Resolves when the revision is another than `seen`.
    pub(super) async fn changed(&self, seen: Revision) -> Revision {
        let mut revision = self.revision.subscribe();
        let now = revision.wait_for(|now| *now != seen).await.map(|now| *now);
        match now {
            Ok(now) => now,
            // The sender lives as long as `self`.
            Err(_) => seen,
        }
    }

    /// The operator asks: where it rests or was left down, it is started now.
    pub(super) fn refresh(&self) {
        self.account().inspect(|account| account.forgive());
        let waits = self.state.send_if_modified(|state| {
            let waits = matches!(state, State::Resting(_) | State::Down(_));
            if waits {
                *state = State::Coming;
            }
            waits
        });
        if waits {
            self.refresh.notify_one();
        }
    }

    /// Begins to end it.
    pub(super) fn close(&self) {
        if !self.started.swap(true, Ordering::AcqRel) {
            self.state.send_replace(State::Closed);
        }
        self.setting.closing.cancel();
        self.setting.tasks.close();
        self.callers.close();
    }

    /// Resolves when nothing of it is left.
    pub(super) async fn closed(&self) {
        self.setting.tasks.wait().await;
        self.callers.closed().await;
    }

    /// What sessions are begun with.
    pub(super) fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Whether it is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.setting.closing.is_cancelled()
    }

    pub(super) fn bump(&self) {
        self.revision.send_modify(|revision| revision.0 += 1);
    }

    async fn supervise(self: Arc<Self>) {
        let mut patience = Patience::default();
        loop {
            self.state.send_replace(State::Coming);
            let begun = self.begin_watched().await;
            if self.setting.closing.is_cancelled() {
                if let Ok(begun) = begun {
                    begun.main.last(&self.setting).await;
                }
                break;
            }
            let was_up = begun.is_ok();
            let (fault, up) = match begun {
                Ok(begun) => Box::pin(self.run(begun)).await,
                Err(failed) => (failed, Duration::ZERO),
            };
            if self.setting.closing.is_cancelled()
                || !self.rest(&mut patience, (fault, up), was_up).await
            {
                break;
            }
        }
        self.other.end();
        if !self.single || self.is_closing() {
            self.state.send_replace(State::Closed);
        }
    }

    async fn run(&self, Begun { main: session, other, both }: Begun) -> (Fault, Duration) {
        let since = Instant::now();
        let link = Arc::clone(&session.link);
        let mut beside = Box::pin(self.keep_other(link.era(), (other, both))).fuse();
        // Polled once before anyone can call: from then on it is to be found.
        (&mut beside).now_or_never();
        tracing::info!(source = %self.name, era = ?link.era(), "an MCP server is up");
        self.state.send_replace(State::Up(Arc::clone(&link)));
        self.bump();
        let over = async {
            link.over().await;
            // Before the tree is gone, which takes its time: nobody is to wait for this link.
            self.state.send_replace(State::Coming);
        };
        let followed = follow(&link);
        let ended = async { tokio::join!(session.last(&self.setting), over, followed) };
        let mut ended = pin!(ended);
        let beside = async { tokio::join!(&mut beside, self.heal()) };
        let (fault, (), ()) = tokio::select! {
            ended = &mut ended => ended,
            _ = beside => ended.await,
        };
        (fault, since.elapsed())
    }

    /// Waits as long as it takes; `false` where it is closed meanwhile.
    async fn rest(
        &self,
        patience: &mut Patience,
        (mut fault, up): (Fault, Duration),
        was_up: bool,
    ) -> bool {
        fault.message = self.redact(fault.message);
        if self.single {
            self.state.send_replace(State::Down(fault));
            return false;
        }
        let next = patience.ended(Instant::now(), up);
        let ends = patience.ends();
        // Whoever lists the source tells why it cannot be listed.
        tracing::debug!(source = %self.name, ends, fault = %fault.message, "an MCP server is not up");
        if !fault.wants_login() {
            *self.scar.lock().unwrap_or_else(PoisonError::into_inner) = Some((fault.clone(), ends));
        }
        let wait = match (next, &self.target) {
            (Next::Rest(wait), Target::Pipes(_)) => Some(wait),
            (Next::GiveUp, Target::Pipes(_)) => None,
            // Asking costs a request and nothing of this machine, so it never ends.
            (Next::Rest(wait), Target::Http(_)) => Some(wait.min(ASK_AGAIN)),
            (Next::GiveUp, Target::Http(_)) => Some(ASK_AGAIN),
        };
        let down = |fault: Fault| Fault {
            message: format!(
                "{}; {ENOUGH} ends within {} minutes, so it is left down",
                fault.message,
                WINDOW.as_secs() / 60
            ),
            fix: Some(format!(
                "run the command by hand to see what is wrong, then refresh the source `{}`",
                self.name
            )),
            ..fault
        };
        self.state.send_replace(if wait.is_some() {
            State::Resting(fault)
        } else {
            State::Down(down(fault))
        });
        if was_up || wait.is_none() {
            self.bump();
        }
        let waited = async {
            match wait {
                Some(wait) => sleep(wait.min(LONGEST)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.setting.closing.cancelled() => false,
            () = waited => true,
            () = self.refresh.notified() => {
                patience.forget();
                true
            }
        }
    }

    /// Tells of changed lists, and not more often than anyone could follow.
    async fn listen(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.setting.closing.cancelled() => return,
                () = self.setting.changed.notified() => self.bump(),
            }
            tokio::select! {
                () = self.setting.closing.cancelled() => return,
                () = sleep(CALM) => {}
            }
        }
    }
}

/// It is closed.
pub(super) fn closed() -> Fault {
    Fault::new(SourceFault::Failed, "is closed")
}
