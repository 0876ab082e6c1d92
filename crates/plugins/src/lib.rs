//! Plugins (spec 3): a folder with `manifest.json` is a source whose tools run in a process of their own.
//!
//! Nothing runs from the folder itself but from a copy that was hashed, and nothing runs outside a cage.
//! What a manifest asks for and what the operator grants are two things; who may call is not known here.

mod attached;
mod check;
mod execute;
mod folder;
mod grant;
mod manifest;
mod parameters;
mod plugin;
mod process;
mod registry;
mod server;
mod settings;
mod template;
mod tools;
mod trial;
mod version;

pub use attached::{Attached, Beside, Call, Code};
pub use check::{Checked, check_folders, unreadable};
pub use folder::{Content, ContentError, Copies};
pub use grant::Means;
pub use manifest::{Manifest, ManifestError, SCHEMA};
pub use option_types::Grant;
pub use plugin::PluginSource;
pub use registry::{Registry, SETTINGS};
pub use template::{Template, written};
pub use tools::{PluginTools, listed_plugins, reloaded_plugins};
pub use trial::{Trial, Tried, trial};
