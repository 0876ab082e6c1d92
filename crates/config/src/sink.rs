//! Where faults of one file are gathered while it is read.

use std::cell::RefCell;
use std::path::Path;

use super::de::Bad;
use super::{Fault, Place};

/// The file being read, and what is wrong with it so far.
pub(crate) struct Sink<'a> {
    pub(crate) file: &'a Path,
    text: &'a str,
    faults: RefCell<Vec<Fault>>,
    notes: RefCell<Vec<Fault>>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Self {
        Self { file, text, faults: RefCell::default(), notes: RefCell::default() }
    }

    /// Notes a fault.
    pub(crate) fn tell(&self, place: Place, message: impl Into<String>, fix: &str) {
        let fault = Fault::new(self.file, place, message);
        let fault = if fix.is_empty() { fault } else { fault.fix(fix) };
        self.add(fault.excerpt(self.text));
    }

    /// Notes a fault at a value that must not be shown.
    pub(crate) fn tell_hidden(&self, place: Place, message: impl Into<String>, fix: &str) {
        let fault = Fault::new(self.file, place, message);
        self.add(if fix.is_empty() { fault } else { fault.fix(fix) });
    }

    /// Notes what the reader found.
    pub(crate) fn tell_bad(&self, bad: Bad) {
        let place = bad.place.unwrap_or(Place::TOP);
        let fix = bad.fix.unwrap_or_default();
        if bad.secret {
            self.tell_hidden(place, bad.message, &fix);
        } else {
            self.tell(place, bad.message, &fix);
        }
    }

    /// Notes a fault as it is, of this file or of another.
    pub(crate) fn add(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
    }

    /// Notes what is not used and takes nothing down. Its line is not shown: it may hold a secret.
    pub(crate) fn note(&self, place: Place, message: impl Into<String>, fix: &str) {
        let note = Fault::new(self.file, place, message);
        self.add_note(if fix.is_empty() { note } else { note.fix(fix) });
    }

    /// Adds a note of this file or of another.
    pub(crate) fn add_note(&self, note: Fault) {
        self.notes.borrow_mut().push(note);
    }

    /// The notes so far, which are then no longer here.
    pub(crate) fn take_notes(&self) -> Vec<Fault> {
        self.notes.take()
    }

    /// How many there are, to see whether a part added some.
    pub(crate) fn count(&self) -> usize {
        self.faults.borrow().len()
    }

    pub(crate) fn into_faults(self) -> Vec<Fault> {
        let mut faults = self.faults.into_inner();
        faults.sort_by_key(|fault| (fault.file != self.file, fault.place));
        faults
    }
}
