//! The port to the plugins there are: folders of tools that are read again when they change (spec 3).

use std::fmt;

use serde::Serialize;

use crate::outcome::Failure;
use crate::{Boxed, Code, Digest, Json, Problem};

/// What the names of plugins' sources begin with; the folder's name follows.
pub const PREFIX: &str = "plugin.";

/// A plugin as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginState {
    /// Its name, as its manifest has it; the folder's where that was never read.
    pub name: String,
    /// The source that offers its tools.
    pub source: String,
    /// Where it is.
    pub folder: String,
    /// How it is run: `python`, `command` or `mcp`; `None` where its manifest was never read.
    pub kind: Option<&'static str>,
    /// Its version, by its own word.
    pub version: Option<String>,
    /// What it is for.
    pub description: String,
    /// Whether manifest and settings leave it on.
    pub enabled: bool,
    /// The hash of the content of its folder that runs.
    pub content: Option<Digest>,
    /// Its tools, those that are not offered among them.
    pub tools: Vec<PluginTool>,
    /// What is wrong with it, and what with an edit that was not taken.
    pub problems: Vec<Problem>,
}

/// One tool of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PluginTool {
    /// Its name within the plugin.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its category.
    pub category: String,
    /// Whether it is offered.
    pub enabled: bool,
    /// Its parameters, as the manifest has them.
    pub parameters: Json,
    /// Why it is not offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What came of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Plugins that have a new version now, or are gone.
    pub reloaded: Vec<String>,
    /// Plugins whose change was not taken.
    pub failed: Vec<String>,
}

/// Why it was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginFault {
    /// There is no such plugin.
    #[error("there is no plugin `{}`", .0.escape_debug())]
    Missing(String),
    /// The settings cannot be taken as they are.
    #[error("{0}")]
    Unfit(String),
    /// They cannot be written.
    #[error("{0}")]
    Unavailable(String),
}

impl PluginFault {
    /// The error code, the same at every interface.
    pub fn code(&self) -> Code {
        match self {
            Self::Missing(_) => Code::NotFound,
            Self::Unfit(_) => Code::InvalidRequest,
            Self::Unavailable(_) => Code::StoreUnavailable,
        }
    }
}

/// The plugins of this server.
pub trait Plugins: Send + Sync + fmt::Debug {
    /// All of them, by folder.
    fn plugins(&self) -> Vec<PluginState>;

    /// Names of those whose folder or settings are others than what runs (spec 3's `check_for_changes`).
    fn changes(&self) -> Boxed<'_, Vec<String>>;

    /// Looks at once, at all or at one, and takes what changed (spec 3's `reload_changed`). Resolves when
    /// calls meet the new version.
    ///
    /// # Errors
    /// [`PluginFault::Missing`].
    fn reload<'a>(&'a self, only: Option<&'a str>) -> Boxed<'a, Result<Reloaded, PluginFault>>;

    /// The settings of one, as they count: with the defaults of its schema.
    ///
    /// # Errors
    /// [`PluginFault::Missing`].
    fn settings(&self, name: &str) -> Result<Json, PluginFault>;

    /// Changes some of them; an object within an object is merged. Resolves with what counts from then on.
    ///
    /// # Errors
    /// [`PluginFault`].
    fn set_settings<'a>(
        &'a self,
        name: &'a str,
        changes: &'a Json,
    ) -> Boxed<'a, Result<Json, PluginFault>>;
}

/// The plugins as the caller of the running call may see and change them.
pub trait CallerPlugins: Send + Sync + fmt::Debug {
    /// Those that the caller may know of, with the tools that it may call.
    ///
    /// # Errors
    /// Where no call runs, or the server is starting.
    fn visible(&self) -> Result<Vec<PluginState>, Failure>;

    /// Scans all plugins now, where the caller has the right to.
    ///
    /// # Errors
    /// [`crate::Code::Forbidden`] where it has not, and as [`CallerPlugins::visible`].
    fn reload(&self) -> Boxed<'_, Result<Reloaded, Failure>>;
}
