//! `/v1/plugins`: plugin folders that can be reloaded, and their settings.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::Principal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::plugin_management::{self, PluginListReply, ReloadReply, SettingsReply};
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

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReloadBody {
    /// Plugin to reload; all if absent.
    #[serde(default)]
    plugin: Option<String>,
}

/// Settings to change; absent ones stay unchanged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
struct SettingsBody(
    /// `enabled`, `tool_overrides` by tool name (`{"enabled": false}`), and `custom_config` with
    /// the plugin's own settings.
    Value,
);

async fn list_plugins(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<PluginListReply>, ApiError> {
    plugin_management::list_plugins(&state, &principal).await.map(Reply)
}

async fn reload_plugins(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<ReloadBody>,
) -> Result<Reply<ReloadReply>, ApiError> {
    plugin_management::reload_plugins(&state, &principal, body.plugin.as_deref()).await.map(Reply)
}

async fn show_settings(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Reply<SettingsReply>, ApiError> {
    plugin_management::show_settings(&state, &principal, name).map(Reply)
}

async fn update_settings(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    DecodedBody(SettingsBody(body)): DecodedBody<SettingsBody>,
) -> Result<Reply<SettingsReply>, ApiError> {
    plugin_management::update_settings(&state, &principal, name, &body).await.map(Reply)
}
