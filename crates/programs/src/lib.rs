//! Programs: small Python scripts over the caller's own tools. A program can pause for an approval
//! and resume later, also in another process.
//!
//! Each call of a program goes through the pipeline, with its caller's rights and as a nested call.
//! The port [`Interpreter`] parses and runs Python; this crate is independent of its
//! implementation. A waiting program is a row in the store and an entry in an index.

mod cancellation;
mod interpreter;
mod parent_call;
mod pending_calls;
mod program_claim;
mod program_functions;
mod program_head;
mod program_index;
mod program_quota;
mod program_state;
mod program_store;
mod program_tools;
mod program_view;
mod program_watcher;
mod recent_programs;
mod resumption;
mod run_segment;
mod step_plan;
mod storage;
mod tool_references;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use gateway::{Gateway, PrincipalResolver};
use identity::Principal;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::call_outcome::CallFailure;
use tool::ledger::RecordReader;
use tool::{CallId, Caller, Clock, ErrorCode, Store};

pub use interpreter::{ExecutionMode, Interpreter, InterpreterSlot};
pub use parent_call::ParentCall;
pub use pending_calls::PendingCalls;
use program_functions::FunctionTableCache;
use program_head::{ProgramHead, ProgramHeadPages};
use program_index::ProgramIndex;
use program_quota::{ProgramQuota, QuotaLimits};
use program_state::ProgramState;
pub use program_state::{CallOrigin, ProgramRequest};
use program_store::{ProgramKey, StoredProgram};
pub use program_tools::program_tools;
pub use step_plan::ProgramStep;
pub use tool_references::{matches_source, matches_tool, requested_tools};

/// Maximum number of program states that are read from the store concurrently.
const MAX_CONCURRENT_READS: usize = 8;

/// Dependencies of the program runner: gateway, records, store, interpreter, clock and defaults.
#[derive(Debug)]
pub struct ProgramDependencies {
    /// Executes the calls of programs. Weak, because the gateway holds the catalog, which holds the
    /// tool that runs programs.
    pub gateway: Weak<Gateway>,
    /// Recorded calls; answers whether a call of a program was executed.
    pub records: Arc<dyn RecordReader>,
    /// Pending calls of programs; the gateway reports changes to it.
    pub pending_calls: Arc<PendingCalls>,
    /// Stores the programs. It should be encrypted: program states may be confidential.
    pub store: Arc<dyn Store>,
    /// Resolves a caller to its current principal.
    pub principal_resolver: Arc<dyn PrincipalResolver>,
    /// Runs the scripts.
    pub interpreter: Arc<dyn Interpreter>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Execution mode of programs that do not set one.
    pub default_mode: ExecutionMode,
    /// Is notified of each program that has ended.
    pub observer: Option<Arc<dyn ProgramObserver>>,
    /// Whether calls with side effects may run concurrently in waves, if a program does not set it.
    pub parallel_mutations: bool,
}

/// Observes programs. Called where a program ends: it must not block.
pub trait ProgramObserver: Send + Sync + std::fmt::Debug {
    /// Notifies that the program of this caller has ended with this status.
    fn program_ended(&self, id: CallId, status: &str, caller: &Caller);
}

/// Runs programs and stores their state.
#[derive(Debug)]
pub struct Programs {
    dependencies: ProgramDependencies,
    function_cache: FunctionTableCache,
    quota: Mutex<ProgramQuota>,
    read_permits: Semaphore,
    tasks: TaskTracker,
}

impl Programs {
    /// Creates a runner without running programs.
    pub fn new(dependencies: ProgramDependencies) -> Self {
        Self {
            dependencies,
            function_cache: FunctionTableCache::default(),
            quota: Mutex::default(),
            read_permits: Semaphore::new(MAX_CONCURRENT_READS),
            tasks: TaskTracker::new(),
        }
    }

    /// Sets how many calls of one root key may be pending. As many of its unfinished programs may
    /// be stored, at least 64.
    pub fn set_max_pending_calls(&self, calls: usize) {
        self.lock_quota().set_max_programs(calls.max(QuotaLimits::default().max_programs));
    }

    pub(crate) fn default_mode(&self) -> ExecutionMode {
        self.dependencies.default_mode
    }

    pub(crate) fn allows_parallel_mutations(&self) -> bool {
        self.dependencies.parallel_mutations
    }

    /// Runs a program as the call `id` until it ends or is pending, and returns its view.
    ///
    /// # Errors
    /// The request is not a valid program, or the storage limits are reached.
    pub async fn start_program(
        &self,
        origin: CallOrigin<'_>,
        request: ProgramRequest,
        context: ParentCall<'_>,
    ) -> Result<Value, CallFailure> {
        let gateway = self.live_gateway()?;
        let steps = request.steps.clone();
        let program = ProgramState::new(origin, request, self.dependencies.clock.wall_now());
        let CallOrigin { principal, call_id: id, .. } = origin;
        let claim = self
            .claim_for_check(&ProgramKey::for_caller(principal.caller(), id), false)
            .filter(|claim| claim.start_running(&program));
        let claim = claim.ok_or_else(|| {
            CallFailure::new(ErrorCode::Conflict, format!("the program `{id}` is already running"))
        })?;
        let segment = run_segment::RunSegment::new(
            self,
            (gateway, principal),
            context,
            claim.cancellation_token(),
        );
        let stored = segment.start_segment(StoredProgram::new(program), &steps).await?;
        segment.report_usage();
        let view = program_view::full_view(&stored.program);
        claim.publish_and_release(&stored, &[]);
        Ok(view)
    }

    /// Returns the calls that a program would make and which of them policy would block. Executes
    /// nothing.
    ///
    /// # Errors
    /// As [`Programs::start_program`].
    pub async fn plan_program(
        &self,
        origin: CallOrigin<'_>,
        request: ProgramRequest,
        context: ParentCall<'_>,
    ) -> Result<Value, CallFailure> {
        let (gateway, cancellation) = (self.live_gateway()?, CancellationToken::new());
        let segment =
            run_segment::RunSegment::new(self, (gateway, origin.principal), context, cancellation);
        let steps = request.steps.clone();
        let program = ProgramState::new(origin, request, self.dependencies.clock.wall_now());
        segment.dry_run(&program, &steps).await
    }

    /// Returns the functions that this caller's programs may call, as JSON.
    ///
    /// # Errors
    /// The server is still starting.
    pub fn list_functions(&self, principal: &Principal) -> Result<Value, CallFailure> {
        let functions = self.function_cache.get_or_build(&*self.live_gateway()?, principal);
        Ok(functions.to_json())
    }

    /// Returns the function signatures for a tool description; `None` while the server starts.
    pub fn function_signatures(&self, principal: &Principal) -> Option<String> {
        let gateway = self.live_gateway().ok()?;
        Some(self.function_cache.get_or_build(&gateway, principal).signatures_text().to_owned())
    }

    /// Lists this caller's programs, newest first, at most `limit`.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn list_programs(
        &self,
        principal: &Principal,
        limit: usize,
    ) -> Result<Vec<Value>, CallFailure> {
        let caller = principal.caller();
        let mut views: BTreeMap<CallId, Value> = BTreeMap::new();
        let mut heads =
            ProgramHeadPages::for_caller(self.dependencies.store.as_ref(), Some(caller));
        while let Some(page) = heads.next_page().await? {
            views.extend(page.iter().map(|head| (head.id, program_view::summarize_head(head))));
            // The newest are those of the last pages.
            while views.len() > limit {
                views.pop_first();
            }
        }
        let index = self.lock_index();
        let recent = index.recently_ended().filter(|stored| stored.program.is_owned_by(caller));
        views.extend(recent.map(|stored| {
            let head = ProgramHead::from_program(&stored.program, 0);
            (stored.program.id, program_view::summarize_head(&head))
        }));
        let running = index.running_programs(caller).into_iter();
        views.extend(
            running.map(|(id, snapshot)| (id, program_view::summarize_view(&snapshot.view))),
        );
        Ok(views.into_values().rev().take(limit).collect())
    }

    async fn load_owned(
        &self,
        principal: &Principal,
        id: CallId,
    ) -> Result<StoredProgram, CallFailure> {
        let missing = || CallFailure::new(ErrorCode::NotFound, format!("no program `{id}`"));
        let recent = self.lock_index().find_recently_ended(id);
        let stored = match recent {
            Some(stored) => Some(stored),
            None => self.load_program(&ProgramKey::for_caller(principal.caller(), id)).await?,
        };
        stored.filter(|stored| stored.program.is_owned_by(principal.caller())).ok_or_else(missing)
    }

    fn live_gateway(&self) -> Result<Arc<Gateway>, CallFailure> {
        let starting = || CallFailure::new(ErrorCode::Busy, "the server is starting; call again");
        self.dependencies.gateway.upgrade().ok_or_else(starting)
    }

    pub(crate) fn record_reader(&self) -> &dyn RecordReader {
        self.dependencies.records.as_ref()
    }

    fn lock_index(&self) -> MutexGuard<'_, ProgramIndex> {
        self.dependencies.pending_calls.lock_index()
    }

    fn lock_quota(&self) -> MutexGuard<'_, ProgramQuota> {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn already_ended(id: CallId) -> CallFailure {
    CallFailure::new(ErrorCode::Conflict, format!("the program `{id}` has already ended"))
}

#[cfg(test)]
mod tests;
