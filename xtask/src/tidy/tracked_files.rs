//! Text files of the checkout that git tracks or would track.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::child_processes::run_quiet;

/// One text file of the checkout.
#[derive(Debug)]
pub(crate) struct TrackedText {
    /// Path from the root of the repository.
    pub(crate) path: String,
    /// Its text; empty if it is none.
    pub(crate) content: String,
}

impl TrackedText {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), content: text.to_owned() }
    }

    /// Returns whether the name ends in `.ending`.
    pub(crate) fn has_extension(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == ending)
    }

    /// Returns the lines with their numbers, from 1.
    pub(crate) fn numbered_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.content.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Reads all files of the checkout. One that is not UTF-8, such as a picture, has an empty text, so
/// that a link can lead to it.
pub(crate) fn read_tracked(root: &Path) -> Result<Vec<TrackedText>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let advice = |why| format!("{why}; tidy lists files with git: install it");
    let output = run_quiet(&mut git).map_err(advice)?;
    if !output.status.success() {
        return Err(format!("tidy works on a git checkout: {}", output.stderr_text.trim()));
    }
    let paths = output.stdout_text.split('\0').filter(|path| !path.is_empty());
    // A file that is tracked and was just removed is not there to be read.
    let texts = paths.filter_map(|path| {
        let bytes = fs::read(root.join(path)).ok()?;
        let content = String::from_utf8(bytes).unwrap_or_default();
        Some(TrackedText { path: path.to_owned(), content })
    });
    Ok(texts.collect())
}
