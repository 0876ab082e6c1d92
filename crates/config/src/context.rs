//! What the values of one file are read with: its faults, the folder of its paths, the environment.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::ReadFile;
use super::environment::Environment;
use super::sink::Sink;

/// Reads one file's values.
pub(crate) struct FileContext<'a> {
    pub(crate) sink: &'a Sink<'a>,
    /// The folder that relative paths begin at, absolute.
    pub(crate) base: &'a Path,
    pub(crate) environment: &'a Environment,
    /// Further files that were read for this one.
    pub(crate) included: RefCell<Vec<ReadFile>>,
}

impl<'a> FileContext<'a> {
    pub(crate) fn new(sink: &'a Sink<'a>, base: &'a Path, environment: &'a Environment) -> Self {
        Self { sink, base, environment, included: RefCell::default() }
    }

    /// A path, relative to the file; `~/` is the home folder.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), self.environment.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            // As components, so that `./` does not show in what is told of the path.
            _ => self.base.join(text).components().collect(),
        }
    }
}
