//! Programs: small Python scripts over their caller's own tools, which wait for a person and go on, also in
//! another process.
//!
//! Each call of a program goes through the pipeline, as its caller's and as a chain's. Python is read and
//! run behind a port, [`Interpreter`]; nothing here knows what runs it. A program that waits is a row in
//! the store and a line in an index.

mod functions;
mod going;
mod head;
mod here;
mod index;
mod keep;
mod lately;
mod pending_calls;
mod program;
mod quota;
mod requested;
mod run;
mod script;
mod shown;
mod steps;
mod storage;
mod tools;
mod watching;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use gateway::{Gateway, Holders};
use identity::Principal;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::ledger::Records;
use tool::outcome::Failure;
use tool::{CallId, Clock, Code, Interface, Store};

use functions::Cached;
use head::{Head, Heads};
use here::Here;
use index::{Index, Told};
use keep::{Kept, Row};
pub use pending_calls::PendingCalls;
pub use program::Begin;
use program::{Program, State};
use quota::{Bounds, Quota};
pub use requested::{is_called, is_of_source, requested_tools};
pub use script::{Interpreter, Mode, Turn};
pub use steps::Planned;
pub use tools::tools;
use watching::Watching;

/// Programs whose state is read at once.
const READS: usize = 8;
/// How long what was cancelled may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// What programs are made of.
#[derive(Debug)]
pub struct Parts {
    /// Where their calls go. Weak: the gateway holds the catalog, which holds the tool that runs programs.
    pub gateway: Weak<Gateway>,
    /// Which of their calls were made.
    pub records: Arc<dyn Records>,
    /// The calls that they wait for; the gateway reports to it.
    pub pending_calls: Arc<PendingCalls>,
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
    functions: Cached,
    quota: Mutex<Quota>,
    reads: Semaphore,
    tasks: TaskTracker,
}

impl Programs {
    /// None run yet.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            functions: Cached::default(),
            quota: Mutex::default(),
            reads: Semaphore::new(READS),
            tasks: TaskTracker::new(),
        }
    }

    /// So many calls of one root key may wait for an approval: as many of its programs may be stored that have
    /// not ended, and no fewer than 64.
    pub fn set_pending(&self, calls: usize) {
        self.quota().bound(calls.max(Bounds::default().programs));
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
        (who, id, door): (&Principal, CallId, Interface),
        begin: Begin,
        context: Running<'_>,
    ) -> Result<Value, Failure> {
        let gateway = self.gateway()?;
        let steps = begin.steps.clone();
        let program = Program::new((who, id, door), begin, self.parts.clock.wall());
        let here = self.looks(&Row::of(who.caller(), id), false).filter(|it| it.runs(&program));
        let here = here.ok_or_else(|| {
            Failure::new(Code::Conflict, format!("the program `{id}` runs already"))
        })?;
        let leg = run::Leg::new(self, (gateway, who), context, here.own());
        let kept = leg.begun(Kept::new(program), &steps).await?;
        leg.tells_what_it_took();
        let shown = shown::shown(&kept.program);
        here.came(&kept, &[]);
        Ok(shown)
    }

    /// What a program would call, and what of it would be held; nothing runs.
    ///
    /// # Errors
    /// As [`Programs::begin`].
    pub async fn dry_run(
        &self,
        (who, id, door): (&Principal, CallId, Interface),
        begin: Begin,
        context: Running<'_>,
    ) -> Result<Value, Failure> {
        let (gateway, own) = (self.gateway()?, CancellationToken::new());
        let leg = run::Leg::new(self, (gateway, who), context, own);
        let steps = begin.steps.clone();
        leg.dry(&Program::new((who, id, door), begin, self.parts.clock.wall()), &steps).await
    }

    /// The functions of this caller's programs.
    ///
    /// # Errors
    /// Where the server is starting.
    pub fn chainable(&self, who: &Principal) -> Result<Value, Failure> {
        let functions = self.functions.of(&*self.gateway()?, who);
        Ok(functions.shown())
    }

    /// The functions of this caller's programs, as a description has them; nothing while the server starts.
    pub fn described(&self, who: &Principal) -> Option<String> {
        let gateway = self.gateway().ok()?;
        Some(self.functions.of(&gateway, who).described().to_owned())
    }

    /// A program of this caller; waits up to `wait` until it ends. Where it could go on and nobody lets it,
    /// it goes on.
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
        let mut watching = Watching::new(self, id);
        let mut told = self.stands(who, id).await?;
        loop {
            let time = until.since(self.parts.clock.mono());
            if told.rests || time.is_zero() {
                return Ok(told.value.clone());
            }
            tokio::select! {
                next = watching.next() => match next {
                    Some(next) => told = next,
                    None => return Ok(self.stands(who, id).await?.value.clone()),
                },
                () = tokio::time::sleep(time) => {}
            }
        }
    }

    /// Lets a program of this caller go on that can: one about which nobody decided in time asks again. Waits
    /// as [`Programs::show`] does.
    ///
    /// # Errors
    /// [`Code::Conflict`] where it has ended, and as [`Programs::show`].
    pub async fn resume(
        self: &Arc<Self>,
        who: &Principal,
        id: CallId,
        wait: Duration,
    ) -> Result<Value, Failure> {
        let until = self.parts.clock.mono().after(wait);
        let begun = self.index().begun(&Row::of(who.caller(), id));
        if begun.is_none() {
            let kept = self.own(who, id).await?;
            if kept.program.has_ended() {
                return Err(ended_already(id));
            }
            // In a task of its own: it goes on though this caller goes away.
            if let Some(going) = self.go_on_soon(kept.row(), Some(who.clone()), true) {
                drop(tokio::time::timeout(wait.max(GRACE), going).await);
            }
        }
        self.show(who, id, until.since(self.parts.clock.mono())).await
    }

    /// A program of this caller as it is now, and after each change until it ends.
    ///
    /// # Errors
    /// As [`Programs::show`].
    pub async fn follow(
        self: &Arc<Self>,
        who: &Principal,
        id: CallId,
    ) -> Result<BoxStream<'static, Value>, Failure> {
        let watching = Watching::new(self, id);
        let now = self.stands(who, id).await?;
        let more =
            futures_util::stream::unfold((watching, now.ended), async |(mut watching, ended)| {
                if ended {
                    return None;
                }
                let next = watching.next().await?;
                Some((next.value.clone(), (watching, next.ended)))
            });
        let first = futures_util::stream::once(std::future::ready(now.value.clone()));
        Ok(first.chain(more).boxed())
    }

    /// How it stands; one that can go on does.
    async fn stands(self: &Arc<Self>, who: &Principal, id: CallId) -> Result<Arc<Told>, Failure> {
        if let Some(begun) = self.index().begun(&Row::of(who.caller(), id)) {
            return Ok(begun);
        }
        let kept = self.own(who, id).await?;
        let told = Told::of(&kept.program);
        if !told.rests {
            drop(self.go_on_soon(kept.row(), Some(who.clone()), false));
        }
        Ok(Arc::new(told))
    }

    /// This caller's programs, the newest first, at most `limit`.
    ///
    /// # Errors
    /// Where the store does not answer.
    pub async fn list(&self, who: &Principal, limit: usize) -> Result<Vec<Value>, Failure> {
        let caller = who.caller();
        let mut own: BTreeMap<CallId, Value> = BTreeMap::new();
        let mut heads = Heads::of(self.parts.store.as_ref(), Some(caller));
        while let Some(page) = heads.next().await? {
            own.extend(page.iter().map(|head| (head.id, shown::line(head))));
            // The newest are those of the last pages.
            while own.len() > limit {
                own.pop_first();
            }
        }
        let index = self.index();
        let lately = index.lately().filter(|it| it.program.is_of(caller));
        own.extend(lately.map(|it| (it.program.id, shown::line(&Head::of(&it.program, 0)))));
        let running = index.running(caller).into_iter();
        own.extend(running.map(|(id, told)| (id, shown::line_of(&told.value))));
        Ok(own.into_values().rev().take(limit).collect())
    }

    /// Ends a program of this caller: what runs of it is given up, what it waits for is taken back.
    ///
    /// # Errors
    /// [`Code::Conflict`] where it has ended, and as [`Programs::show`].
    pub async fn cancel(self: &Arc<Self>, who: &Principal, id: CallId) -> Result<Value, Failure> {
        let row = Row::of(who.caller(), id);
        let Some((here, ran)) = self.given_up(&row).await else {
            return Ok(self.stands(who, id).await?.value.clone());
        };
        let mut kept = self.own(who, id).await?;
        if kept.program.has_ended() {
            return if ran { Ok(shown::shown(&kept.program)) } else { Err(ended_already(id)) };
        }
        let held = kept.program.waits_for();
        let why = "it was cancelled by its caller".to_owned();
        kept.program.ends(self.parts.clock.wall(), State::Cancelled, Err(why));
        self.write(&mut kept).await?;
        here.came(&kept, &held);
        let gateway = self.gateway()?;
        for call in held {
            // One that was decided in between has run or will not.
            drop(gateway.withdraw(who, call).await);
        }
        Ok(shown::shown(&kept.program))
    }

    /// Gives up what runs of a program, so that it can be ended, and says whether anything did; nothing where
    /// that takes longer.
    async fn given_up(&self, row: &Row) -> Option<(Here<'_>, bool)> {
        let (until, mut ran) = (tokio::time::Instant::now() + GRACE, false);
        loop {
            let taken = match self.ends(row) {
                Ok(here) => return Some((here, ran)),
                Err(taken) => taken,
            };
            ran |= taken.runs;
            taken.own.cancel();
            tokio::time::timeout_at(until, taken.over.cancelled()).await.ok()?;
        }
    }

    async fn own(&self, who: &Principal, id: CallId) -> Result<Kept, Failure> {
        let missing = || Failure::new(Code::NotFound, format!("no program `{id}`"));
        let lately = self.index().ended_lately(id);
        let kept = match lately {
            Some(kept) => Some(kept),
            None => self.read(&Row::of(who.caller(), id)).await?,
        };
        kept.filter(|kept| kept.program.is_of(who.caller())).ok_or_else(missing)
    }

    fn gateway(&self) -> Result<Arc<Gateway>, Failure> {
        let starting = || Failure::new(Code::Busy, "the server is starting; call again");
        self.parts.gateway.upgrade().ok_or_else(starting)
    }

    pub(crate) fn records(&self) -> &dyn Records {
        self.parts.records.as_ref()
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.parts.pending_calls.index()
    }

    fn quota(&self) -> MutexGuard<'_, Quota> {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended_already(id: CallId) -> Failure {
    Failure::new(Code::Conflict, format!("the program `{id}` has ended already"))
}

/// What a program that runs may use of the call that runs it.
#[derive(Clone, Copy)]
pub struct Running<'a> {
    /// Fires when it is given up.
    pub cancel: &'a dyn tool::executor::Cancel,
    /// Where progress goes.
    pub progress: &'a dyn tool::executor::Progress,
    /// Hears what the interpreter took.
    pub caged: &'a (dyn Fn(tool::Caged) + Send + Sync),
}

impl std::fmt::Debug for Running<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
