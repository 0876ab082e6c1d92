//! Programs: where they are kept, what runs their scripts, and what the doors ask of them.

use std::sync::Arc;
use std::time::Duration;

use builtins::{Cages, Job, Lease, Workers};
use futures_util::stream::BoxStream;
use gateway::Gateway;
use identity::Principal;
use programs::{Interpreter, Mode, Parts, PendingCalls, Programs, Turn};
use serde_json::Value;
use server_core::Keys;
use store::Sealed;
use tool::ledger::Records;
use tool::outcome::Failure;
use tool::{Boxed, Caged, CallId, Caller, Clock, Json};

use cli_core::failure;
use cli_core::wiring::Start;

/// How calls follow each other where a program does not say, as spec 3 names it.
const MODE: &str = "ORCHESTRATOR_TOOL_CHAIN_MODE";
const PARALLEL: &str = "ORCHESTRATOR_TOOL_CHAIN_PARALLEL_MUTATIONS";

/// Python, in workers of this binary.
#[derive(Debug)]
struct Worked(Arc<Workers>);

impl Interpreter for Worked {
    fn turn<'a>(&'a self, whose: &'a Caller) -> Boxed<'a, Result<Box<dyn Turn>, String>> {
        Box::pin(async {
            Ok(Box::new(Lent(self.0.lease(whose.root_key()).await?)) as Box<dyn Turn>)
        })
    }
}

#[derive(Debug)]
struct Lent(Lease);

impl Turn for Lent {
    fn step(&mut self, asked: Json) -> Boxed<'_, Result<Json, String>> {
        Box::pin(async move { self.0.compute(Job::PROGRAM, &asked).await })
    }

    fn is_wanted(&self) -> bool {
        self.0.is_wanted()
    }

    fn over(self: Box<Self>) -> Option<Caged> {
        self.0.rest()
    }
}

/// What programs stand on.
pub(crate) struct ProgramParts<'a> {
    pub(crate) gateway: &'a Arc<Gateway>,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) pending_calls: Arc<PendingCalls>,
    pub(crate) store: Sealed,
    pub(crate) keys: &'a Arc<Keys>,
    pub(crate) cages: &'a Arc<Cages>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The programs, with their place in the configuration and the environment.
pub(crate) fn programs(start: &Start, parts: ProgramParts<'_>) -> Arc<Programs> {
    let ProgramParts { gateway, records, pending_calls, store, keys, cages, clock } = parts;
    let said = |name: &str| start.setting.environment.get(name);
    let mode = match said(MODE) {
        Some("dep") => Mode::Dep,
        Some("legacy") => Mode::Legacy,
        // Any other word means what none does.
        _ => Mode::Seq,
    };
    let on = |word: &str| matches!(word.to_lowercase().as_str(), "1" | "true" | "yes" | "on");
    let programs = Programs::new(Parts {
        gateway: Arc::downgrade(gateway),
        records,
        pending_calls,
        store: Arc::new(store),
        holders: Arc::clone(keys) as _,
        interpreter: Arc::new(Worked(Arc::new(Workers::new(Arc::clone(cages))))),
        clock,
        mode,
        parallel_mutations: said(PARALLEL).is_some_and(on),
    });
    programs.set_pending(start.config.approvals.pending);
    Arc::new(programs)
}

/// Takes up what waited when the process before ended.
pub(crate) async fn restored(programs: &Arc<Programs>) -> Result<(), failure::Failure> {
    let waiting = programs.restore().await.map_err(|failure: Failure| {
        failure::Failure::new(failure::Exit::NoServer, format!("the programs: {}", failure.message))
    })?;
    if waiting > 0 {
        tracing::info!(waiting, "programs go on, or wait for an approval");
    }
    Ok(())
}

/// What the doors ask.
pub(crate) fn door(programs: &Arc<Programs>) -> Arc<dyn server_core::Programs> {
    Arc::new(Door(Arc::clone(programs)))
}

#[derive(Debug)]
struct Door(Arc<Programs>);

impl server_core::Programs for Door {
    fn show<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> Boxed<'a, Result<Value, Failure>> {
        Box::pin(self.0.show(who, id, wait))
    }

    fn resume<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> Boxed<'a, Result<Value, Failure>> {
        Box::pin(self.0.resume(who, id, wait))
    }

    fn follow<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
    ) -> Boxed<'a, Result<BoxStream<'static, Value>, Failure>> {
        Box::pin(self.0.follow(who, id))
    }

    fn list<'a>(
        &'a self,
        who: &'a Principal,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<Value>, Failure>> {
        Box::pin(self.0.list(who, limit))
    }

    fn cancel<'a>(&'a self, who: &'a Principal, id: CallId) -> Boxed<'a, Result<Value, Failure>> {
        Box::pin(self.0.cancel(who, id))
    }

    fn chainable(&self, who: &Principal) -> Result<Value, Failure> {
        self.0.chainable(who)
    }

    fn described(&self, who: &Principal) -> Option<String> {
        self.0.described(who)
    }
}
