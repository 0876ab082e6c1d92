//! The port to program execution: operations on started programs, and the description of the tool
//! that runs them.

use std::fmt;
use std::time::Duration;

use catalog::Entry;
use formats::Format;
use futures_util::stream::BoxStream;
use identity::Principal;
use serde_json::Value;
use tool::outcome::Failure;
use tool::{Boxed, CallId, Json, Tool};

use crate::state::Doors;

/// The built-in tool that starts a program.
pub const RUN: &str = "run_program";

/// Operations on programs that were started.
pub trait Programs: Send + Sync + fmt::Debug {
    /// Shows a program of this caller, after at most `wait`.
    ///
    /// # Errors
    /// [`Code::NotFound`] for unknown programs and for those of others alike.
    fn show<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> Boxed<'a, Result<Value, Failure>>;

    /// Resumes a program and shows it after at most `wait`.
    ///
    /// # Errors
    /// As [`Programs::show`], and [`Code::Conflict`] if it has ended.
    fn resume<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> Boxed<'a, Result<Value, Failure>>;

    /// Streams a program of this caller: its current state, and each change until it ends.
    ///
    /// # Errors
    /// As [`Programs::show`].
    fn follow<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
    ) -> Boxed<'a, Result<BoxStream<'static, Value>, Failure>>;

    /// Lists the programs of this caller, the newest first.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    fn list<'a>(
        &'a self,
        who: &'a Principal,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<Value>, Failure>>;

    /// Cancels a program.
    ///
    /// # Errors
    /// As [`Programs::show`], and [`Code::Conflict`] if it has ended.
    fn cancel<'a>(&'a self, who: &'a Principal, id: CallId) -> Boxed<'a, Result<Value, Failure>>;

    /// Lists the tools that programs of this caller can call.
    ///
    /// # Errors
    /// Returns an error during server start.
    fn chainable(&self, who: &Principal) -> Result<Value, Failure>;

    /// These tools as function descriptions, appended to the description of the tool that runs
    /// programs. The text is equal for equal views.
    fn described(&self, who: &Principal) -> Option<String>;
}

/// Adds the functions of this caller to the description of the tool that runs programs.
pub fn described(
    (doors, who): (&Doors, &Principal),
    entry: &Entry,
    (format, alias): (Format, &str),
) -> Option<Json> {
    if entry.key.name.as_str() != RUN || entry.key.source.as_str() != tool::name::BUILTIN {
        return None;
    }
    let functions = doors.parts.programs.as_ref()?.described(who)?;
    let mut tool = Tool::clone(&entry.tool);
    tool.description = format!("{}\n\n{functions}", tool.description);
    formats::render(format, &tool, alias).json
}
