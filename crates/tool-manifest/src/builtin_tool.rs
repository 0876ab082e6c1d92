//! A built-in tool: its definition and its executor.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tool::{
    AccessScope, BoxFuture, CallArguments, CallContext, ExecuteError, ExecutionState, Executor,
    Json, Outcome, RecordedCall, Tool,
};

use crate::blocking::run_blocking;

/// A built-in tool with its executor.
#[derive(Debug, Clone)]
pub struct BuiltinTool {
    /// Definition of the tool.
    pub tool: Arc<Tool>,
    /// Executor that runs the tool.
    pub executor: Arc<dyn Executor>,
    /// Name of the tool in `implementation.handler` of tool files.
    pub handler: Arc<str>,
}

impl BuiltinTool {
    /// Sets the folder in which relative paths begin, if the tool accesses files.
    pub fn set_base_folder(&mut self, folder: &str) {
        if self.tool.traits.scopes.contains(&AccessScope::Filesystem) {
            Arc::make_mut(&mut self.tool).traits.base_folders = Some(vec![folder.to_owned()]);
        }
    }
}

/// A function of a tool: computes a result from its arguments.
pub trait ToolFunction: Send + Sync + fmt::Debug {
    /// Computes the result, or returns an error message for the model.
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String>;

    /// See [`Executor::validate_arguments`].
    fn check_args(&self, _args: &CallArguments) -> Result<(), String> {
        Ok(())
    }
}

/// Runs a function on the calling task.
#[derive(Debug)]
pub struct InlineExecutor<T>(pub(crate) T);

impl<T: ToolFunction> Executor for InlineExecutor<T> {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let outcome = to_outcome(self.0.compute_output(&call.call().arguments));
        Box::pin(std::future::ready(Ok(ExecutionState::Completed(outcome))))
    }

    fn validate_arguments(&self, args: &CallArguments) -> Result<(), String> {
        self.0.check_args(args)
    }
}

/// Runs a function on a blocking thread, so that it delays no other call.
#[derive(Debug)]
pub struct BlockingExecutor<T>(pub(crate) Arc<T>);

impl<T: ToolFunction + 'static> Executor for BlockingExecutor<T> {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let (compute, args) = (Arc::clone(&self.0), call.call().arguments.clone());
        Box::pin(async move {
            let computed =
                run_blocking(CancellationToken::new(), move || compute.compute_output(&args));
            Ok(ExecutionState::Completed(to_outcome(computed.await?)))
        })
    }

    fn validate_arguments(&self, args: &CallArguments) -> Result<(), String> {
        self.0.check_args(args)
    }
}

/// Converts a computed result to the outcome of the call.
pub fn to_outcome(result: Result<Json, String>) -> Outcome {
    match result {
        Ok(value) => Outcome::from_value(value),
        Err(message) => Outcome::tool_failure(&message),
    }
}

/// Converts a JSON result or an error message to the completed call.
pub fn completed_step(result: Result<Value, String>) -> ExecutionState {
    ExecutionState::Completed(to_outcome(result.map(|value| Json::encode(&value))))
}
