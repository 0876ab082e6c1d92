//! A configuration file in memory, which parses policies as the real one does and keeps the sources
//! that are added.

use std::path::Path;
use std::sync::Mutex;

use policy::Policy;
use serde_json::{Value, json};
use server_core::configuration_file::{
    ConfigurationFile, PlannedSource, SourceEntry, TriedSource, TriedTool,
};
use server_core::error::ApiError;
use tool::{BoxFuture, Caller, ErrorCode, Problem};

/// The name of a source that cannot be listed.
pub(crate) const UNREACHABLE: &str = "gone";

#[derive(Debug, Default)]
pub(crate) struct FixtureConfiguration {
    /// The policy section of the file.
    pub(crate) policy: String,
    pub(crate) allows_local_sources: bool,
    /// The sources that were added, and by whom.
    pub(crate) added: Mutex<Vec<(SourceEntry, Caller)>>,
}

fn plan(entry: &SourceEntry) -> Result<PlannedSource, ApiError> {
    let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err(ApiError::new(ErrorCode::InvalidConfig, "the source has no name"));
    }
    let lines = format!("  - {}\n", Value::Object(entry.clone()));
    Ok(PlannedSource { file: "/etc/toolkeep.yaml".to_owned(), line: 3, lines })
}

impl ConfigurationFile for FixtureConfiguration {
    fn parse_policy(&self, text: &str) -> Result<Policy, Vec<String>> {
        config::parse_policy(Path::new("/toolkeep.yaml"), text)
            .map_err(|errors| errors.0.into_iter().map(|error| error.message).collect())
    }

    fn policy_text(&self) -> Result<String, String> {
        Ok(self.policy.clone())
    }

    fn schema(&self) -> Value {
        serde_json::from_str(&config::render_json_schema()).unwrap()
    }

    fn allows_local_sources(&self) -> bool {
        self.allows_local_sources
    }

    fn plan_source(&self, entry: SourceEntry) -> BoxFuture<'_, Result<PlannedSource, ApiError>> {
        Box::pin(async move { plan(&entry) })
    }

    fn try_source(&self, entry: SourceEntry) -> BoxFuture<'_, Result<TriedSource, ApiError>> {
        let gone = entry.get("name") == Some(&json!(UNREACHABLE));
        let tool =
            TriedTool { name: "look".to_owned(), description: "<b>Looks</b>\u{202e}".to_owned() };
        let tools = if gone { Vec::new() } else { vec![tool] };
        let failure = gone.then(|| Problem::new("https://h.example", "does not respond"));
        let tried = TriedSource { tool_count: tools.len(), tools, problems: Vec::new(), failure };
        Box::pin(async move { Ok(tried) })
    }

    fn add_source(
        &self,
        entry: SourceEntry,
        by: Caller,
    ) -> BoxFuture<'_, Result<PlannedSource, ApiError>> {
        let planned = plan(&entry);
        if planned.is_ok() {
            self.added.lock().unwrap().push((entry, by));
        }
        Box::pin(async move { planned })
    }
}
