//! Programs: small Python scripts over their caller's own tools, which wait for a person and go on, also in
//! another process.
//!
//! Each call of a program goes through the pipeline, as its caller's and as a chain's. Python is read and
//! run behind a port, [`Interpreter`]; nothing here knows what runs it. A program that waits is a row in
//! the store and a line in an index.

mod functions;
mod keep;
mod program;
mod run;
mod script;
mod shown;
mod tools;

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use gateway::{Event, Gateway, Heard, Holder, Holders, Signal, Unheard};
use identity::{Narrowing, Principal};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::outcome::Failure;
use tool::{CallId, Clock, Code, Store};

use functions::Cached;
use keep::{Index, Kept};
pub use program::Begin;
use program::{Program, State};
pub use script::Interpreter;
pub use script::Mode;
pub use tools::{names, tools};

/// Programs that ended and were never kept, for those who ask later.
const LATELY: usize = 256;
/// News of held calls that are waited for; what is lost is found by the next look.
const NEWS: usize = 1_024;
/// How long a program that goes on may take until it waits again or ends.
const LEG: Duration = Duration::from_mins(10);
/// Between two looks at what waits, for news that were lost.
const LOOK: Duration = Duration::from_secs(30);

/// What programs are made of.
#[derive(Debug)]
pub struct Parts {
    /// Where they are kept. It should be sealed: what they hold may be confidential.
    pub store: Arc<dyn Store>,
    /// Who a caller is now.
    pub holders: Arc<dyn Holders>,
    /// Runs the scripts.
    pub interpreter: Arc<dyn Interpreter>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// How calls follow each other where a program does not say.
    pub mode: Mode,
    /// Whether calls with effects may run beside each other, in waves, where a program does not say.
    pub parallel_mutations: bool,
}

/// Runs and keeps programs.
#[derive(Debug)]
pub struct Programs {
    parts: Parts,
    /// Weak: the gateway holds the catalog, which holds the tool that runs programs.
    gateway: OnceLock<Weak<Gateway>>,
    functions: Cached,
    index: Mutex<Index>,
    tasks: TaskTracker,
    news: (mpsc::Sender<CallId>, Mutex<Option<mpsc::Receiver<CallId>>>),
}

impl Programs {
    /// None run yet. [`Programs::over`] says where their calls go.
    pub fn new(parts: Parts) -> Self {
        let (tell, hear) = mpsc::channel(NEWS);
        Self {
            parts,
            gateway: OnceLock::new(),
            functions: Cached::default(),
            index: Mutex::new(Index::new(LATELY)),
            tasks: TaskTracker::new(),
            news: (tell, Mutex::new(Some(hear))),
        }
    }

    /// Their calls go through `gateway`. Said twice, the first counts.
    pub fn over(&self, gateway: &Arc<Gateway>) {
        drop(self.gateway.set(Arc::downgrade(gateway)));
    }

    pub(crate) fn mode(&self) -> Mode {
        self.parts.mode
    }

    pub(crate) fn parallel_mutations(&self) -> bool {
        self.parts.parallel_mutations
    }

    /// Runs a program as the call `id`, until it ends or waits. What becomes of it is shown.
    ///
    /// # Errors
    /// Where what is asked for is no program, or there is no room to keep it.
    pub async fn begin(
        &self,
        (who, id, door): (&Principal, CallId, &str),
        begin: Begin,
        context: Running<'_>,
    ) -> Result<Value, Failure> {
        let gateway = self.gateway()?;
        let leg = run::Leg { programs: self, gateway, who, context };
        let kept = Kept::new(Program::new((who, id, door), begin, self.parts.clock.wall()));
        let kept = leg.begun(kept).await?;
        let shown = shown::shown(&kept.program);
        self.index().ended(&kept);
        Ok(shown)
    }

    /// What a program would call, and what of it would be held; nothing runs.
    ///
    /// # Errors
    /// As [`Programs::begin`].
    pub async fn dry_run(
        &self,
        (who, id, door): (&Principal, CallId, &str),
        begin: Begin,
        context: Running<'_>,
    ) -> Result<Value, Failure> {
        let leg = run::Leg { programs: self, gateway: self.gateway()?, who, context };
        leg.dry(&Program::new((who, id, door), begin, self.parts.clock.wall())).await
    }

    /// The functions of this caller's programs.
    ///
    /// # Errors
    /// Where the server is starting.
    pub fn chainable(&self, who: &Principal) -> Result<Value, Failure> {
        let functions = self.functions.of(&*self.gateway()?, who);
        Ok(functions.shown())
    }

    /// A program of this caller; waits up to `wait` until it ends or waits for someone. Where it could go
    /// on and nobody lets it, it goes on.
    ///
    /// # Errors
    /// [`Code::NotFound`] for what is not there and for another's alike.
    pub async fn show(
        self: &Arc<Self>,
        who: &Principal,
        id: CallId,
        wait: Duration,
    ) -> Result<Value, Failure> {
        let until = self.parts.clock.mono().after(wait.min(gateway::LONGEST));
        loop {
            let mut watched = self.index().watch(id);
            let kept = self.own(who, id).await?;
            if kept.program.state == State::Waiting && watched.is_none() {
                self.go_on_soon(id, Some(who.clone()));
                watched = self.index().watch(id);
            }
            let time = until.since(self.parts.clock.mono());
            let ended = !matches!(kept.program.state, State::Running | State::Waiting);
            let Some(mut watched) = watched.filter(|_| !ended && !time.is_zero()) else {
                return Ok(shown::shown(&kept.program));
            };
            tokio::select! {
                _ = watched.changed() => {}
                () = tokio::time::sleep(time) => {}
            }
        }
    }

    /// This caller's programs, the newest first, at most `limit`.
    ///
    /// # Errors
    /// Where the store does not answer.
    pub async fn list(&self, who: &Principal, limit: usize) -> Result<Vec<Value>, Failure> {
        let mut all = keep::all(self.parts.store.as_ref()).await?;
        all.extend(self.index().lately());
        let mut own: Vec<Program> =
            all.into_iter().map(|kept| kept.program).filter(|it| it.is_of(who.caller())).collect();
        own.sort_by_key(|it| std::cmp::Reverse(it.id));
        own.dedup_by_key(|it| it.id);
        Ok(own.iter().take(limit).map(shown::line).collect())
    }

    /// Ends a program of this caller: what runs of it is given up, what it waits for is taken back.
    ///
    /// # Errors
    /// [`Code::Conflict`] where it has ended, and as [`Programs::show`].
    pub async fn cancel(&self, who: &Principal, id: CallId) -> Result<Value, Failure> {
        let mut kept = self.own(who, id).await?;
        match kept.program.state {
            State::Running => {
                if let Some(token) = self.index().token(id) {
                    token.cancel();
                }
                return Ok(shown::shown(&kept.program));
            }
            State::Waiting => {}
            _ => {
                let told = format!("the program `{id}` has ended already");
                return Err(Failure::new(Code::Conflict, told));
            }
        }
        let held = kept.program.waits_for();
        kept.program.ends(State::Cancelled, Err("it was cancelled by its caller".to_owned()));
        kept.write(self.parts.store.as_ref()).await?;
        self.index().ended(&kept);
        let gateway = self.gateway()?;
        for call in held {
            // One that was decided in between has run or will not.
            drop(gateway.withdraw(who, call).await);
        }
        Ok(shown::shown(&kept.program))
    }

    async fn own(&self, who: &Principal, id: CallId) -> Result<Kept, Failure> {
        let missing = || Failure::new(Code::NotFound, format!("no program `{id}`"));
        let lately = self.index().ended_lately(id);
        let kept = match lately {
            Some(kept) => Some(kept),
            None => Kept::read(self.parts.store.as_ref(), id).await?,
        };
        kept.filter(|kept| kept.program.is_of(who.caller())).ok_or_else(missing)
    }

    fn gateway(&self) -> Result<Arc<Gateway>, Failure> {
        let starting = || Failure::new(Code::Busy, "the server is starting; call again");
        self.gateway.get().and_then(Weak::upgrade).ok_or_else(starting)
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a program that runs may use of the call that runs it.
#[derive(Clone, Copy)]
pub struct Running<'a> {
    /// Fires when it is given up.
    pub cancel: &'a dyn tool::executor::Cancel,
    /// Where progress goes.
    pub progress: &'a dyn tool::executor::Progress,
}

impl std::fmt::Debug for Running<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// Going on.
impl Programs {
    /// Something happened to a held call: where a program waits for it, it goes on soon.
    pub fn heard(&self, event: &Event) {
        if event.heard == Heard::Changed && self.index().waits_for(event.shown.id).is_some() {
            // Where there is no room, the next look finds it.
            self.news.0.try_send(event.shown.id).ok();
        }
    }

    /// Takes up what the process before left: what ran is unknown, what waits goes on waiting.
    ///
    /// # Errors
    /// Where the store does not answer.
    pub async fn restore(&self) -> Result<usize, Failure> {
        let mut waiting = 0;
        for mut kept in keep::all(self.parts.store.as_ref()).await? {
            match kept.program.state {
                State::Running => {
                    let told = "the server ended while the program ran: which of its calls had their effect is on record, and it does not go on by itself";
                    kept.program.ends(State::Unknown, Err(told.to_owned()));
                    kept.write(self.parts.store.as_ref()).await?;
                }
                State::Waiting => {
                    waiting += 1;
                    self.index().waits(&kept);
                }
                _ => {
                    keep::forget_old(self.parts.store.as_ref(), &kept, self.parts.clock.wall())
                        .await;
                }
            }
        }
        Ok(waiting)
    }

    /// Lets programs go on as what they wait for is decided; never ends.
    pub async fn tend(self: &Arc<Self>) {
        let hears = self.news.1.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Someone does already.
        let Some(mut news) = hears else { return std::future::pending().await };
        loop {
            tokio::select! {
                told = news.recv() => {
                    if let Some(id) = told.and_then(|call| self.index().waits_for(call)) {
                        self.go_on_soon(id, None);
                    }
                }
                () = tokio::time::sleep(LOOK) => {
                    for id in self.index().waiting() {
                        self.go_on_soon(id, None);
                    }
                }
            }
        }
    }

    /// Resolves when nothing goes on any more. Nothing begins to from here on.
    pub async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// In a task of its own; nothing where one does already.
    fn go_on_soon(self: &Arc<Self>, id: CallId, who: Option<Principal>) {
        if self.tasks.is_closed() {
            return;
        }
        let Some(token) = self.index().claims(id) else { return };
        let programs = Arc::clone(self);
        drop(self.tasks.spawn(async move {
            if let Err(failure) = programs.go_on(id, who, &token).await {
                tracing::warn!(program = %id, "a program does not go on: {}", failure.message);
            }
            programs.index().leaves(id);
        }));
    }

    async fn go_on(
        &self,
        id: CallId,
        who: Option<Principal>,
        token: &CancellationToken,
    ) -> Result<(), Failure> {
        let Some(kept) = Kept::read(self.parts.store.as_ref(), id).await? else { return Ok(()) };
        if kept.program.state != State::Waiting {
            return Ok(());
        }
        let caller = &kept.program.caller;
        let now = match self.parts.holders.holder(caller, self.parts.clock.wall()) {
            Holder::Holds(now) => now,
            // Without its credential it waits for its caller to come back.
            Holder::Elsewhere => match who {
                Some(who) => who,
                None => return Ok(()),
            },
            Holder::Gone => {
                return self.ended(kept, "its caller's credential is no longer good").await;
            }
        };
        let narrowing: Narrowing = kept.program.narrowed.clone().into();
        let who = now.lowered(caller.level).narrowed(&narrowing);
        let signal = Signal(token.clone());
        let context = Running { cancel: &signal, progress: &Unheard };
        let leg = run::Leg { programs: self, gateway: self.gateway()?, who: &who, context };
        let gone_on = tokio::time::timeout(LEG, leg.gone_on(kept)).await;
        match gone_on {
            Ok(went) => {
                let kept = went?;
                self.index().ended(&kept);
                Ok(())
            }
            Err(_) => match Kept::read(self.parts.store.as_ref(), id).await? {
                Some(kept) => self.ended(kept, "it took longer than 10 min and was ended").await,
                None => Ok(()),
            },
        }
    }

    async fn ended(&self, mut kept: Kept, why: &str) -> Result<(), Failure> {
        kept.program.ends(State::Failed, Err(why.to_owned()));
        kept.write(self.parts.store.as_ref()).await?;
        self.index().ended(&kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
