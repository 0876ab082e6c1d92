//! Plugins (research registry): a folder with `manifest.json` is a source whose tools run in their
//! own process.
//!
//! Plugins run from a hashed copy of their folder, always in a sandbox. A manifest requests access,
//! and the operator grants it. This crate does not decide who may call a tool.

mod access;
mod backoff_schedule;
mod check;
mod example_test;
mod manifest;
mod mcp_server;
mod parameter_schema;
mod plugin_executor;
mod plugin_folder;
mod plugin_process;
mod plugin_registry;
mod plugin_source;
mod plugin_tools;
mod plugin_version;
mod settings;
mod template;
mod tool_file_code;

pub use access::PluginRuntimeConfig;
pub use check::{PluginCheck, check_folders, unreadable_folders};
pub use example_test::{ExampleResult, PluginTestReport, test_examples};
pub use manifest::{ManifestError, PluginManifest, SCHEMA};
pub use option_types::AccessGrant;
pub use plugin_folder::{CopyStore, FolderContent, FolderError};
pub use plugin_registry::{PluginRegistry, SETTINGS_DIR};
pub use plugin_source::PluginSource;
pub use plugin_tools::{PluginTools, list_plugins_outcome, reload_plugins_outcome};
pub use template::{PluginTemplate, create_plugin};
pub use tool_file_code::{EntryPoint, LoadedCode, ToolCode, ToolFileCode};
