//! The folders that tools may use, and how a path leads to one of them.

use std::path::{Path, PathBuf};

use rooted_fs::roots::{Root, RootError};

/// The folders, each with the path it was configured by.
///
/// A path that does not begin with `/` is in the first; any other must begin with the path of one.
/// Which folder is meant is read from the text; that nothing outside it is reached is the root's care.
#[derive(Debug)]
pub struct Files(Vec<(PathBuf, Root)>);

impl Files {
    /// Of these folders, the usual one first.
    pub fn new(roots: Vec<(PathBuf, Root)>) -> Self {
        Self(roots)
    }

    /// The folder in which a path begins that does not begin with `/`.
    pub(crate) fn base(&self) -> Option<String> {
        let (path, _) = self.0.first()?;
        path.to_str().map(str::to_owned)
    }

    /// The same of a path that is read, without those that surely lead out of their folder.
    pub(crate) fn place_inside<'a>(
        &'a self,
        path: &'a str,
    ) -> Result<(&'a Root, &'a Path), String> {
        let (root, path) = self.place(path)?;
        root.check_inside(path).map_err(|error| told(&error))?;
        Ok((root, path))
    }

    /// The folder, and the path in it.
    pub(crate) fn place<'a>(&'a self, path: &'a str) -> Result<(&'a Root, &'a Path), String> {
        let asked = Path::new(path);
        if !asked.is_absolute() {
            let (_, root) = self.0.first().ok_or("no folder is configured for files")?;
            return Ok((root, asked.strip_prefix(".").unwrap_or(asked)));
        }
        let inside =
            |(base, root): &'a (PathBuf, Root)| Some((root, asked.strip_prefix(base).ok()?));
        // The one that is deepest: folders may lie in each other.
        let found =
            self.0.iter().filter_map(inside).min_by_key(|(_, rest)| rest.components().count());
        found.ok_or_else(|| format!("Path not allowed: {}", shown(path)))
    }
}

/// In words for the model.
pub(super) fn told(error: &RootError) -> String {
    error.to_string()
}

pub(crate) fn shown(text: &str) -> String {
    text.chars().take(200).flat_map(char::escape_debug).collect()
}
