//! Turning sources and tools off and on, with the right that it needs.

use std::collections::BTreeSet;

use catalog::{CatalogEntry, SourceCatalog};
use identity::{Principal, Right};
use intake::{DisabledNames, SwitchError, ToolSwitch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{ErrorCode, ToolName};

use crate::authorization_checks::require_right;
use crate::error::ApiError;
use crate::page_query::{PageQuery, cut_page, run_blocking};
use crate::provider_forms::definition_tokens;
use crate::server_state::ServerState;
use crate::source_addition::require_source_admin;
use crate::source_list::{no_such_source, parse_visible_source};

/// A source or a tool to turn on or off.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchBody {
    /// Name of the source.
    pub source: String,
    /// Name of one of its tools, as the source has it; the whole source if absent.
    #[serde(default)]
    pub tool: Option<String>,
    /// Whether it is on.
    pub enabled: bool,
}

/// The sources and tools that are turned off.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct SwitchListReply {
    /// Sources that offer nothing.
    pub sources: Vec<String>,
    /// Tools that are turned off one by one.
    pub tools: Vec<DisabledToolReply>,
}

/// A tool that is turned off.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DisabledToolReply {
    /// Name of the source.
    pub source: String,
    /// Name of the tool, as the source has it.
    pub tool: String,
}

/// A page of the tools of one source.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceToolListReply {
    /// Whether the source is on.
    pub enabled: bool,
    /// The tools that are on or turned off, by name.
    pub tools: Vec<SourceToolReply>,
    /// Estimated tokens of all tools that are on, in a full list.
    pub listed_tokens: usize,
    /// Estimated tokens of all tools that are off.
    pub saved_tokens: usize,
    /// Value of `after` for the next page; null on the last page.
    pub next: Option<String>,
}

/// A tool of a source, with its switch.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceToolReply {
    /// Name in lists.
    pub name: String,
    /// Name as the source has it, which a switch takes.
    pub tool: String,
    /// Estimated tokens of its definition in a full list.
    pub tokens: usize,
    /// Whether it is on.
    pub enabled: bool,
}

/// Lists the tools of a source with their switches and what they cost. Tools whose definition waits for a
/// review are not among them: no switch turns them on.
///
/// # Errors
/// As [`list_switches`]; [`ErrorCode::NotFound`] for a source that does not exist; an error for an invalid
/// page.
pub async fn list_source_tools(
    state: &ServerState,
    principal: &Principal,
    source: &str,
    page: PageQuery,
) -> Result<SourceToolListReply, ApiError> {
    let limit = page.check_limit()?;
    let switches = list_switches(state, principal)?;
    let name = parse_visible_source(principal, source)?;
    let shelf = state.components.intake.catalog().find_source(name.as_str()).cloned();
    let shelf = shelf.ok_or_else(|| no_such_source(name.as_str()))?;
    // A source may have 10,000 tools, whose tokens are counted.
    let mut reply = run_blocking(move || source_tools(&shelf, &switches)).await?;
    reply.tools.retain(|tool| page.after.as_ref().is_none_or(|after| tool.name > *after));
    reply.next = cut_page(&mut reply.tools, limit, |tool| &tool.name);
    Ok(reply)
}

fn source_tools(shelf: &SourceCatalog, switches: &SwitchListReply) -> SourceToolListReply {
    let source = shelf.source.as_str();
    let is_source_on = !switches.sources.iter().any(|off| off == source);
    let off = switches.tools.iter().filter(|off| off.source == source);
    let off: BTreeSet<&str> = off.map(|off| off.tool.as_str()).collect();
    let tool = |entry: &CatalogEntry, enabled| SourceToolReply {
        name: entry.name.to_string(),
        tool: entry.tool_key.name.to_string(),
        tokens: definition_tokens(entry),
        enabled,
    };
    let is_off = |entry: &CatalogEntry| !is_source_on || off.contains(entry.tool_key.name.as_str());
    let blocked = shelf.blocked.iter().filter(|held| !held.is_method && is_off(&held.entry));
    let listed = shelf.tools.iter().map(|entry| tool(entry, true));
    let mut tools: Vec<_> = listed.chain(blocked.map(|held| tool(&held.entry, false))).collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let sum = |enabled: bool| {
        tools.iter().filter(|tool| tool.enabled == enabled).map(|tool| tool.tokens).sum()
    };
    let (listed_tokens, saved_tokens) = (sum(true), sum(false));
    SourceToolListReply { enabled: is_source_on, tools, listed_tokens, saved_tokens, next: None }
}

/// Lists what is turned off of the sources that the caller may know.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to refresh sources.
pub fn list_switches(
    state: &ServerState,
    principal: &Principal,
) -> Result<SwitchListReply, ApiError> {
    require_right(principal, Right::SourcesRefresh)?;
    let names = state.components.intake.pin_registry().map(|pins| pins.disabled_names());
    Ok(names.map(|names| switch_list(principal, &names)).unwrap_or_default())
}

/// Turns a source or a tool on or off, for every caller, at once, and until it is changed. A tool that is
/// off is in no list and cannot be called.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to write sources; [`ErrorCode::NotFound`] for a source that
/// does not exist; an error for an invalid name, and if the change cannot be stored or recorded.
pub async fn set_switch(
    state: &ServerState,
    principal: &Principal,
    body: SwitchBody,
) -> Result<SwitchListReply, ApiError> {
    require_source_admin(principal)?;
    let source = parse_visible_source(principal, &body.source)?;
    // What no longer exists can still be turned on, so that nothing stays turned off by accident.
    let exists = state.components.intake.find_source(&source).is_some();
    if !body.enabled && !exists {
        return Err(no_such_source(source.as_str()));
    }
    let tool = body.tool.as_deref().map(ToolName::new).transpose().map_err(|error| {
        ApiError::new(ErrorCode::InvalidRequest, format!("the name of the tool: {error}"))
    })?;
    let switch = ToolSwitch {
        source: &source,
        tool: tool.as_ref(),
        is_enabled: body.enabled,
        changed_by: principal.caller(),
    };
    let names = state.components.intake.set_switch(switch).await.map_err(switch_error)?;
    let names = names.ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, "this server has no store for what is turned off")
    })?;
    let (tool, enabled) = (body.tool.as_deref().unwrap_or("*"), body.enabled);
    tracing::info!(%source, tool, enabled, by = principal.key_id(), "tool switch set");
    Ok(switch_list(principal, &names))
}

fn switch_list(principal: &Principal, names: &DisabledNames) -> SwitchListReply {
    let may_know = |source: &str| principal.rights_class().allows_source(source);
    let sources = names.sources.iter().filter(|source| may_know(source.as_str()));
    let tools = names.tools.iter().filter(|(source, _)| may_know(source.as_str()));
    let tools = tools.flat_map(|(source, tools)| tools.iter().map(move |tool| (source, tool)));
    SwitchListReply {
        sources: sources.map(ToString::to_string).collect(),
        tools: tools
            .map(|(source, tool)| DisabledToolReply {
                source: source.to_string(),
                tool: tool.to_string(),
            })
            .collect(),
    }
}

fn switch_error(error: SwitchError) -> ApiError {
    match error {
        SwitchError::TooMany => ApiError::new(ErrorCode::InvalidRequest, error.to_string()),
        SwitchError::Store(error) => error.into(),
        SwitchError::Record(error) => error.into(),
    }
}
