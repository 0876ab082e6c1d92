//! The text files of the checkout: what git tracks and what it would.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::children::quiet;

/// One text file.
#[derive(Debug)]
pub(crate) struct Text {
    /// From the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Text {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Whether its name ends in `.ending`.
    pub(crate) fn is(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == ending)
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Reads them all. What is no UTF-8 is no text.
pub(crate) fn read(root: &Path) -> Result<Vec<Text>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let ended = quiet(&mut git)?;
    if !ended.status.success() {
        return Err(format!("tidy works on a git checkout: {}", ended.err.trim()));
    }
    let paths = ended.out.split('\0').filter(|path| !path.is_empty());
    // A file that is tracked and was just removed is not there to be read.
    let texts = paths.filter_map(|path| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(Text { path: path.to_owned(), text })
    });
    Ok(texts.collect())
}
