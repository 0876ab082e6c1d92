//! The port to program execution: operations on started programs, and the description of the tool
//! that runs them.

use std::fmt;
use std::time::Duration;

use catalog::CatalogEntry;
use formats::ProviderFormat;
use futures_util::stream::BoxStream;
use identity::Principal;
use serde_json::Value;
use tool::call_outcome::CallFailure;
use tool::{BoxFuture, CallId, Json, Tool};

use crate::server_state::ServerState;

/// The built-in tool that starts a program.
pub const RUN_PROGRAM_TOOL: &str = "run_program";

/// Operations on programs that were started.
pub trait ProgramRunner: Send + Sync + fmt::Debug {
    /// Shows a program of this caller, after at most `wait`.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`](tool::ErrorCode::NotFound) for unknown programs and for those of others alike.
    fn show_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Value, CallFailure>>;

    /// Resumes a program and shows it after at most `wait`.
    ///
    /// # Errors
    /// As [`ProgramRunner::show_program`], and [`ErrorCode::Conflict`](tool::ErrorCode::Conflict) if it has ended.
    fn resume_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Value, CallFailure>>;

    /// Streams a program of this caller: its current state, and each change until it ends.
    ///
    /// # Errors
    /// As [`ProgramRunner::show_program`].
    fn watch_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Value>, CallFailure>>;

    /// Lists the programs of this caller, the newest first.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    fn list_programs<'a>(
        &'a self,
        who: &'a Principal,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Value>, CallFailure>>;

    /// Cancels a program.
    ///
    /// # Errors
    /// As [`ProgramRunner::show_program`], and [`ErrorCode::Conflict`](tool::ErrorCode::Conflict) if it has ended.
    fn cancel_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
    ) -> BoxFuture<'a, Result<Value, CallFailure>>;

    /// Lists the tools that programs of this caller can call.
    ///
    /// # Errors
    /// Returns an error during server start.
    fn chainable_tools(&self, who: &Principal) -> Result<Value, CallFailure>;

    /// These tools as function descriptions, appended to the description of the tool that runs
    /// programs. The text is equal for equal views.
    fn function_descriptions(&self, who: &Principal) -> Option<String>;
}

/// Adds the functions of this caller to the description of the tool that runs programs.
pub fn describe_run_program(
    (state, principal): (&ServerState, &Principal),
    entry: &CatalogEntry,
    (format, alias): (ProviderFormat, &str),
) -> Option<Json> {
    if entry.tool_key.name.as_str() != RUN_PROGRAM_TOOL
        || entry.tool_key.source.as_str() != tool::names::BUILTIN_SOURCE
    {
        return None;
    }
    let functions = state.components.programs.as_ref()?.function_descriptions(principal)?;
    let mut tool = Tool::clone(&entry.tool);
    tool.description = format!("{}\n\n{functions}", tool.description);
    formats::render_tool(format, &tool, alias).json
}
