//! The program runtime: store, Python interpreter and the adapter for the server's interfaces.

use std::sync::Arc;
use std::time::Duration;

use builtins::{SandboxProvider, WorkerJob, WorkerLease, WorkerPool};
use futures_util::stream::BoxStream;
use gateway::Gateway;
use identity::Principal;
use programs::{
    ExecutionMode, Interpreter, InterpreterSlot, PendingCalls, ProgramDependencies,
    ProgramObserver, Programs,
};
use serde_json::Value;
use server_core::{EventLog, KeyStore};
use store::EncryptedStore;
use tool::call_outcome::CallFailure;
use tool::ledger::RecordReader;
use tool::{BoxFuture, CallId, Caller, Clock, Json, SandboxUsage};

use cli_core::command_error;
use cli_core::server_launcher::LaunchOptions;

/// Environment variable for the default execution mode of programs, from the research registry.
const CHAIN_MODE_VARIABLE: &str = "ORCHESTRATOR_TOOL_CHAIN_MODE";
const PARALLEL_MUTATIONS_VARIABLE: &str = "ORCHESTRATOR_TOOL_CHAIN_PARALLEL_MUTATIONS";

/// Runs Python in worker processes of this binary.
#[derive(Debug)]
struct WorkerInterpreter(Arc<WorkerPool>);

impl Interpreter for WorkerInterpreter {
    fn acquire_slot<'a>(
        &'a self,
        whose: &'a Caller,
    ) -> BoxFuture<'a, Result<Box<dyn InterpreterSlot>, String>> {
        Box::pin(async {
            Ok(Box::new(WorkerSession(self.0.lease_worker(whose.limit_key_id()).await?))
                as Box<dyn InterpreterSlot>)
        })
    }
}

#[derive(Debug)]
struct WorkerSession(WorkerLease);

impl InterpreterSlot for WorkerSession {
    fn send_request(&mut self, asked: Json) -> BoxFuture<'_, Result<Json, String>> {
        Box::pin(async move { self.0.run_job(WorkerJob::PROGRAM, &asked).await })
    }

    fn has_waiters(&self) -> bool {
        self.0.has_waiters()
    }

    fn release_slot(self: Box<Self>) -> Option<SandboxUsage> {
        self.0.release()
    }
}

/// Components that the program runtime needs.
pub(crate) struct ProgramComponents<'a> {
    pub(crate) gateway: &'a Arc<Gateway>,
    pub(crate) records: Arc<dyn RecordReader>,
    pub(crate) pending_calls: Arc<PendingCalls>,
    pub(crate) store: EncryptedStore,
    pub(crate) keys: &'a Arc<KeyStore>,
    pub(crate) sandboxes: &'a Arc<SandboxProvider>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Arc<EventLog>,
}

/// Adds an event for each program that has ended.
#[derive(Debug)]
struct ProgramEvents(Arc<EventLog>);

impl ProgramObserver for ProgramEvents {
    fn program_ended(&self, id: CallId, status: &str, caller: &Caller) {
        self.0.push_program(id, status, caller);
    }
}

/// Builds the program runtime from the configuration and the environment.
pub(crate) fn build_programs(
    options: &LaunchOptions,
    components: ProgramComponents<'_>,
) -> Arc<Programs> {
    let ProgramComponents {
        gateway,
        records,
        pending_calls,
        store,
        keys,
        sandboxes,
        clock,
        events,
    } = components;
    let variable = |name: &str| options.load_options.environment.get(name);
    let mode = match variable(CHAIN_MODE_VARIABLE) {
        Some("dep") => ExecutionMode::Dependency,
        Some("legacy") => ExecutionMode::Legacy,
        // Any other value selects the default.
        _ => ExecutionMode::Sequential,
    };
    let is_enabled =
        |word: &str| matches!(word.to_lowercase().as_str(), "1" | "true" | "yes" | "on");
    let programs = Programs::new(ProgramDependencies {
        gateway: Arc::downgrade(gateway),
        records,
        pending_calls,
        store: Arc::new(store),
        principal_resolver: Arc::clone(keys) as _,
        interpreter: Arc::new(WorkerInterpreter(Arc::new(WorkerPool::new(Arc::clone(sandboxes))))),
        clock,
        default_mode: mode,
        observer: Some(Arc::new(ProgramEvents(events))),
        parallel_mutations: variable(PARALLEL_MUTATIONS_VARIABLE).is_some_and(is_enabled),
    });
    programs.set_max_pending_calls(options.config.approvals.max_pending);
    Arc::new(programs)
}

/// Restores the programs of the previous process.
pub(crate) async fn restore_programs(
    programs: &Arc<Programs>,
) -> Result<(), command_error::CommandError> {
    let pending = programs.restore_programs().await.map_err(|failure: CallFailure| {
        command_error::CommandError::new(
            command_error::ExitStatus::ServerUnavailable,
            format!("the programs: {}", failure.message),
        )
    })?;
    if pending > 0 {
        tracing::info!(pending, "restored programs that run or wait for an approval");
    }
    Ok(())
}

/// Returns the adapter between the program runtime and the interfaces.
pub(crate) fn program_adapter(programs: &Arc<Programs>) -> Arc<dyn server_core::ProgramRunner> {
    Arc::new(ProgramAdapter(Arc::clone(programs)))
}

#[derive(Debug)]
struct ProgramAdapter(Arc<Programs>);

impl server_core::ProgramRunner for ProgramAdapter {
    fn show_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Value, CallFailure>> {
        Box::pin(self.0.wait_for_program(who, id, wait))
    }

    fn resume_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Value, CallFailure>> {
        Box::pin(self.0.resume_and_wait(who, id, wait))
    }

    fn watch_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Value>, CallFailure>> {
        Box::pin(self.0.watch_program(who, id))
    }

    fn list_programs<'a>(
        &'a self,
        who: &'a Principal,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Value>, CallFailure>> {
        Box::pin(self.0.list_programs(who, limit))
    }

    fn cancel_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
    ) -> BoxFuture<'a, Result<Value, CallFailure>> {
        Box::pin(self.0.cancel_program(who, id))
    }

    fn chainable_tools(&self, who: &Principal) -> Result<Value, CallFailure> {
        self.0.list_functions(who)
    }

    fn function_descriptions(&self, who: &Principal) -> Option<String> {
        self.0.function_signatures(who)
    }
}
