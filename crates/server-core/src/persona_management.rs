//! Management of personas: which sources each may use, with the right that a change needs.

use std::collections::BTreeSet;

use identity::{Persona, Principal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{ErrorCode, SourceName};

use crate::authorization_checks::{forbidden_change, require_installation_admin};
use crate::error::ApiError;
use crate::server_state::ServerState;

/// Maximum number of sources of one persona.
const MAX_SOURCES: usize = 1_000;

/// All personas of the installation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PersonaListReply {
    /// The personas, by name.
    pub personas: Vec<PersonaReply>,
}

/// A persona, and the sources that it may use.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PersonaReply {
    /// Name of the persona.
    pub name: String,
    /// Sources whose tools the persona may use, including built-in tools by their source name; null
    /// allows all.
    pub allowed_modules: Option<BTreeSet<String>>,
    /// Whether this is the persona of all users without one, except the owner.
    #[serde(rename = "default")]
    pub is_default: bool,
    /// Names in `allowed_modules` that match no source at the moment and allow nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_modules: Vec<String>,
}

/// A persona to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePersonaBody {
    /// Name: letters, digits, `_`, `.` and `-`.
    pub name: String,
    /// Sources whose tools the persona may use; none if empty.
    #[serde(default, alias = "modules")]
    pub allowed_modules: BTreeSet<String>,
}

/// A change of a persona. Absent fields stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdatePersonaBody {
    /// New sources whose tools the persona may use.
    #[serde(default, alias = "modules")]
    pub allowed_modules: Option<BTreeSet<String>>,
    /// Whether to make this the persona of all users without one.
    #[serde(default)]
    #[serde(rename = "default")]
    pub is_default: bool,
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

/// Lists all personas of the installation.
///
/// # Errors
/// [`ErrorCode::Forbidden`] for whoever may not change them.
pub fn list_personas(
    state: &ServerState,
    principal: &Principal,
) -> Result<PersonaListReply, ApiError> {
    require_persona_admin(principal)?;
    let ring = state.components.keys.key_ring();
    let personas = ring
        .personas()
        .iter_with_default()
        .map(|(persona, default)| persona_reply(state, persona, default));
    Ok(PersonaListReply { personas: personas.collect() })
}

/// Creates a persona of these sources.
///
/// # Errors
/// [`ErrorCode::Forbidden`]; [`ErrorCode::Conflict`] for a name that is taken; an error for an invalid one.
pub async fn create_persona(
    state: &ServerState,
    principal: &Principal,
    body: CreatePersonaBody,
) -> Result<PersonaReply, ApiError> {
    require_persona_admin(principal)?;
    SourceName::new(&body.name)
        .map_err(|fault| ApiError::new(ErrorCode::InvalidRequest, fault.to_string()))?;
    let modules = validate_sources(body.allowed_modules)?;
    let persona = Persona { name: body.name, allowed_modules: Some(modules) };
    state.components.keys.put_persona(&persona, true).await?;
    tracing::info!(persona = persona.name, by = principal.key_id(), "persona created");
    Ok(persona_reply(state, &persona, false))
}

/// Changes the sources of a persona, or makes it the default.
///
/// # Errors
/// [`ErrorCode::Forbidden`]; [`ErrorCode::NotFound`]; an error for invalid names of sources.
pub async fn update_persona(
    state: &ServerState,
    principal: &Principal,
    name: &str,
    change: UpdatePersonaBody,
) -> Result<PersonaReply, ApiError> {
    require_persona_admin(principal)?;
    let missing = || {
        ApiError::new(ErrorCode::NotFound, format!("no persona `{}`", name.escape_debug()))
            .with_help("run `toolkeep persona list` to see all personas")
    };
    let keys = &state.components.keys;
    let mut persona = keys.key_ring().personas().find_persona(name).cloned().ok_or_else(missing)?;
    keys.key_ring()
        .check_persona_change(name, principal)
        .map_err(|fault| forbidden_change(&fault))?;
    if let Some(modules) = change.allowed_modules {
        persona.allowed_modules = Some(validate_sources(modules)?);
        keys.put_persona(&persona, false).await?;
    }
    if change.is_default {
        keys.set_default_persona(name).await?;
    }
    tracing::info!(persona = persona.name, by = principal.key_id(), "persona changed");
    let ring = keys.key_ring();
    let default =
        ring.personas().iter_with_default().any(|(other, default)| default && other.name == name);
    Ok(persona_reply(state, &persona, default))
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
