//! The port to the configuration file, as far as interfaces read and change it.

use std::fmt;

use policy::Policy;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tool::{BoxFuture, Problem};

use crate::error::ApiError;

/// A source as its keys and values in the configuration file.
pub type SourceEntry = Map<String, Value>;

/// The configuration file of the server.
pub trait ConfigurationFile: Send + Sync + fmt::Debug {
    /// Parses a policy as the file states it.
    ///
    /// # Errors
    /// All errors of the text, each with its position.
    fn parse_policy(&self, text: &str) -> Result<Policy, Vec<String>>;

    /// Returns the policy of the file as its text, for editing; empty without one. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// The file cannot be read.
    fn policy_text(&self) -> Result<String, String>;

    /// Returns the JSON Schema of the whole file.
    fn schema(&self) -> Value;

    /// Whether sources that start a program or read a file may be added over interfaces.
    fn allows_local_sources(&self) -> bool;

    /// Returns the lines that would add a source.
    ///
    /// # Errors
    /// The errors that the file would have.
    fn plan_source(&self, entry: SourceEntry) -> BoxFuture<'_, Result<PlannedSource, ApiError>>;

    /// Starts a source that is not in the file, lists its tools and stops it.
    ///
    /// # Errors
    /// The errors that the file would have.
    fn try_source(&self, entry: SourceEntry) -> BoxFuture<'_, Result<TriedSource, ApiError>>;

    /// Writes a source into the file, on record as a change of this caller. The server applies it
    /// when it sees the change.
    ///
    /// # Errors
    /// The errors that the file would have; an error if it cannot be written or recorded.
    fn add_source(
        &self,
        entry: SourceEntry,
        by: tool::Caller,
    ) -> BoxFuture<'_, Result<PlannedSource, ApiError>>;
}

/// The lines of a source in the configuration file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PlannedSource {
    /// Path of the file.
    pub file: String,
    /// Number of the first line, from 1.
    pub line: usize,
    /// The lines.
    pub lines: String,
}

/// The listing of a source that was tried.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TriedSource {
    /// Number of tools.
    pub tool_count: usize,
    /// The first 100 tools.
    pub tools: Vec<TriedTool>,
    /// Problems of parts that could not be offered, with their fix.
    #[schemars(with = "Vec<Value>")]
    pub problems: Vec<Problem>,
    /// Why nothing could be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub failure: Option<Problem>,
}

/// A tool of a source that was tried.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TriedTool {
    /// Name of the tool.
    pub name: String,
    /// Description of the tool.
    pub description: String,
}
