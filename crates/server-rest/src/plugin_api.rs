//! `/v1/plugins`: plugin folders that can be reloaded, and their settings.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::plugin_admin::{PluginAdmin, PluginError, PluginStatus, PluginTool};
use tool::{ErrorCode, Json, Problem};

use server_core::authorization_checks::require_right;
use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/v1/plugins",
            "List the plugins with their tools and state",
            get(list_plugins),
        )
        .with_reply::<PluginListReply>(),
        ApiRoute::new(
            "post",
            "/v1/plugins/reload",
            "Reload all plugins, or one",
            post(reload_plugins),
        )
        .with_body::<ReloadBody>()
        .with_reply::<ReloadReply>(),
        ApiRoute::new(
            "get",
            "/v1/plugins/{name}/settings",
            "Get the settings of a plugin",
            get(show_settings),
        )
        .with_reply::<SettingsReply>(),
        ApiRoute::new(
            "post",
            "/v1/plugins/{name}/settings",
            "Change settings of a plugin; `null` resets a setting",
            post(update_settings),
        )
        .with_body::<SettingsBody>()
        .with_reply::<SettingsReply>(),
    ]
}

#[derive(Debug, Serialize, JsonSchema)]
struct PluginListReply {
    plugins: Vec<PluginReply>,
    /// Plugins whose directory or settings changed since the last reload; requires the right
    /// `sources:refresh`.
    changed: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PluginReply {
    name: String,
    /// Source that serves the plugin's tools.
    source: String,
    /// Directory of the plugin; requires the right `sources:refresh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// Kind: `python`, `command` or `mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    description: String,
    enabled: bool,
    /// Hash of the directory's content in the active version.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[schemars(with = "Vec<Value>")]
    tools: Vec<PluginTool>,
    /// Problems of the plugin; requires the right `sources:refresh`.
    #[schemars(with = "Vec<Value>")]
    problems: Vec<Problem>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReloadBody {
    /// Plugin to reload; all if absent.
    #[serde(default)]
    plugin: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ReloadReply {
    /// Plugins that were added, removed or have a new version.
    reloaded: Vec<String>,
    /// Plugins whose change was rejected.
    failed: Vec<String>,
    plugins: Vec<PluginReply>,
}

/// Settings to change; absent ones stay unchanged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
struct SettingsBody(
    /// `enabled`, `tool_overrides` by tool name (`{"enabled": false}`), and `custom_config` with
    /// the plugin's own settings.
    Value,
);

#[derive(Debug, Serialize, JsonSchema)]
struct SettingsReply {
    plugin: String,
    /// Effective settings with the defaults of the plugin's schema: `enabled`, `tool_overrides`,
    /// `custom_config`.
    #[schemars(with = "Value")]
    settings: Json,
}

fn plugin_registry(state: &ServerState) -> Result<&dyn PluginAdmin, ApiError> {
    let missing = || ApiError::new(ErrorCode::NotFound, "this server has no plugins");
    state.components.plugins.as_deref().ok_or_else(missing)
}

/// Checks that the caller is a person: settings may contain secrets, and an agent does not decide
/// which plugins are enabled.
fn require_person(principal: &Principal) -> Result<(), ApiError> {
    // The right to refresh sources is the right to change running plugins.
    require_right(principal, Right::SourcesRefresh)?;
    if principal.caller().is_agent {
        return Err(ApiError::new(
            ErrorCode::Forbidden,
            "only a person can read and change settings",
        ));
    }
    Ok(())
}

fn plugin_error(fault: &PluginError) -> ApiError {
    ApiError::new(fault.error_code(), fault.to_string())
}

fn check_visible(state: &ServerState, principal: &Principal, name: &str) -> Result<(), ApiError> {
    let checked = state.components.gateway.check_plugin(principal, plugin_registry(state)?, name);
    checked.map_err(|fault| plugin_error(&fault))
}

async fn list_plugins(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<PluginListReply>, ApiError> {
    let changed =
        state.components.gateway.changed_plugins(&principal, plugin_registry(&state)?).await;
    Ok(Reply(PluginListReply { plugins: visible_plugins(&state, &principal)?, changed }))
}

async fn reload_plugins(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<ReloadBody>,
) -> Result<Reply<ReloadReply>, ApiError> {
    let (gateway, only) = (&state.components.gateway, body.plugin.as_deref());
    let done = gateway.reload_plugins(&principal, plugin_registry(&state)?, only).await;
    let done = done.map_err(|failure| ApiError::new(failure.code, failure.message))?;
    let plugins = visible_plugins(&state, &principal)?;
    Ok(Reply(ReloadReply { reloaded: done.reloaded, failed: done.failed, plugins }))
}

async fn show_settings(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Reply<SettingsReply>, ApiError> {
    require_person(&principal)?;
    check_visible(&state, &principal, &name)?;
    let settings =
        plugin_registry(&state)?.plugin_settings(&name).map_err(|fault| plugin_error(&fault))?;
    Ok(Reply(SettingsReply { plugin: name, settings }))
}

async fn update_settings(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    DecodedBody(SettingsBody(body)): DecodedBody<SettingsBody>,
) -> Result<Reply<SettingsReply>, ApiError> {
    require_person(&principal)?;
    check_visible(&state, &principal, &name)?;
    let settings = plugin_registry(&state)?
        .update_settings(&name, &Json::encode(&body))
        .await
        .map_err(|fault| plugin_error(&fault))?;
    Ok(Reply(SettingsReply { plugin: name, settings }))
}

/// Lists the visible plugins. Folders and problems are only included for callers who may repair
/// them.
fn visible_plugins(
    server_state: &ServerState,
    principal: &Principal,
) -> Result<Vec<PluginReply>, ApiError> {
    let all = principal.has_right(Right::SourcesRefresh);
    let states =
        server_state.components.gateway.visible_plugins(principal, plugin_registry(server_state)?);
    let reply = |state: PluginStatus| PluginReply {
        tools: state.tools,
        source: state.source,
        folder: all.then_some(state.folder),
        kind: state.kind,
        version: state.version,
        description: state.description,
        enabled: state.is_enabled,
        content: state.content_digest.map(|content| content.to_string()),
        problems: state.problems,
        name: state.name,
    };
    Ok(states.into_iter().map(reply).collect())
}
