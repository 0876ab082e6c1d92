//! The file roots that tools may use, and the resolution of a path to one of them.

use std::path::{Path, PathBuf};

use rooted_fs::rooted_dir::{FileAccessError, RootedDir};
use tool::display_text::truncate_and_escape_debug;

/// File roots, each with its configured path.
///
/// A relative path is in the first root; an absolute one must begin with the path of a root. The
/// text of the path selects the root; the root itself confines access.
#[derive(Debug)]
pub struct FileRoots(Vec<(PathBuf, RootedDir)>);

impl FileRoots {
    /// Creates the set of roots; the first is the default.
    pub fn new(roots: Vec<(PathBuf, RootedDir)>) -> Self {
        Self(roots)
    }

    /// Returns the folder in which relative paths begin.
    pub(crate) fn default_folder(&self) -> Option<String> {
        let (path, _) = self.0.first()?;
        path.to_str().map(str::to_owned)
    }

    /// Resolves a path for reading; rejects one that certainly leads out of its root.
    pub(crate) fn resolve_readable<'a>(
        &'a self,
        path: &'a str,
    ) -> Result<(&'a RootedDir, &'a Path), String> {
        let (root, path) = self.resolve_path(path)?;
        root.check_inside(path).map_err(|error| describe_error(&error))?;
        Ok((root, path))
    }

    /// Resolves a path to a root and the path within it.
    pub(crate) fn resolve_path<'a>(
        &'a self,
        path: &'a str,
    ) -> Result<(&'a RootedDir, &'a Path), String> {
        let asked = Path::new(path);
        if !asked.is_absolute() {
            let (_, root) = self.0.first().ok_or("no folder is configured for files")?;
            return Ok((root, asked.strip_prefix(".").unwrap_or(asked)));
        }
        let inside =
            |(base, root): &'a (PathBuf, RootedDir)| Some((root, asked.strip_prefix(base).ok()?));
        // The deepest root wins, because roots may be nested.
        let found =
            self.0.iter().filter_map(inside).min_by_key(|(_, rest)| rest.components().count());
        found.ok_or_else(|| format!("Path not allowed: {}", escape_for_message(path)))
    }
}

/// Formats an error for the model.
pub(super) fn describe_error(error: &FileAccessError) -> String {
    error.to_string()
}

pub(crate) fn escape_for_message(text: &str) -> String {
    truncate_and_escape_debug(text, 200)
}
