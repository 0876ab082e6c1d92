//! Management of plugins: their list, reloads and settings, with the rights that each needs.

use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tool::plugin_admin::{PluginAdmin, PluginError, PluginStatus, PluginTool};
use tool::{ErrorCode, Json, Problem};

use crate::authorization_checks::require_right;
use crate::error::ApiError;
use crate::server_state::ServerState;

/// The plugins that a caller may know.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PluginListReply {
    /// The plugins.
    pub plugins: Vec<PluginReply>,
    /// Plugins whose directory or settings changed since the last reload; requires the right
    /// `sources:refresh`.
    pub changed: Vec<String>,
}

/// A plugin and its state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PluginReply {
    /// Name of the plugin.
    pub name: String,
    /// Source that serves the plugin's tools.
    pub source: String,
    /// Directory of the plugin; requires the right `sources:refresh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Kind: `python`, `command` or `mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// Version of the plugin, as its manifest states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Description of the plugin.
    pub description: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Hash of the directory's content in the active version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Tools of the plugin.
    #[schemars(with = "Vec<Value>")]
    pub tools: Vec<PluginTool>,
    /// Schemas of the plugin's settings, by name.
    #[schemars(with = "Value")]
    pub settings_schema: Json,
    /// Problems of the plugin; requires the right `sources:refresh`.
    #[schemars(with = "Vec<Value>")]
    pub problems: Vec<Problem>,
}

/// The result of a reload.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReloadReply {
    /// Plugins that were added, removed or have a new version.
    pub reloaded: Vec<String>,
    /// Plugins whose change was rejected.
    pub failed: Vec<String>,
    /// The plugins.
    pub plugins: Vec<PluginReply>,
}

/// The settings of a plugin.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingsReply {
    /// Name of the plugin.
    pub plugin: String,
    /// Effective settings with the defaults of the plugin's schema: `enabled`, `tool_overrides`,
    /// `custom_config`.
    #[schemars(with = "Value")]
    pub settings: Json,
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

/// Lists the plugins, and those that changed since the last reload.
///
/// # Errors
/// [`ErrorCode::NotFound`] on a server without plugins.
pub async fn list_plugins(
    state: &ServerState,
    principal: &Principal,
) -> Result<PluginListReply, ApiError> {
    let changed =
        state.components.gateway.changed_plugins(principal, plugin_registry(state)?).await;
    Ok(PluginListReply { plugins: visible_plugins(state, principal)?, changed })
}

/// Returns a plugin that the principal may know.
///
/// # Errors
/// [`ErrorCode::NotFound`] for any other.
pub fn show_plugin(
    state: &ServerState,
    principal: &Principal,
    name: &str,
) -> Result<PluginReply, ApiError> {
    let plugins = visible_plugins(state, principal)?;
    plugins.into_iter().find(|plugin| plugin.name == name).ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, format!("no plugin `{}`", name.escape_debug()))
    })
}

/// Reloads all plugins, or one.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right; [`ErrorCode::NotFound`] for an unknown plugin.
pub async fn reload_plugins(
    state: &ServerState,
    principal: &Principal,
    only: Option<&str>,
) -> Result<ReloadReply, ApiError> {
    let gateway = &state.components.gateway;
    let done = gateway.reload_plugins(principal, plugin_registry(state)?, only).await;
    let done = done.map_err(|failure| ApiError::new(failure.code, failure.message))?;
    let plugins = visible_plugins(state, principal)?;
    Ok(ReloadReply { reloaded: done.reloaded, failed: done.failed, plugins })
}

/// Returns the settings of a plugin.
///
/// # Errors
/// [`ErrorCode::Forbidden`] for agents and without the right; [`ErrorCode::NotFound`] for an unknown
/// plugin.
pub fn show_settings(
    state: &ServerState,
    principal: &Principal,
    name: String,
) -> Result<SettingsReply, ApiError> {
    require_person(principal)?;
    check_visible(state, principal, &name)?;
    let settings =
        plugin_registry(state)?.plugin_settings(&name).map_err(|fault| plugin_error(&fault))?;
    Ok(SettingsReply { plugin: name, settings })
}

/// Changes settings of a plugin; `null` resets a setting.
///
/// # Errors
/// As [`show_settings`], and for settings that the plugin's schema refuses.
pub async fn update_settings(
    state: &ServerState,
    principal: &Principal,
    name: String,
    changes: &Value,
) -> Result<SettingsReply, ApiError> {
    require_person(principal)?;
    check_visible(state, principal, &name)?;
    let settings = plugin_registry(state)?
        .update_settings(&name, &Json::encode(changes))
        .await
        .map_err(|fault| plugin_error(&fault))?;
    Ok(SettingsReply { plugin: name, settings })
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
        settings_schema: state.settings_schema,
        problems: state.problems,
        name: state.name,
    };
    Ok(states.into_iter().map(reply).collect())
}
