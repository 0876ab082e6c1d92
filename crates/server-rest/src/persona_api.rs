//! `/v1/personas`: personas and the sources that each may use.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::{Persona, Principal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{ErrorCode, SourceName};

use server_core::authorization_checks::{forbidden_change, require_installation_admin};
use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

/// Maximum number of sources of one persona.
const MAX_SOURCES: usize = 1_000;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/personas", "List the personas", get(list_personas))
            .with_reply::<PersonaListReply>(),
        ApiRoute::new("post", "/v1/personas", "Create a persona", post(create_persona))
            .with_body::<CreatePersonaBody>()
            .with_reply::<PersonaReply>(),
        ApiRoute::new("post", "/v1/personas/{name}", "Change a persona", post(update_persona))
            .with_body::<UpdatePersonaBody>()
            .with_reply::<PersonaReply>(),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct PersonaListReply {
    personas: Vec<PersonaReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PersonaReply {
    name: String,
    /// Sources whose tools the persona may use, including built-in tools by their source name; null
    /// allows all.
    allowed_modules: Option<BTreeSet<String>>,
    /// Whether this is the persona of all users without one, except the owner.
    #[serde(rename = "default")]
    is_default: bool,
    /// Names in `allowed_modules` that match no source at the moment and allow nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown_modules: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreatePersonaBody {
    /// Name: letters, digits, `_`, `.` and `-`.
    name: String,
    /// Sources whose tools the persona may use; none if empty.
    #[serde(default, alias = "modules")]
    allowed_modules: BTreeSet<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdatePersonaBody {
    /// New sources whose tools the persona may use.
    #[serde(default, alias = "modules")]
    allowed_modules: Option<BTreeSet<String>>,
    /// Whether to make this the persona of all users without one.
    #[serde(default)]
    #[serde(rename = "default")]
    is_default: bool,
}

/// Checks the right to change personas; a caller limited to some sources may not.
fn require_persona_admin(principal: &Principal) -> Result<(), ApiError> {
    require_installation_admin(principal)?;
    if principal.persona().is_some_and(|persona| persona.allowed_modules.is_some()) {
        let message = "your own persona is limited to some modules, so you cannot change personas";
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    Ok(())
}

async fn list_personas(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<PersonaListReply>, ApiError> {
    require_persona_admin(&principal)?;
    let ring = state.components.keys.key_ring();
    let personas = ring
        .personas()
        .iter_with_default()
        .map(|(persona, default)| persona_reply(&state, persona, default));
    Ok(Reply(PersonaListReply { personas: personas.collect() }))
}

async fn create_persona(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<CreatePersonaBody>,
) -> Result<Reply<PersonaReply>, ApiError> {
    require_persona_admin(&principal)?;
    SourceName::new(&body.name)
        .map_err(|fault| ApiError::new(ErrorCode::InvalidRequest, fault.to_string()))?;
    let modules = validate_sources(body.allowed_modules)?;
    let persona = Persona { name: body.name, allowed_modules: Some(modules) };
    state.components.keys.put_persona(&persona, true).await?;
    tracing::info!(persona = persona.name, by = principal.key_id(), "persona created");
    Ok(Reply(persona_reply(&state, &persona, false)))
}

async fn update_persona(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    DecodedBody(change): DecodedBody<UpdatePersonaBody>,
) -> Result<Reply<PersonaReply>, ApiError> {
    require_persona_admin(&principal)?;
    let missing = || {
        ApiError::new(ErrorCode::NotFound, format!("no persona `{}`", name.escape_debug()))
            .with_help("run `toolkeep persona list` to see all personas")
    };
    let keys = &state.components.keys;
    let mut persona =
        keys.key_ring().personas().find_persona(&name).cloned().ok_or_else(missing)?;
    keys.key_ring()
        .check_persona_change(&name, &principal)
        .map_err(|fault| forbidden_change(&fault))?;
    if let Some(modules) = change.allowed_modules {
        persona.allowed_modules = Some(validate_sources(modules)?);
        keys.put_persona(&persona, false).await?;
    }
    if change.is_default {
        keys.set_default_persona(&name).await?;
    }
    tracing::info!(persona = persona.name, by = principal.key_id(), "persona changed");
    let ring = keys.key_ring();
    let default =
        ring.personas().iter_with_default().any(|(other, default)| default && other.name == name);
    Ok(Reply(persona_reply(&state, &persona, default)))
}

/// Validates the names and the number of sources.
fn validate_sources(modules: BTreeSet<String>) -> Result<BTreeSet<String>, ApiError> {
    if modules.len() > MAX_SOURCES {
        let message = format!(
            "{} modules are too many; the maximum is \
            {MAX_SOURCES}",
            modules.len()
        );
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    for module in &modules {
        if module.trim().is_empty() {
            let error = ApiError::new(ErrorCode::InvalidRequest, "a module's name is empty");
            return Err(error.with_help("omit the modules to allow none"));
        }
        SourceName::new(module)
            .map_err(|fault| ApiError::new(ErrorCode::InvalidRequest, fault.to_string()))?;
    }
    Ok(modules)
}

fn persona_reply(state: &ServerState, persona: &Persona, default: bool) -> PersonaReply {
    let allowed_modules = persona.allowed_modules.clone();
    let catalog = state.components.intake.catalog();
    let unknown = |name: &&String| catalog.find_source(name.as_str()).is_none();
    let unknown_modules = allowed_modules.iter().flatten().filter(unknown).cloned().collect();
    PersonaReply {
        name: persona.name.clone(),
        allowed_modules,
        is_default: default,
        unknown_modules,
    }
}
