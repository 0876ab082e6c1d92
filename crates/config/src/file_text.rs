//! Reads the text of a file up to a size limit.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::yaml_parser::MAX_FILE_BYTES;
use super::{ConfigError, ConfigPosition};

/// Reads a regular file. Any other file, such as a pipe, is an error and is never waited for.
pub(crate) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let file_error = |message: &str, help: &str| {
        ConfigError::new(path, ConfigPosition::UNKNOWN, message).with_help(help)
    };
    let io_error = |error: &std::io::Error| {
        file_error(&format!("cannot be read: {error}"), "check the path and its permissions")
    };
    let file = rooted_fs::regular_file::open_regular(path).map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => file_error("is a folder", "name a file"),
        ErrorKind::InvalidInput => file_error("is not a regular file", "name a regular file"),
        _ => io_error(&error),
    })?;
    let mut bytes = Vec::new();
    let limit = MAX_FILE_BYTES as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|error| io_error(&error))?;
    if bytes.len() > MAX_FILE_BYTES {
        let message = format!("the file has more than {MAX_FILE_BYTES} bytes");
        return Err(ConfigError::new(path, ConfigPosition::START, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = valid.split(|byte| *byte == b'\n').count();
        let position = ConfigPosition { line, column: 1 };
        ConfigError::new(path, position, "the file is not UTF-8").with_help("save it as UTF-8")
    })
}
