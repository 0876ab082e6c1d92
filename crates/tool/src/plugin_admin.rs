//! Defines the port to administer plugins: folders of tools that are reloaded when they change.

use std::fmt;

use serde::Serialize;

use crate::{BoxFuture, Digest, ErrorCode, Json, Problem};

/// Prefix of the source names of plugins; the folder name follows.
pub const PLUGIN_SOURCE_PREFIX: &str = "plugin.";

/// Status of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginStatus {
    /// Name in its manifest, or the folder name if the manifest was never read.
    pub name: String,
    /// The source that offers its tools.
    pub source: String,
    /// Path of its folder.
    pub folder: String,
    /// Kind of plugin: `python`, `command` or `mcp`; `None` if its manifest was never read.
    pub kind: Option<&'static str>,
    /// Version stated in its manifest.
    pub version: Option<String>,
    /// Description in its manifest.
    pub description: String,
    /// True if manifest and settings enable it.
    pub is_enabled: bool,
    /// Digest of the folder content that runs.
    pub content_digest: Option<Digest>,
    /// Its tools, including those that are not offered.
    pub tools: Vec<PluginTool>,
    /// Schemas of its settings by name, from its manifest.
    pub settings_schema: Json,
    /// Problems of the plugin and of edits that were rejected.
    pub problems: Vec<Problem>,
}

/// One tool of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PluginTool {
    /// Its name within the plugin.
    pub name: String,
    /// Description of the tool.
    pub description: String,
    /// Category of the tool.
    pub category: String,
    /// True if the tool is offered.
    #[serde(rename = "enabled")]
    pub is_enabled: bool,
    /// Its parameters, as the manifest has them.
    pub parameters: Json,
    /// Why it is not offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "why")]
    pub disabled_reason: Option<String>,
}

/// Result of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// Plugins that have a new version, or were removed.
    pub reloaded: Vec<String>,
    /// Plugins whose change was rejected.
    pub failed: Vec<String>,
}

/// Errors of plugin administration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The plugin does not exist.
    #[error("no plugin `{}`", .0.escape_debug())]
    NotFound(String),
    /// The settings are invalid.
    #[error("{0}")]
    InvalidSettings(String),
    /// The settings cannot be written.
    #[error("{0}")]
    Unavailable(String),
}

impl PluginError {
    /// Returns the error code, identical at all interfaces.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::NotFound(_) => ErrorCode::NotFound,
            Self::InvalidSettings(_) => ErrorCode::InvalidRequest,
            Self::Unavailable(_) => ErrorCode::StoreUnavailable,
        }
    }
}

/// Administers the plugins of this server.
pub trait PluginAdmin: Send + Sync + fmt::Debug {
    /// Lists all plugins, ordered by folder.
    fn list_plugins(&self) -> Vec<PluginStatus>;

    /// Lists the plugins whose folder or settings differ from the running version.
    fn list_changed(&self) -> BoxFuture<'_, Vec<String>>;

    /// Scans all plugins or one now and applies changes. Resolves when calls use the new version.
    ///
    /// # Errors
    /// [`PluginError::NotFound`].
    fn reload_changed<'a>(
        &'a self,
        only: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ReloadReport, PluginError>>;

    /// Returns the effective settings of a plugin, with the defaults of its schema.
    ///
    /// # Errors
    /// [`PluginError::NotFound`].
    fn plugin_settings(&self, name: &str) -> Result<Json, PluginError>;

    /// Changes settings; nested objects are merged. Resolves with the effective settings.
    ///
    /// # Errors
    /// [`PluginError`].
    fn update_settings<'a>(
        &'a self,
        name: &'a str,
        changes: &'a Json,
    ) -> BoxFuture<'a, Result<Json, PluginError>>;
}
