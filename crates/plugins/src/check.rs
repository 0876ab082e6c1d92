//! Offline check of plugin folders. It executes no plugin code.

use std::path::{Path, PathBuf};

use tool::plugin_admin::PLUGIN_SOURCE_PREFIX;
use tool::{Problem, SourceName};

use crate::manifest::PluginManifest;
use crate::plugin_folder::{FolderContent, MANIFEST_FILE};
use crate::plugin_registry;

/// Check result of one plugin, or of a plugin folder that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginCheck {
    /// Name of the plugin's source on a server; `None` if the folder name is not valid.
    pub source_name: Option<SourceName>,
    /// Problems of the plugin.
    pub problems: Vec<Problem>,
}

/// Reports folders that cannot be read, in which a server finds no plugin. Blocks.
pub fn unreadable_folders(folders: &[PathBuf]) -> Vec<Problem> {
    let problem = |folder: &PathBuf| {
        let error = std::fs::read_dir(folder).err()?;
        let message = format!("cannot read the plugin folder: {error}");
        let fix = "create it, or correct `plugins.folders` in the configuration";
        Some(Problem::new(folder.display().to_string(), message).with_help(fix))
    };
    folders.iter().filter_map(problem).collect()
}

/// Reads the files and the manifest of every plugin as a server does, without executing anything.
/// Blocks.
pub fn check_folders(folders: &[PathBuf]) -> Vec<PluginCheck> {
    let missing = unreadable_folders(folders);
    let missing =
        missing.into_iter().map(|it| PluginCheck { source_name: None, problems: vec![it] });
    missing
        .chain(
            plugin_registry::find_plugin_folders(folders).iter().map(|folder| check_folder(folder)),
        )
        .collect()
}

fn check_folder(folder: &Path) -> PluginCheck {
    let manifest_path = folder.join(MANIFEST_FILE).display().to_string();
    let part = folder.file_name().unwrap_or_default().to_string_lossy();
    let source = SourceName::new(&part)
        .and_then(|_| SourceName::new(format!("{PLUGIN_SOURCE_PREFIX}{part}")));
    let read = match FolderContent::read_folder(folder) {
        Ok(content) => PluginManifest::from_content(&content, &manifest_path).map(drop),
        Err(error) => Err(Problem::new(manifest_path.as_str(), error.to_string())),
    };
    let mut problems: Vec<_> = read.err().into_iter().collect();
    if let Err(fault) = &source {
        let fix = "rename the folder";
        problems.push(Problem::new(folder.display().to_string(), fault.to_string()).with_help(fix));
    }
    PluginCheck { source_name: source.ok(), problems }
}
