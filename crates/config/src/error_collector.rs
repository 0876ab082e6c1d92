//! Collects the errors of one file while it is read.

use std::cell::{Cell, RefCell};
use std::path::Path;

use super::{ConfigError, ConfigPosition};

/// The errors of one file, and its notes: problems that do not stop the configuration.
pub(crate) struct ErrorCollector<'a> {
    pub(crate) file: &'a Path,
    text: &'a str,
    errors: RefCell<Vec<ConfigError>>,
    notes: RefCell<Vec<ConfigError>>,
    /// Reads of values whose error is reported already.
    known_errors: Cell<usize>,
}

impl<'a> ErrorCollector<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Self {
        let (errors, notes) = (RefCell::default(), RefCell::default());
        Self { file, text, errors, notes, known_errors: Cell::default() }
    }

    /// Reports an error with its line. An empty `help` is no fix.
    pub(crate) fn report(&self, position: ConfigPosition, message: impl Into<String>, help: &str) {
        self.push_error(self.build_error(position, message, help).with_excerpt(self.text));
    }

    /// Reports an error without its line, which may hold a secret.
    pub(crate) fn report_redacted(
        &self,
        position: ConfigPosition,
        message: impl Into<String>,
        help: &str,
    ) {
        self.push_error(self.build_error(position, message, help));
    }

    /// Adds an error of this file or of another.
    pub(crate) fn push_error(&self, error: ConfigError) {
        self.errors.borrow_mut().push(error);
    }

    /// Reports a value that is ignored and stops nothing. Its line is left out: it may hold a secret.
    pub(crate) fn report_note(
        &self,
        position: ConfigPosition,
        message: impl Into<String>,
        help: &str,
    ) {
        self.push_note(self.build_error(position, message, help));
    }

    /// Adds a note of this file or of another.
    pub(crate) fn push_note(&self, note: ConfigError) {
        self.notes.borrow_mut().push(note);
    }

    /// Takes the notes out of the collector.
    pub(crate) fn take_notes(&self) -> Vec<ConfigError> {
        self.notes.take()
    }

    /// Counts a read of a value whose error is reported already: the section around it is invalid too.
    pub(crate) fn count_known_error(&self) {
        self.known_errors.set(self.known_errors.get() + 1);
    }

    /// The number of errors so far. It grows while an invalid section is read.
    pub(crate) fn error_count(&self) -> usize {
        self.errors.borrow().len() + self.known_errors.get()
    }

    /// The errors in the order of the file; those of other files come last.
    pub(crate) fn into_errors(self) -> Vec<ConfigError> {
        let mut errors = self.errors.into_inner();
        errors.sort_by_key(|error| (error.file != self.file, error.position));
        errors
    }

    fn build_error(
        &self,
        position: ConfigPosition,
        message: impl Into<String>,
        help: &str,
    ) -> ConfigError {
        let error = ConfigError::new(self.file, position, message);
        if help.is_empty() { error } else { error.with_help(help) }
    }
}
