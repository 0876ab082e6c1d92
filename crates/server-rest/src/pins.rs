//! `/v1/pins`: the approved tool definitions, and decisions on definitions that await review.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use catalog::pin::{Difference, Sighting, between};
use catalog::{Pin, PinState};
use identity::{Principal, Right};
use intake::{DecideError, Decision, Pinned, Pins};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, Digest, Json, SourceName, ToolName};

use server_core::body::{Body, Params};
use server_core::error::ApiError;
use server_core::route::{Param, Route};
use server_core::state::Doors;

/// Maximum and default number of pins per page.
const PAGE: usize = 1_000;
/// Maximum characters of a reason.
const REASON: usize = 500;

const QUERY: &[Param] = &[
    Param { name: "source", what: "only of this source", kind: "string" },
    Param {
        name: "state",
        what: "only those that are pending, active, quarantined or retired; or `waiting`, which is \
               pending and quarantined",
        kind: "string",
    },
    Param { name: "limit", what: "at most so many, 1 to 1000", kind: "integer" },
    Param { name: "cursor", what: "next_cursor of the page before", kind: "string" },
];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/pins", "The definitions that were seen, by tool", get(list))
            .query(QUERY)
            .reply::<PinsReply>(),
        Route::new("get", "/v1/pins/{source}/{tool}", "One, with its texts", get(show))
            .reply::<PinShown>(),
        Route::new("post", "/v1/pins/{source}/{tool}/approve", "Agree to it", post(approve))
            .body::<WordBody>()
            .reply::<PinReply>(),
        Route::new("post", "/v1/pins/{source}/{tool}/reject", "Refuse it", post(reject))
            .body::<WordBody>()
            .reply::<PinReply>(),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    source: Option<String>,
    state: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PinsReply {
    pins: Vec<PinReply>,
    /// How many of all fit.
    total: usize,
    /// Give it as `cursor` for the next page; null at the end.
    next_cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PinReply {
    source: String,
    tool: String,
    /// `pending`, `active`, `quarantined` or `retired`.
    #[schemars(with = "String")]
    state: PinState,
    /// The hash of the definition that waits, or else of the active one.
    #[schemars(with = "Option<String>")]
    definition: Option<Digest>,
    /// Since when, RFC 3339.
    since: Option<String>,
    /// Whether it holds characters that nobody sees. They are written out where it is shown.
    hidden: bool,
    /// Who decided last.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PinShown {
    #[serde(flatten)]
    pin: PinReply,
    /// What was agreed to.
    active: Option<SightReply>,
    /// What waits for a decision.
    waiting: Option<SightReply>,
    /// What differs between the two, place by place; empty where one of the texts is not kept.
    #[schemars(with = "Vec<serde_json::Value>")]
    changes: Vec<Difference>,
    /// How many places more.
    more_changes: usize,
    /// What was rejected, oldest first.
    #[schemars(with = "Vec<String>")]
    rejected: Vec<Digest>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SightReply {
    #[schemars(with = "String")]
    definition: Digest,
    /// RFC 3339.
    at: String,
    hidden: bool,
    /// The definition as received, with hidden characters written out; absent where it is not kept.
    #[schemars(with = "Option<serde_json::Value>")]
    received: Option<Json>,
}

/// A word on one definition.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WordBody {
    /// The hash of the definition that was looked at.
    definition: String,
    /// Why; it stands in the record.
    #[serde(default)]
    reason: Option<String>,
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(asked): Params<Asked>,
) -> Result<Reply<PinsReply>, ApiError> {
    may_look(&principal)?;
    let limit = asked.limit.unwrap_or(PAGE);
    if limit == 0 || limit > PAGE {
        return Err(ApiError::new(Code::InvalidRequest, format!("`limit` is 1 to {PAGE}")));
    }
    let source = asked.source.as_deref().map(source).transpose()?;
    let states = states(asked.state.as_deref())?;
    let pins = doors.parts.intake.pins().cloned();
    // There may be 100,000 pins, so they are listed on a blocking thread.
    let all = tokio::task::spawn_blocking(move || {
        pins.map(|pins| pins.list(source.as_ref(), None)).unwrap_or_default()
    });
    let mut all = all
        .await
        .map_err(|_| ApiError::new(Code::Internal, "a fault in Toolkeep while pins were listed"))?;
    all.retain(|pinned| {
        let seen = principal.rights().allows_source(pinned.source.as_str());
        seen && states.contains(&pinned.pin.state)
    });
    let total = all.len();
    if let Some(cursor) = &asked.cursor {
        let (source, tool) = cursor.split_once('/').unwrap_or((cursor, ""));
        all.retain(|one| (one.source.as_str(), one.tool.as_str()) > (source, tool));
    }
    let next_cursor = (all.len() > limit).then(|| all.get(limit - 1).map(place)).flatten();
    all.truncate(limit);
    let pins = all.iter().map(|one| reply(&one.source, &one.tool, &one.pin)).collect();
    Ok(Reply(PinsReply { pins, total, next_cursor }))
}

/// The cursor value of a pin. Names contain no `/`.
fn place(pinned: &Pinned) -> String {
    format!("{}/{}", pinned.source, pinned.tool)
}

async fn show(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(path): Path<(String, String)>,
) -> Result<Reply<PinShown>, ApiError> {
    may_look(&principal)?;
    let (source, tool) = named(&principal, &path)?;
    let pin = pins(&doors, &path)?.show(&source, &tool).await.map_err(|e| told(e, &path))?;
    let texts = pin.active.as_ref().zip(pin.waiting.as_ref());
    let texts = texts.and_then(|(a, w)| Some((a.received.as_ref()?, w.received.as_ref()?)));
    let (changes, more_changes) = texts.map(|(a, w)| between(a, w)).unwrap_or_default();
    Ok(Reply(PinShown {
        active: pin.active.as_ref().map(sight),
        waiting: pin.waiting.as_ref().map(sight),
        changes,
        more_changes,
        rejected: pin.rejected.clone(),
        pin: reply(&source, &tool, &pin),
    }))
}

async fn approve(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(path): Path<(String, String)>,
    Body(body): Body<WordBody>,
) -> Result<Reply<PinReply>, ApiError> {
    decide((&doors, &principal), &path, (Decision::Approve, body)).await
}

async fn reject(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(path): Path<(String, String)>,
    Body(body): Body<WordBody>,
) -> Result<Reply<PinReply>, ApiError> {
    decide((&doors, &principal), &path, (Decision::Reject, body)).await
}

async fn decide(
    (doors, principal): (&Doors, &Principal),
    path: &(String, String),
    (decision, body): (Decision, WordBody),
) -> Result<Reply<PinReply>, ApiError> {
    if !principal.may(Right::PinsWrite) {
        return Err(ApiError::lacks(Right::PinsWrite));
    }
    let (source, tool) = named(principal, path)?;
    let bad = |message: String| ApiError::new(Code::InvalidRequest, message);
    let definition = body.definition.parse::<Digest>().map_err(bad)?;
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON) {
        return Err(bad(format!("`reason` may have {REASON} characters")));
    }
    let what = (decision, definition);
    let who = (principal.caller(), body.reason);
    let pin = doors.parts.intake.decide((&source, &tool), what, who).await;
    let pin = pin.map_err(|error| told(error, path))?;
    tracing::info!(source = %source, tool = %tool, by = principal.key(), state = pin.state.as_str(), "pin decided");
    Ok(Reply(reply(&source, &tool, &pin)))
}

fn may_look(principal: &Principal) -> Result<(), ApiError> {
    if principal.may(Right::PinsWrite) || principal.may(Right::SourcesRefresh) {
        return Ok(());
    }
    let message = "the key lacks the rights `pins:write` and `sources:refresh`";
    Err(ApiError::new(Code::Forbidden, message).fix(Right::SourcesRefresh.remedy()))
}

fn pins<'a>(doors: &'a Doors, path: &(String, String)) -> Result<&'a Pins, ApiError> {
    doors.parts.intake.pins().map(AsRef::as_ref).ok_or_else(|| missing(path))
}

/// Parses the path of a pin. Sources hidden by the caller's persona have no pins.
fn named(
    principal: &Principal,
    path: &(String, String),
) -> Result<(SourceName, ToolName), ApiError> {
    let names = SourceName::new(&path.0).ok().zip(ToolName::new(&path.1).ok());
    names
        .filter(|(source, _)| principal.rights().allows_source(source.as_str()))
        .ok_or_else(|| missing(path))
}

fn missing((source, tool): &(String, String)) -> ApiError {
    let (source, tool) = (source.escape_debug(), tool.escape_debug());
    let message = format!("there is no pin of `{tool}` of source `{source}`");
    ApiError::new(Code::NotFound, message).fix("`toolkeep pin list` shows those there are")
}

fn told(error: DecideError, path: &(String, String)) -> ApiError {
    match error {
        DecideError::Missing { .. } => missing(path),
        DecideError::Undecided(why) => ApiError::new(Code::Conflict, why.to_string())
            .fix("look again: `toolkeep pin diff`, and give the definition that is shown there"),
        DecideError::Store(error) => error.into(),
        DecideError::Record(error) => error.into(),
    }
}

fn source(name: &str) -> Result<SourceName, ApiError> {
    SourceName::new(name)
        .map_err(|_| ApiError::new(Code::NotFound, format!("no source `{}`", name.escape_debug())))
}

fn states(word: Option<&str>) -> Result<Vec<PinState>, ApiError> {
    let Some(word) = word else { return Ok(PinState::ALL.to_vec()) };
    let fits = |state: &PinState| state.as_str() == word || (word == "waiting" && state.waits());
    let states: Vec<_> = PinState::ALL.into_iter().filter(fits).collect();
    if states.is_empty() {
        let known = PinState::ALL.map(PinState::as_str).join(", ");
        let message = format!("unknown state `{}`; use {known} or waiting", word.escape_debug());
        return Err(ApiError::new(Code::InvalidRequest, message));
    }
    Ok(states)
}

fn reply(source: &SourceName, tool: &ToolName, pin: &Pin) -> PinReply {
    let sight = pin.waiting.as_ref().or(pin.active.as_ref());
    PinReply {
        source: source.to_string(),
        tool: tool.to_string(),
        state: pin.state,
        definition: sight.map(|sight| sight.digest),
        since: sight.map(|sight| sight.at.to_string()),
        hidden: sight.is_some_and(|sight| sight.hidden),
        by: pin.by.clone(),
        reason: pin.reason.clone(),
    }
}

fn sight(sight: &Sighting) -> SightReply {
    SightReply {
        definition: sight.digest,
        at: sight.at.to_string(),
        hidden: sight.hidden,
        received: sight.received.clone(),
    }
}
