//! The context of one file's values: its errors, the folder of its paths, and the environment.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::FileFingerprint;
use super::environment::Environment;
use super::error_collector::ErrorCollector;

/// The context in which one file's values are read.
pub(crate) struct FileContext<'a> {
    pub(crate) errors: &'a ErrorCollector<'a>,
    /// The folder that relative paths begin at, absolute.
    pub(crate) base_dir: &'a Path,
    pub(crate) environment: &'a Environment,
    /// Further files that this one includes.
    pub(crate) included: RefCell<Vec<FileFingerprint>>,
}

impl<'a> FileContext<'a> {
    pub(crate) fn new(
        errors: &'a ErrorCollector<'a>,
        base_dir: &'a Path,
        environment: &'a Environment,
    ) -> Self {
        Self { errors, base_dir, environment, included: RefCell::default() }
    }

    /// Resolves a path relative to the file; `~/` is the home folder.
    pub(crate) fn resolve_path(&self, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), self.environment.home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            // Joined by components, which drops a leading `./` from messages about the path.
            _ => self.base_dir.join(text).components().collect(),
        }
    }
}
