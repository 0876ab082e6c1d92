//! `/v1/personas`: personas and the sources that each may use.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::{Persona, Principal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, SourceName};

use super::standing::{forbidden, of_installation};
use server_core::body::Body;
use server_core::error::ApiError;
use server_core::route::Route;
use server_core::state::Doors;

/// Maximum number of sources of one persona.
const MODULES: usize = 1_000;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/personas", "The personas", get(list)).reply::<PersonasReply>(),
        Route::new("post", "/v1/personas", "Make a persona", post(create))
            .body::<NewPersona>()
            .reply::<PersonaReply>(),
        Route::new("post", "/v1/personas/{name}", "Change a persona", post(change))
            .body::<Change>()
            .reply::<PersonaReply>(),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct PersonasReply {
    personas: Vec<PersonaReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PersonaReply {
    name: String,
    /// The sources whose tools it may use, the built-ins among them by their name; null is no limit.
    allowed_modules: Option<BTreeSet<String>>,
    /// Whether it is that of all who have none, the owner apart.
    default: bool,
    /// The names among `allowed_modules` that no source has now: they allow nothing until one has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown_modules: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewPersona {
    /// Its name: letters, digits, `_`, `.` and `-`.
    name: String,
    /// The sources whose tools it may use; none where empty.
    #[serde(default, alias = "modules")]
    allowed_modules: BTreeSet<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Change {
    /// The sources whose tools it may use from now on.
    #[serde(default, alias = "modules")]
    allowed_modules: Option<BTreeSet<String>>,
    /// True makes it that of all who have none.
    #[serde(default)]
    default: bool,
}

/// Checks the right to change personas; a caller limited to some sources may not.
fn allowed(principal: &Principal) -> Result<(), ApiError> {
    of_installation(principal)?;
    if principal.persona().is_some_and(|persona| persona.allowed_modules.is_some()) {
        let told = "your own persona is limited to some modules, so you cannot change personas";
        return Err(ApiError::new(Code::Forbidden, told));
    }
    Ok(())
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<PersonasReply>, ApiError> {
    allowed(&principal)?;
    let ring = doors.parts.keys.ring();
    let personas = ring.personas().all().map(|(persona, default)| reply(&doors, persona, default));
    Ok(Reply(PersonasReply { personas: personas.collect() }))
}

async fn create(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<NewPersona>,
) -> Result<Reply<PersonaReply>, ApiError> {
    allowed(&principal)?;
    SourceName::new(&body.name)
        .map_err(|fault| ApiError::new(Code::InvalidRequest, fault.to_string()))?;
    let modules = checked(body.allowed_modules)?;
    let persona = Persona { name: body.name, allowed_modules: Some(modules) };
    doors.parts.keys.keep_persona(&persona, true).await?;
    tracing::info!(persona = persona.name, by = principal.key(), "persona made");
    Ok(Reply(reply(&doors, &persona, false)))
}

async fn change(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    Body(change): Body<Change>,
) -> Result<Reply<PersonaReply>, ApiError> {
    allowed(&principal)?;
    let missing = || {
        ApiError::new(Code::NotFound, format!("no persona `{}`", name.escape_debug()))
            .fix("see `toolkeep persona list`")
    };
    let keys = &doors.parts.keys;
    let mut persona = keys.ring().personas().get(&name).cloned().ok_or_else(missing)?;
    keys.ring().may_change_persona(&name, &principal).map_err(|fault| forbidden(&fault))?;
    if let Some(modules) = change.allowed_modules {
        persona.allowed_modules = Some(checked(modules)?);
        keys.keep_persona(&persona, false).await?;
    }
    if change.default {
        keys.set_default_persona(&name).await?;
    }
    tracing::info!(persona = persona.name, by = principal.key(), "persona changed");
    let ring = keys.ring();
    let default = ring.personas().all().any(|(other, default)| default && other.name == name);
    Ok(Reply(reply(&doors, &persona, default)))
}

/// Validates the names and the number of sources.
fn checked(modules: BTreeSet<String>) -> Result<BTreeSet<String>, ApiError> {
    if modules.len() > MODULES {
        let told = format!("{} modules are too many; {MODULES} are allowed", modules.len());
        return Err(ApiError::new(Code::InvalidRequest, told));
    }
    for module in &modules {
        if module.trim().is_empty() {
            let error = ApiError::new(Code::InvalidRequest, "a module's name is empty");
            return Err(error.fix("leave the modules out for none"));
        }
        SourceName::new(module)
            .map_err(|fault| ApiError::new(Code::InvalidRequest, fault.to_string()))?;
    }
    Ok(modules)
}

fn reply(doors: &Doors, persona: &Persona, default: bool) -> PersonaReply {
    let allowed_modules = persona.allowed_modules.clone();
    let catalog = doors.parts.intake.catalog();
    let unknown = |name: &&String| catalog.shelf(name.as_str()).is_none();
    let unknown_modules = allowed_modules.iter().flatten().filter(unknown).cloned().collect();
    PersonaReply { name: persona.name.clone(), allowed_modules, default, unknown_modules }
}
