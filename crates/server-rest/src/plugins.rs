//! `/v1/plugins`: plugin folders that can be reloaded, and their settings.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::plugin::{PluginFault, PluginState, PluginTool, Plugins};
use tool::{Code, Json, Problem};

use server_core::body::Body;
use server_core::error::ApiError;
use server_core::route::Route;
use server_core::state::Doors;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/plugins", "The plugins, their tools and how they stand", get(list))
            .reply::<PluginsReply>(),
        Route::new(
            "post",
            "/v1/plugins/reload",
            "Look at all plugins now, or at one",
            post(reload),
        )
        .body::<ReloadBody>()
        .reply::<ReloadReply>(),
        Route::new("get", "/v1/plugins/{name}/settings", "The settings of a plugin", get(settings))
            .reply::<SettingsReply>(),
        Route::new(
            "post",
            "/v1/plugins/{name}/settings",
            "Change settings of a plugin; `null` takes one back",
            post(set_settings),
        )
        .body::<SettingsBody>()
        .reply::<SettingsReply>(),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct PluginsReply {
    plugins: Vec<PluginReply>,
    /// Those whose folder or settings changed and were not looked at yet; for keys with the right
    /// `sources:refresh`.
    changed: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PluginReply {
    name: String,
    /// The source that offers its tools.
    source: String,
    /// Where it is; for keys with the right `sources:refresh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// `python`, `command` or `mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    description: String,
    enabled: bool,
    /// The hash of the folder's content that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[schemars(with = "Vec<Value>")]
    tools: Vec<PluginTool>,
    /// What is wrong with it; for keys with the right `sources:refresh`.
    #[schemars(with = "Vec<Value>")]
    problems: Vec<Problem>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReloadBody {
    /// Only this one.
    #[serde(default)]
    plugin: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ReloadReply {
    /// Those that have a new version now, came, or went.
    reloaded: Vec<String>,
    /// Those whose change was not taken.
    failed: Vec<String>,
    plugins: Vec<PluginReply>,
}

/// What is set; what is not named stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
struct SettingsBody(
    /// `enabled`, `tool_overrides` by name of a tool (`{"enabled": false}`), and `custom_config` with
    /// values of the plugin's own settings.
    Value,
);

#[derive(Debug, Serialize, JsonSchema)]
struct SettingsReply {
    plugin: String,
    /// As they count, with the defaults of its schema: `enabled`, `tool_overrides`, `custom_config`.
    #[schemars(with = "Value")]
    settings: Json,
}

fn plugins(doors: &Doors) -> Result<&dyn Plugins, ApiError> {
    let missing = || ApiError::new(Code::NotFound, "this server has no plugins");
    doors.parts.plugins.as_deref().ok_or_else(missing)
}

/// Checks the right to change running plugins, which is the right to refresh sources.
fn may(principal: &Principal) -> Result<(), ApiError> {
    if principal.may(Right::SourcesRefresh) {
        return Ok(());
    }
    Err(ApiError::lacks(Right::SourcesRefresh))
}

/// Checks that the caller is a person: settings may contain secrets, and an agent does not decide
/// which plugins are enabled.
fn person(principal: &Principal) -> Result<(), ApiError> {
    may(principal)?;
    if principal.caller().agent {
        return Err(ApiError::new(Code::Forbidden, "settings are a person's to see and to change"));
    }
    Ok(())
}

fn told(fault: &PluginFault) -> ApiError {
    ApiError::new(fault.code(), fault.to_string())
}

fn visible(doors: &Doors, principal: &Principal, name: &str) -> Result<(), ApiError> {
    let checked = doors.parts.gateway.check_plugin(principal, plugins(doors)?, name);
    checked.map_err(|fault| told(&fault))
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<PluginsReply>, ApiError> {
    let changed = doors.parts.gateway.changed_plugins(&principal, plugins(&doors)?).await;
    Ok(Reply(PluginsReply { plugins: seen(&doors, &principal)?, changed }))
}

async fn reload(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<ReloadBody>,
) -> Result<Reply<ReloadReply>, ApiError> {
    let (gateway, only) = (&doors.parts.gateway, body.plugin.as_deref());
    let done = gateway.reload_plugins(&principal, plugins(&doors)?, only).await;
    let done = done.map_err(|failure| ApiError::new(failure.code, failure.message))?;
    let plugins = seen(&doors, &principal)?;
    Ok(Reply(ReloadReply { reloaded: done.reloaded, failed: done.failed, plugins }))
}

async fn settings(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Reply<SettingsReply>, ApiError> {
    person(&principal)?;
    visible(&doors, &principal, &name)?;
    let settings = plugins(&doors)?.settings(&name).map_err(|fault| told(&fault))?;
    Ok(Reply(SettingsReply { plugin: name, settings }))
}

async fn set_settings(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    Body(SettingsBody(body)): Body<SettingsBody>,
) -> Result<Reply<SettingsReply>, ApiError> {
    person(&principal)?;
    visible(&doors, &principal, &name)?;
    let settings = plugins(&doors)?
        .set_settings(&name, &Json::of(&body))
        .await
        .map_err(|fault| told(&fault))?;
    Ok(Reply(SettingsReply { plugin: name, settings }))
}

/// Lists the visible plugins. Folders and problems are only included for callers who may repair
/// them.
fn seen(doors: &Doors, principal: &Principal) -> Result<Vec<PluginReply>, ApiError> {
    let all = principal.may(Right::SourcesRefresh);
    let states = doors.parts.gateway.visible_plugins(principal, plugins(doors)?);
    let reply = |state: PluginState| PluginReply {
        tools: state.tools,
        source: state.source,
        folder: all.then_some(state.folder),
        kind: state.kind,
        version: state.version,
        description: state.description,
        enabled: state.enabled,
        content: state.content.map(|content| content.to_string()),
        problems: state.problems,
        name: state.name,
    };
    Ok(states.into_iter().map(reply).collect())
}
