//! Where faults of one file are gathered while it is read.

use std::cell::{Cell, RefCell};
use std::path::Path;

use super::{Fault, Place};

/// The file being read, and what is wrong with it so far.
pub(crate) struct Sink<'a> {
    pub(crate) file: &'a Path,
    text: &'a str,
    faults: RefCell<Vec<Fault>>,
    notes: RefCell<Vec<Fault>>,
    /// Values that were met again whose fault is there already.
    reported: Cell<usize>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Self {
        let (faults, notes) = (RefCell::default(), RefCell::default());
        Self { file, text, faults, notes, reported: Cell::default() }
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

    /// Counts a value whose fault is there already: whatever it belongs to is faulty as well.
    pub(crate) fn count_reported(&self) {
        self.reported.set(self.reported.get() + 1);
    }

    /// Grows with each fault, to see whether a part added some.
    pub(crate) fn count(&self) -> usize {
        self.faults.borrow().len() + self.reported.get()
    }

    pub(crate) fn into_faults(self) -> Vec<Fault> {
        let mut faults = self.faults.into_inner();
        faults.sort_by_key(|fault| (fault.file != self.file, fault.place));
        faults
    }
}
