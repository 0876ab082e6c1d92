//! Review of tool definitions: the pinned ones, what changed, and decisions about them.

use catalog::pin::{DefinitionChange, ObservedDefinition, diff_definitions};
use catalog::{Pin, PinState};
use identity::{Principal, Right};
pub use intake::PinVerdict;
use intake::{DecidePinError, PinEntry, PinRegistry, PinReview};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Digest, ErrorCode, Json, SourceName, ToolName};

use crate::authorization_checks::require_right;
use crate::error::ApiError;
use crate::page_query::run_blocking;
use crate::query_string::check_limit;
use crate::server_state::ServerState;
use crate::source_list::no_such_source;

/// Source and name of a tool, as a request has them.
pub type PinPath<'a> = (&'a str, &'a str);

/// Maximum and default number of pins per page.
const MAX_PAGE_SIZE: usize = 1_000;
/// Maximum characters of a reason.
pub const MAX_REASON_CHARS: usize = 500;

/// The query of a list. Absent fields match any definition.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinListQuery {
    /// Only of this source.
    pub source: Option<String>,
    /// Only in this state; `waiting` stands for pending and quarantined.
    pub state: Option<String>,
    /// Number of definitions per page.
    pub limit: Option<usize>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

/// A page of pinned definitions, by source and tool.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PinListReply {
    /// The definitions.
    pub pins: Vec<PinReply>,
    /// Number of all matching definitions.
    pub total: usize,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// The state of a pinned definition.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PinReply {
    /// Source of the tool.
    pub source: String,
    /// Name of the tool.
    pub tool: String,
    /// State: `pending`, `active`, `quarantined` or `retired`.
    #[schemars(with = "String")]
    pub state: PinState,
    /// Hash of the waiting definition, or of the active one.
    #[schemars(with = "Option<String>")]
    pub definition: Option<Digest>,
    /// Time of the last change of state, RFC 3339.
    pub since: Option<String>,
    /// Whether the definition contains invisible characters, which are escaped in responses.
    #[serde(rename = "hidden")]
    pub has_hidden_characters: bool,
    /// Key or user that decided last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Reason for the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A pinned definition with its texts and what changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PinDetailReply {
    /// Its state.
    #[serde(flatten)]
    pub pin: PinReply,
    /// The approved definition.
    pub active: Option<PinnedDefinitionReply>,
    /// The definition that waits for approval.
    pub waiting: Option<PinnedDefinitionReply>,
    /// Differences between both definitions, field by field; empty if a text is not stored.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub changes: Vec<DefinitionChange>,
    /// Number of further differences.
    pub more_changes: usize,
    /// Definitions that were approved before, newest first, each with what its successor changed.
    pub history: Vec<FormerDefinitionReply>,
    /// Hashes of rejected definitions, oldest first.
    #[schemars(with = "Vec<String>")]
    pub rejected: Vec<Digest>,
}

/// One text of a definition.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PinnedDefinitionReply {
    /// Hash of the definition.
    #[schemars(with = "String")]
    pub definition: Digest,
    /// Time, RFC 3339.
    pub at: String,
    /// Whether it contains invisible characters.
    #[serde(rename = "hidden")]
    pub has_hidden_characters: bool,
    /// Definition as received, with invisible characters escaped; absent if it is not stored.
    #[schemars(with = "Option<serde_json::Value>")]
    pub received: Option<Json>,
}

/// A definition that was approved before.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FormerDefinitionReply {
    /// The definition.
    #[serde(flatten)]
    pub former: PinnedDefinitionReply,
    /// Differences to the approved definition after it, field by field; empty if a text is not stored.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub changes: Vec<DefinitionChange>,
    /// Number of further differences.
    pub more_changes: usize,
}

/// A decision on a definition.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinDecisionBody {
    /// Hash of the reviewed definition.
    pub definition: String,
    /// Reason for the decision, which is recorded.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Lists the pinned definitions of sources that the caller may know, by source and tool.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to review or to refresh; an error for an invalid query.
pub async fn list_pins(
    state: &ServerState,
    principal: &Principal,
    query: PinListQuery,
) -> Result<PinListReply, ApiError> {
    require_pin_access(principal)?;
    let limit = check_limit(query.limit, MAX_PAGE_SIZE, MAX_PAGE_SIZE)?;
    let source = query.source.as_deref().map(parse_source).transpose()?;
    let states = parse_states(query.state.as_deref())?;
    let pins = state.components.intake.pin_registry().cloned();
    // There may be 100,000 pins, so they are listed on a blocking thread.
    let mut all = run_blocking(move || {
        pins.map(|pins| pins.list_pins(source.as_ref(), None)).unwrap_or_default()
    })
    .await?;
    all.retain(|pinned| {
        let seen = principal.rights_class().allows_source(pinned.source.as_str());
        seen && states.contains(&pinned.pin.state)
    });
    let total = all.len();
    if let Some(cursor) = &query.cursor {
        let (source, tool) = cursor.split_once('/').unwrap_or((cursor, ""));
        all.retain(|one| (one.source.as_str(), one.tool_name.as_str()) > (source, tool));
    }
    let next_cursor = (all.len() > limit).then(|| all.get(limit - 1).map(cursor_of)).flatten();
    all.truncate(limit);
    let pins = all.iter().map(|one| pin_reply(&one.source, &one.tool_name, &one.pin)).collect();
    Ok(PinListReply { pins, total, next_cursor })
}

/// The cursor value of a pin. Names contain no `/`.
fn cursor_of(pinned: &PinEntry) -> String {
    format!("{}/{}", pinned.source, pinned.tool_name)
}

/// Returns the pinned definition of a tool with its texts and what changed.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to review or to refresh; [`ErrorCode::NotFound`].
pub async fn show_pin(
    state: &ServerState,
    principal: &Principal,
    path: PinPath<'_>,
) -> Result<PinDetailReply, ApiError> {
    require_pin_access(principal)?;
    let (source, tool) = parse_pin_path(principal, path)?;
    let pin = pin_registry(state, path)?
        .get_pin(&source, &tool)
        .await
        .map_err(|error| pin_error(error, path))?;
    let (changes, more_changes) = pin_changes(pin.active.as_ref(), pin.pending.as_ref());
    Ok(PinDetailReply {
        active: pin.active.as_ref().map(definition_reply),
        waiting: pin.pending.as_ref().map(definition_reply),
        changes,
        more_changes,
        history: definition_history(&pin),
        rejected: pin.rejected_digests.clone(),
        pin: pin_reply(&source, &tool, &pin),
    })
}

/// Approves or rejects the definition that the caller has reviewed.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to review; [`ErrorCode::Conflict`] if another
/// definition waits by now.
pub async fn decide_pin(
    server_state: &ServerState,
    principal: &Principal,
    path: PinPath<'_>,
    (verdict, body): (PinVerdict, PinDecisionBody),
) -> Result<PinReply, ApiError> {
    require_right(principal, Right::PinsWrite)?;
    let (source, tool) = parse_pin_path(principal, path)?;
    let bad = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
    let definition = body.definition.parse::<Digest>().map_err(bad)?;
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS) {
        return Err(bad(format!("`reason` may have at most {MAX_REASON_CHARS} characters")));
    }
    let review = PinReview {
        verdict,
        definition_digest: definition,
        reviewer: principal.caller(),
        reason: body.reason,
    };
    let pin = server_state.components.intake.decide_pin(&source, &tool, review).await;
    let pin = pin.map_err(|error| pin_error(error, path))?;
    tracing::info!(source = %source, tool = %tool, by = principal.key_id(), state = pin.state.as_str(), "pin decided");
    Ok(pin_reply(&source, &tool, &pin))
}

/// Whether a principal may read pinned definitions: to review them, or to refresh sources.
pub fn may_read_pins(principal: &Principal) -> bool {
    principal.has_right(Right::PinsWrite) || principal.has_right(Right::SourcesRefresh)
}

fn require_pin_access(principal: &Principal) -> Result<(), ApiError> {
    if may_read_pins(principal) {
        return Ok(());
    }
    let message = "the key lacks the rights `pins:write` and `sources:refresh`";
    Err(ApiError::new(ErrorCode::Forbidden, message).with_help(Right::SourcesRefresh.remedy()))
}

fn pin_registry<'a>(
    state: &'a ServerState,
    path: PinPath<'_>,
) -> Result<&'a PinRegistry, ApiError> {
    state.components.intake.pin_registry().map(AsRef::as_ref).ok_or_else(|| no_such_pin(path))
}

/// Parses the path of a pin. Sources hidden by the caller's persona have no pins.
fn parse_pin_path(
    principal: &Principal,
    path: PinPath<'_>,
) -> Result<(SourceName, ToolName), ApiError> {
    let names = SourceName::new(path.0).ok().zip(ToolName::new(path.1).ok());
    names
        .filter(|(source, _)| principal.rights_class().allows_source(source.as_str()))
        .ok_or_else(|| no_such_pin(path))
}

fn no_such_pin((source, tool): PinPath<'_>) -> ApiError {
    let (source, tool) = (source.escape_debug(), tool.escape_debug());
    let message = format!("no pin of the tool `{tool}` of the source `{source}`");
    ApiError::new(ErrorCode::NotFound, message).with_help("run `toolkeep pin list` to see all pins")
}

fn pin_error(error: DecidePinError, path: PinPath<'_>) -> ApiError {
    match error {
        DecidePinError::NotFound { .. } => no_such_pin(path),
        DecidePinError::NotDecidable(why) => ApiError::new(ErrorCode::Conflict, why.to_string())
            .with_help("run `toolkeep pin diff` again and pass the definition that it shows"),
        DecidePinError::Store(error) => error.into(),
        DecidePinError::Record(error) => error.into(),
    }
}

fn parse_source(name: &str) -> Result<SourceName, ApiError> {
    SourceName::new(name).map_err(|_| no_such_source(name))
}

fn parse_states(word: Option<&str>) -> Result<Vec<PinState>, ApiError> {
    let Some(word) = word else { return Ok(PinState::ALL.to_vec()) };
    let fits =
        |state: &PinState| state.as_str() == word || (word == "waiting" && state.needs_review());
    let states: Vec<_> = PinState::ALL.into_iter().filter(fits).collect();
    if states.is_empty() {
        let known = PinState::ALL.map(PinState::as_str).join(", ");
        let message = format!("unknown state `{}`; use {known} or waiting", word.escape_debug());
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    Ok(states)
}

fn pin_reply(source: &SourceName, tool: &ToolName, pin: &Pin) -> PinReply {
    let sight = pin.pending.as_ref().or(pin.active.as_ref());
    PinReply {
        source: source.to_string(),
        tool: tool.to_string(),
        state: pin.state,
        definition: sight.map(|sight| sight.digest),
        since: sight.map(|sight| sight.observed_at.to_string()),
        has_hidden_characters: sight.is_some_and(|sight| sight.has_invisible_chars),
        by: pin.decided_by.clone(),
        reason: pin.reason.clone(),
    }
}

/// Compares two definitions whose texts are stored.
fn pin_changes(
    before: Option<&ObservedDefinition>,
    after: Option<&ObservedDefinition>,
) -> (Vec<DefinitionChange>, usize) {
    let text = |one: Option<&ObservedDefinition>| one?.raw_definition.clone();
    let texts = text(before).zip(text(after));
    texts.map(|(before, after)| diff_definitions(&before, &after)).unwrap_or_default()
}

fn definition_history(pin: &Pin) -> Vec<FormerDefinitionReply> {
    let successors = pin.former.iter().skip(1).map(Some).chain([pin.active.as_ref()]);
    let entries = pin.former.iter().zip(successors).map(|(former, successor)| {
        let (changes, more_changes) = pin_changes(Some(former), successor);
        FormerDefinitionReply { former: definition_reply(former), changes, more_changes }
    });
    let mut history: Vec<_> = entries.collect();
    history.reverse();
    history
}

fn definition_reply(sight: &ObservedDefinition) -> PinnedDefinitionReply {
    PinnedDefinitionReply {
        definition: sight.digest,
        at: sight.observed_at.to_string(),
        has_hidden_characters: sight.has_invisible_chars,
        received: sight.raw_definition.clone(),
    }
}
