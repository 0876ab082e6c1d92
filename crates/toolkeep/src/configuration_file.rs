//! The configuration file as interfaces read and change it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::{ConfigError, LoadOptions};
use config_edit::{ConfigEdit, EditError, EditErrorKind, SourceAddition};
use policy::Policy;
use serde_json::Value;
use server_core::configuration_file::{
    ConfigurationFile, PlannedSource, SourceEntry, TriedSource, TriedTool,
};
use server_core::error::ApiError;
use server_core::page_query::run_blocking;
use tool::ledger::{AuditEventRecord, AuditLog};
use tool::{
    BoxFuture, Caller, CatalogItem, Clock, ErrorCode, Problem, Source, SourceListing, SourceName,
};

use super::source_factory::SourceFactory;

/// Time that a source has to list its tools when it is tried, unless it states more.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of tools that a trial returns.
const MAX_TRIED_TOOLS: usize = 100;
/// Maximum characters of a description that a trial returns.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// The file that the server was started with.
pub(crate) struct LoadedFile {
    pub(crate) options: LoadOptions,
    pub(crate) allows_local_sources: bool,
    pub(crate) factory: Arc<SourceFactory>,
    pub(crate) audit_log: Arc<dyn AuditLog>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for LoadedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedFile").field("file", &self.options.file).finish_non_exhaustive()
    }
}

impl ConfigurationFile for LoadedFile {
    fn parse_policy(&self, text: &str) -> Result<Policy, Vec<String>> {
        let file = self.options.file.as_deref().unwrap_or(Path::new("policy"));
        let told = |error: ConfigError| {
            let help = error.help.map(|help| format!(" ({help})")).unwrap_or_default();
            let at = error.position;
            format!("line {}, column {}: {}{help}", at.line, at.column, error.message)
        };
        config::parse_policy(&self.options.current_dir.join(file), text)
            .map_err(|errors| errors.0.into_iter().map(told).collect())
    }

    fn policy_text(&self) -> Result<String, String> {
        let Some(file) = &self.options.file else { return Ok(String::new()) };
        config::read_policy_text(&self.options.current_dir.join(file))
            .map_err(|error| error.to_string())
    }

    fn schema(&self) -> Value {
        serde_json::from_str(&config::render_json_schema()).unwrap_or_default()
    }

    fn allows_local_sources(&self) -> bool {
        self.allows_local_sources
    }

    fn plan_source(&self, entry: SourceEntry) -> BoxFuture<'_, Result<PlannedSource, ApiError>> {
        Box::pin(async move { Ok(planned_source(&self.plan_addition(entry).await?)) })
    }

    fn try_source(&self, entry: SourceEntry) -> BoxFuture<'_, Result<TriedSource, ApiError>> {
        Box::pin(async move {
            let name = source_name(&entry)?;
            let addition = self.plan_addition(entry).await?;
            let source = self.factory.build_single_source(&addition.config, &name);
            let source = source.ok_or_else(|| {
                ApiError::new(ErrorCode::InvalidConfig, "the entry defines no source of its own")
            })?;
            let tried = try_listing(source.as_ref()).await;
            source.shut_down().await;
            Ok(tried)
        })
    }

    fn add_source(
        &self,
        entry: SourceEntry,
        by: Caller,
    ) -> BoxFuture<'_, Result<PlannedSource, ApiError>> {
        Box::pin(async move {
            let name = source_name(&entry)?;
            let addition = self.plan_addition(entry).await?;
            self.audit_log.record_event(&self.addition_event(name, by))?;
            let planned = planned_source(&addition);
            run_blocking(move || addition.write()).await?.map_err(edit_error)?;
            Ok(planned)
        })
    }
}

impl LoadedFile {
    async fn plan_addition(&self, entry: SourceEntry) -> Result<SourceAddition, ApiError> {
        let options = self.options.clone();
        let plan = move || ConfigEdit::open(options)?.add_source(&entry);
        run_blocking(plan).await?.map_err(edit_error)
    }

    fn addition_event(&self, source: SourceName, by: Caller) -> AuditEventRecord {
        AuditEventRecord {
            recorded_at: self.clock.wall_now(),
            org: by.org.clone(),
            kind: "source_added".to_owned(),
            changed_by: Some(by),
            source: Some(source),
            tool: None,
            digest_before: None,
            digest_after: None,
            comment: None,
        }
    }
}

fn source_name(entry: &SourceEntry) -> Result<SourceName, ApiError> {
    let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
    SourceName::new(name).map_err(|error| {
        ApiError::new(ErrorCode::InvalidConfig, format!("the name of the source: {error}"))
    })
}

fn planned_source(addition: &SourceAddition) -> PlannedSource {
    PlannedSource {
        file: addition.file.display().to_string(),
        line: addition.line,
        lines: addition.lines.clone(),
    }
}

fn edit_error(error: EditError) -> ApiError {
    let EditError { kind, message, help } = error;
    let code = match kind {
        EditErrorKind::NoFile => ErrorCode::NotFound,
        EditErrorKind::InvalidEntry
        | EditErrorKind::InvalidConfig
        | EditErrorKind::ConfigErrors(_) => ErrorCode::InvalidConfig,
        EditErrorKind::Failed => ErrorCode::Internal,
    };
    let error = ApiError::new(code, message);
    match help {
        Some(help) => error.with_help(help),
        None => error,
    }
}

async fn try_listing(source: &dyn Source) -> TriedSource {
    let timeout = source.list_timeout().unwrap_or(TRIAL_TIMEOUT);
    match tokio::time::timeout(timeout, source.list_offers()).await {
        Ok(Ok(listing)) => tried_source(listing),
        Ok(Err(error)) => failed_trial(error.problem),
        Err(_) => {
            let message = format!("it did not list its tools within {} s", timeout.as_secs());
            failed_trial(Problem::new(source.name().as_str(), message))
        }
    }
}

fn failed_trial(problem: Problem) -> TriedSource {
    TriedSource { tool_count: 0, tools: Vec::new(), problems: Vec::new(), failure: Some(problem) }
}

fn tried_source(listing: SourceListing) -> TriedSource {
    let tools: Vec<_> = listing
        .offers
        .iter()
        .filter_map(|offer| match &offer.item {
            CatalogItem::Tool(tool) => Some(TriedTool {
                name: tool.name.to_string(),
                description: tool.description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
            }),
            CatalogItem::Prompt(_)
            | CatalogItem::Resource(_)
            | CatalogItem::Skill(_)
            | CatalogItem::Event(_)
            | CatalogItem::Method(_) => None,
        })
        .collect();
    TriedSource {
        tool_count: tools.len(),
        tools: tools.into_iter().take(MAX_TRIED_TOOLS).collect(),
        problems: listing.problems,
        failure: None,
    }
}
