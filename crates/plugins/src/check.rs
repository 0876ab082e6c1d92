//! What is wrong with folders of plugins before anything of them runs.

use std::path::{Path, PathBuf};

use tool::plugin::PREFIX;
use tool::{Problem, SourceName};

use crate::folder::{Content, MANIFEST};
use crate::manifest::Manifest;
use crate::registry;

/// One plugin, or a folder of plugins that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The source that it is on a server; `None` where it is none.
    pub source: Option<SourceName>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

/// Folders that cannot be read: a server finds no plugin there. Blocks.
pub fn unreadable(folders: &[PathBuf]) -> Vec<Problem> {
    let problem = |folder: &PathBuf| {
        let error = std::fs::read_dir(folder).err()?;
        let message = format!("the folder of plugins cannot be read: {error}");
        let fix = "create it, or correct `plugins.folders` in the configuration";
        Some(Problem::new(folder.display().to_string(), message).fix(fix))
    };
    folders.iter().filter_map(problem).collect()
}

/// Reads the files and the manifest of every plugin as a server does; runs nothing. Blocks.
pub fn check_folders(folders: &[PathBuf]) -> Vec<Checked> {
    let missing = unreadable(folders);
    let missing = missing.into_iter().map(|it| Checked { source: None, problems: vec![it] });
    missing.chain(registry::found(folders).iter().map(|folder| checked(folder))).collect()
}

fn checked(folder: &Path) -> Checked {
    let place = folder.join(MANIFEST).display().to_string();
    let part = folder.file_name().unwrap_or_default().to_string_lossy();
    let source = SourceName::new(&part).and_then(|_| SourceName::new(format!("{PREFIX}{part}")));
    let read = match Content::read(folder) {
        Ok(content) => Manifest::of_content(&content, &place).map(drop),
        Err(error) => Err(Problem::new(place.as_str(), error.to_string())),
    };
    let mut problems: Vec<_> = read.err().into_iter().collect();
    if let Err(fault) = &source {
        let fix = "rename the folder";
        problems.push(Problem::new(folder.display().to_string(), fault.to_string()).fix(fix));
    }
    Checked { source: source.ok(), problems }
}
