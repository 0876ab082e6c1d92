//! The error of reading a response.

use std::{fmt, io};

/// The reason why a response cannot be read.
#[derive(Debug)]
pub enum ProtocolError {
    /// The connection failed.
    Io(io::Error),
    /// The data is malformed. The text is the reason, as the end of a sentence.
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
