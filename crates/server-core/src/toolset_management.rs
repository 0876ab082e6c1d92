//! Management of toolsets: their definitions, what of them waits for their owner, and who may know
//! what.

mod toolset_replies;

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::pin::{DefinitionChange, diff_definitions};
use catalog::{Pin, Toolset};
use identity::{Principal, Right};
pub use intake::ToolsetItemState;
use intake::{ToolsetError, ToolsetItem, ToolsetRecord, ToolsetRegistry, ToolsetReview};
use policy::{ToolsetDefinition, ToolsetEntry};
use tool::{CallerType, Digest, ErrorCode, Json, SourceName};

use crate::authorization_checks::require_right;
use crate::error::ApiError;
use crate::page_query::run_blocking;
use crate::server_state::ServerState;
use crate::source_addition::require_source_admin;
pub use toolset_replies::{
    AcceptToolsetBody, PutToolsetBody, ToolsetDetailReply, ToolsetEntryBody, ToolsetItemBody,
    ToolsetItemReply, ToolsetListReply, ToolsetOwnerReply, ToolsetReply,
};

/// Maximum number of changed items whose differences a review contains.
const MAX_COMPARED_ITEMS: usize = 100;

/// Lists the toolsets that the caller may use; all, for those who may change or accept them.
pub async fn list_toolsets(
    state: &ServerState,
    principal: &Principal,
) -> Result<ToolsetListReply, ApiError> {
    let granted = granted_toolsets(state, principal);
    let mut replies: BTreeMap<String, ToolsetReply> = granted
        .values()
        .map(|toolset| (toolset.name.to_string(), toolset_reply(state, principal, toolset)))
        .collect();
    for (record, review) in owned_toolsets(state, principal).await? {
        let name = record.definition.name.to_string();
        let reply = replies.entry(name).or_insert_with(|| unusable_reply(&record));
        reply.owner = Some(owner_reply(&record, &review));
    }
    Ok(ToolsetListReply { toolsets: replies.into_values().collect() })
}

/// Counts the items that wait for an owner, by the names of their toolsets. Callers who may neither
/// change nor accept toolsets get none.
///
/// # Errors
/// If the server stops.
pub async fn count_waiting_items(
    state: &ServerState,
    principal: &Principal,
) -> Result<Vec<(String, usize)>, ApiError> {
    let owned = owned_toolsets(state, principal).await?.into_iter();
    let counts =
        owned.map(|(record, review)| (record.definition.name.to_string(), review.pending_count()));
    Ok(counts.filter(|(_, count)| *count > 0).collect())
}

/// The definitions of all toolsets with their reviews; none for callers who own no toolsets.
async fn owned_toolsets(
    state: &ServerState,
    principal: &Principal,
) -> Result<Vec<(ToolsetRecord, ToolsetReview)>, ApiError> {
    let registry = state.components.intake.toolset_registry().filter(|_| may_own(principal));
    let mut owned = Vec::new();
    for record in registry.map(ToolsetRegistry::list_toolsets).into_iter().flatten() {
        owned.extend(read_review(state, record.definition.name.as_str()).await?);
    }
    Ok(owned)
}

/// Returns a toolset that the caller may use, or owns.
///
/// # Errors
/// [`ErrorCode::NotFound`], the same for one that does not exist and one that is not granted.
pub async fn show_toolset(
    state: &ServerState,
    principal: &Principal,
    name: &str,
) -> Result<ToolsetDetailReply, ApiError> {
    let granted = granted_toolsets(state, principal);
    let usable = granted.get(name).map(|toolset| toolset_reply(state, principal, toolset));
    let review = if may_own(principal) { read_review(state, name).await? } else { None };
    let Some((record, review)) = review else {
        let toolset = usable.ok_or_else(|| no_such_toolset(name))?;
        return Ok(ToolsetDetailReply { toolset, items: None, revision: None });
    };
    let mut toolset = usable.unwrap_or_else(|| unusable_reply(&record));
    toolset.owner = Some(owner_reply(&record, &review));
    let rights = principal.rights_class();
    let known = review.items.into_iter().filter(|it| rights.allows_source(it.source.as_str()));
    let (mut items, mut compared) = (Vec::new(), 0);
    for item in known {
        let is_compared = item.state == ToolsetItemState::Changed && compared < MAX_COMPARED_ITEMS;
        compared += usize::from(is_compared);
        items.push(item_reply(state, item, is_compared).await);
    }
    Ok(ToolsetDetailReply { toolset, items: Some(items), revision: Some(review.revision) })
}

/// Creates a toolset, which accepts what its patterns select now, or changes the definition of one,
/// which accepts nothing.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to write sources; [`ErrorCode::Conflict`] for a name or
/// an item's name that is taken; an error for an invalid definition.
pub async fn put_toolset(
    state: &ServerState,
    principal: &Principal,
    (name, body): (&str, PutToolsetBody),
) -> Result<ToolsetDetailReply, ApiError> {
    require_source_admin(principal)?;
    let name = SourceName::new(name)
        .map_err(|error| ApiError::new(ErrorCode::InvalidRequest, error.to_string()))?;
    let entries = |list: Vec<ToolsetEntryBody>| list.into_iter().map(Into::into).collect();
    let definition = ToolsetDefinition {
        name: name.clone(),
        title: body.title,
        description: body.description,
        roles: body.roles,
        tools: entries(body.tools),
        prompts: entries(body.prompts),
        resources: entries(body.resources),
        skills: entries(body.skills),
    };
    // Who may not review definitions creates a toolset that waits for somebody who may.
    let may_accept =
        principal.has_right(Right::PinsWrite) && require_whole_catalog(principal).is_ok();
    let by = (principal.caller(), may_accept);
    let is_new = state.components.intake.put_toolset(definition, by).await.map_err(api_error)?;
    tracing::info!(toolset = %name, is_new, by = principal.key_id(), "toolset set");
    show_toolset(state, principal, name.as_str()).await
}

/// Removes a toolset, and lists the others. Keys that are bound to it see nothing from then on.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to write sources; [`ErrorCode::NotFound`];
/// [`ErrorCode::Conflict`] for one of the configuration file.
pub async fn remove_toolset(
    state: &ServerState,
    principal: &Principal,
    name: &str,
) -> Result<ToolsetListReply, ApiError> {
    require_source_admin(principal)?;
    let removed = state.components.intake.remove_toolset(name, principal.caller()).await;
    removed.map_err(api_error)?;
    tracing::info!(toolset = name, by = principal.key_id(), "toolset removed");
    list_toolsets(state, principal).await
}

/// Accepts the items of a toolset as the caller reviewed them.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to review definitions; [`ErrorCode::NotFound`];
/// [`ErrorCode::Conflict`] if the items changed meanwhile.
pub async fn accept_toolset(
    state: &ServerState,
    principal: &Principal,
    (name, body): (&str, AcceptToolsetBody),
) -> Result<ToolsetDetailReply, ApiError> {
    require_right(principal, Right::PinsWrite)?;
    require_whole_catalog(principal)?;
    let revision = body.revision.parse::<Digest>();
    let revision = revision.map_err(|message| ApiError::new(ErrorCode::InvalidRequest, message))?;
    let caller = principal.caller();
    let accepted = state.components.intake.accept_toolset(name, revision, caller).await;
    accepted.map_err(api_error)?;
    tracing::info!(toolset = name, by = principal.key_id(), "toolset accepted");
    show_toolset(state, principal, name).await
}

/// Checks that the caller knows a toolset, to bind a key to it.
///
/// # Errors
/// [`ErrorCode::NotFound`].
pub fn require_known_toolset(
    state: &ServerState,
    principal: &Principal,
    name: Option<&String>,
) -> Result<(), ApiError> {
    let Some(name) = name else { return Ok(()) };
    let is_admin = principal.has_right(Right::KeysWrite) || may_own(principal);
    let is_known = if is_admin {
        state.components.gateway.has_toolset(name)
    } else {
        granted_toolsets(state, principal).contains_key(name.as_str())
    };
    if is_known { Ok(()) } else { Err(no_such_toolset(name)) }
}

/// The error for a toolset that does not exist, or that the caller may not use.
pub fn no_such_toolset(name: &str) -> ApiError {
    let shown: String = name.chars().take(tool::names::MAX_NAME_BYTES).collect();
    ApiError::new(ErrorCode::NotFound, format!("no toolset `{}`", shown.escape_debug()))
        .with_help("run `toolkeep toolset list` to see the toolsets that you may use")
}

/// Whether a caller knows the definitions of all toolsets: to change them, or to review their items.
fn may_own(principal: &Principal) -> bool {
    principal.has_right(Right::PinsWrite) || principal.has_right(Right::SourcesWrite)
}

/// A reviewer who does not see all sources cannot accept their items.
fn require_whole_catalog(principal: &Principal) -> Result<(), ApiError> {
    let limited = principal.persona().is_some_and(|persona| persona.allowed_modules.is_some());
    if !limited {
        return Ok(());
    }
    let message = "your own persona is limited to some modules, so you cannot accept toolsets";
    Err(ApiError::new(ErrorCode::Forbidden, message))
}

fn granted_toolsets(
    state: &ServerState,
    principal: &Principal,
) -> BTreeMap<SourceName, Arc<Toolset>> {
    state.components.gateway.granted_toolsets(principal.rights_class()).into_iter().collect()
}

/// Reviews a toolset on a blocking thread: its patterns are tried on every item.
async fn read_review(
    state: &ServerState,
    name: &str,
) -> Result<Option<(ToolsetRecord, ToolsetReview)>, ApiError> {
    let (intake, name) = (Arc::clone(&state.components.intake), name.to_owned());
    run_blocking(move || intake.review_toolset(&name)).await
}

fn toolset_reply(state: &ServerState, principal: &Principal, toolset: &Toolset) -> ToolsetReply {
    let name = toolset.name.to_string();
    let bound = principal.with_restrictions(&identity::RequestRestrictions::to_toolset(&*name));
    let view = state.components.gateway.view_for(&bound, CallerType::Direct);
    ToolsetReply {
        path: format!("/mcp/{name}"),
        name,
        title: toolset.title.clone(),
        description: toolset.description.clone(),
        tools: Some(view.list_tools().count()),
        owner: None,
    }
}

/// A toolset that its owner may not use.
fn unusable_reply(record: &ToolsetRecord) -> ToolsetReply {
    let definition = &record.definition;
    ToolsetReply {
        name: definition.name.to_string(),
        title: definition.title.clone(),
        description: definition.description.clone(),
        path: format!("/mcp/{}", definition.name),
        tools: None,
        owner: None,
    }
}

fn owner_reply(record: &ToolsetRecord, review: &ToolsetReview) -> ToolsetOwnerReply {
    let definition = &record.definition;
    let entries = |list: &[ToolsetEntry]| list.iter().map(Into::into).collect();
    ToolsetOwnerReply {
        configured: record.is_configured,
        roles: definition.roles.clone(),
        tools: entries(&definition.tools),
        prompts: entries(&definition.prompts),
        resources: entries(&definition.resources),
        skills: entries(&definition.skills),
        waiting: review.pending_count(),
        accepted_by: record.accepted_by.clone(),
        accepted_at: record.accepted_at.map(|at| at.to_string()),
    }
}

async fn item_reply(state: &ServerState, item: ToolsetItem, is_compared: bool) -> ToolsetItemReply {
    let (changes, more_changes) = match item.accepted.filter(|_| is_compared) {
        Some(accepted) => item_changes(state, &item, accepted).await,
        None => (Vec::new(), 0),
    };
    let waits = matches!(item.state, ToolsetItemState::Added | ToolsetItemState::Changed);
    let received = item.raw_definition.filter(|_| waits);
    let escaped = received.map(|json| json.escape_invisible_in_definition().unwrap_or(json));
    ToolsetItemReply {
        kind: item.kind.as_str(),
        source: item.source.to_string(),
        item: item.own_name,
        pattern: item.pattern,
        state: item.state,
        definition: item.current,
        accepted: item.accepted,
        received: escaped,
        changes,
        more_changes,
    }
}

/// Compares a changed item with the accepted definition, whose text its pin stores.
async fn item_changes(
    state: &ServerState,
    item: &ToolsetItem,
    accepted: Digest,
) -> (Vec<DefinitionChange>, usize) {
    let Some(pins) = state.components.intake.pin_registry() else { return Default::default() };
    let Ok(pin) = pins.get_pin(&item.source, &item.pin_name).await else {
        return Default::default();
    };
    let texts = accepted_text(&pin, accepted).zip(item.raw_definition.as_ref());
    texts.map(|(before, after)| diff_definitions(before, after)).unwrap_or_default()
}

fn accepted_text(pin: &Pin, accepted: Digest) -> Option<&Json> {
    let known = pin.active.iter().chain(&pin.pending).chain(&pin.former);
    let mut known = known.filter(|definition| definition.digest == accepted);
    known.find_map(|definition| definition.raw_definition.as_ref())
}

fn api_error(error: ToolsetError) -> ApiError {
    let message = error.to_string();
    match error {
        ToolsetError::Definition(fault) => {
            ApiError::new(ErrorCode::InvalidRequest, message).with_help(fault.help)
        }
        ToolsetError::NotFound(name) => no_such_toolset(&name),
        ToolsetError::Configured(_) => ApiError::new(ErrorCode::Conflict, message)
            .with_help("change it in the configuration file"),
        ToolsetError::SourceName(_) => ApiError::new(ErrorCode::Conflict, message)
            .with_help("choose another name: both would have the address `/mcp/NAME`"),
        ToolsetError::NameTaken { .. } => ApiError::new(ErrorCode::Conflict, message)
            .with_help("choose another name, or leave the other item out"),
        ToolsetError::Changed(_) => ApiError::new(ErrorCode::Conflict, message)
            .with_help("run `toolkeep toolset show` again and accept what it shows"),
        ToolsetError::TooManyItems(_) | ToolsetError::TooMany => {
            ApiError::new(ErrorCode::TooLarge, message)
        }
        ToolsetError::NoStore => ApiError::new(ErrorCode::NotFound, message),
        ToolsetError::Store(error) => error.into(),
        ToolsetError::Record(error) => error.into(),
    }
}
