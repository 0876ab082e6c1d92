//! The port to answers that are too large to be given whole: kept for a while, for their caller alone.

use std::fmt;

use bytes::Bytes;

use crate::{Boxed, Caller, Wall};

/// Keeps large answers. They are no part of the record: they end by themselves, and with the process.
pub trait Artefacts: Send + Sync + fmt::Debug {
    /// Keeps an answer for `owner`; the oldest go where there is no room.
    ///
    /// # Errors
    /// [`ArtefactError::Unavailable`], also where it is larger than all the room there is.
    fn keep<'a>(&'a self, owner: &'a Caller, body: Bytes)
    -> Boxed<'a, Result<Kept, ArtefactError>>;

    /// A part of one, from a byte on, `most` bytes at the longest.
    ///
    /// # Errors
    /// [`ArtefactError::Missing`] where it is not there, is over, or is another's: one answer for all.
    fn read<'a>(
        &'a self,
        owner: &'a Caller,
        id: &'a str,
        range: (u64, usize),
    ) -> Boxed<'a, Result<Part, ArtefactError>>;
}

/// An answer that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Names it; cannot be guessed.
    pub id: String,
    /// Its length.
    pub bytes: u64,
    /// Until when.
    pub expires: Wall,
}

/// A part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The bytes.
    pub bytes: Bytes,
    /// Length of the whole.
    pub total: u64,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtefactError {
    /// Not there, over, or another's.
    #[error("there is no such artefact: it may be over")]
    Missing,
    /// It cannot be kept or read.
    #[error("{0}")]
    Unavailable(String),
}
