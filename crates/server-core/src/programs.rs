//! The port to programs: what interfaces ask of those that have begun, and how the tool that runs them is
//! described.

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

/// The tool that begins one, of the built-in ones.
pub const RUN: &str = "run_program";

/// What is asked of programs that have begun.
pub trait Programs: Send + Sync + fmt::Debug {
    /// A program of this caller, after at most `wait`.
    ///
    /// # Errors
    /// [`Code::NotFound`] for what is not there and for another's alike.
    fn show<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> Boxed<'a, Result<Value, Failure>>;

    /// Lets one go on that can, and shows it after at most `wait`.
    ///
    /// # Errors
    /// As [`Programs::show`], and [`Code::Conflict`] where it has ended.
    fn resume<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> Boxed<'a, Result<Value, Failure>>;

    /// A program of this caller as it is, and after each change until it ends.
    ///
    /// # Errors
    /// As [`Programs::show`].
    fn follow<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
    ) -> Boxed<'a, Result<BoxStream<'static, Value>, Failure>>;

    /// This caller's programs, the newest first.
    ///
    /// # Errors
    /// Where the store does not answer.
    fn list<'a>(
        &'a self,
        who: &'a Principal,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<Value>, Failure>>;

    /// Ends one.
    ///
    /// # Errors
    /// As [`Programs::show`], and [`Code::Conflict`] where it has ended.
    fn cancel<'a>(&'a self, who: &'a Principal, id: CallId) -> Boxed<'a, Result<Value, Failure>>;

    /// The tools that this caller's programs can call.
    ///
    /// # Errors
    /// Where the server is starting.
    fn chainable(&self, who: &Principal) -> Result<Value, Failure>;

    /// The same as a description has them: what follows that of the tool that runs programs. The same for all
    /// whose view is the same.
    fn described(&self, who: &Principal) -> Option<String>;
}

/// The tool that runs programs, with the functions of this caller in its description.
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
