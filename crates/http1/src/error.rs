//! Why a response cannot be read.

use std::{fmt, io};

/// Why a response cannot be read.
#[derive(Debug)]
pub enum ProtocolError {
    /// The connection failed.
    Io(io::Error),
    /// What came is not what it should be: the reason, as the end of a sentence.
    Invalid(&'static str),
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ProtocolError {}
