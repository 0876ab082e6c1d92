//! Reads a file's text, with its bound.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::yaml::FILE_BYTES;
use super::{Fault, Place};

/// No line of the file is at fault.
const WHOLE: Place = Place { line: 0, column: 0 };

/// The text of a regular file. What is none is refused and never waited for.
pub(crate) fn read(path: &Path) -> Result<String, Fault> {
    let fail = |error: &std::io::Error| {
        let fault = Fault::new(path, WHOLE, format!("cannot be read: {error}"));
        fault.fix("check the path and its permissions")
    };
    let file = rooted_fs::files::open(path).map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => Fault::new(path, WHOLE, "is a folder").fix("name a file"),
        ErrorKind::InvalidInput => {
            Fault::new(path, WHOLE, "is no regular file").fix("name a regular file")
        }
        _ => fail(&error),
    })?;
    let mut bytes = Vec::new();
    let bound = FILE_BYTES as u64 + 1;
    file.take(bound).read_to_end(&mut bytes).map_err(|error| fail(&error))?;
    if bytes.len() > FILE_BYTES {
        let message = format!("the file has more than {FILE_BYTES} bytes");
        return Err(Fault::new(path, Place::TOP, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = good.split(|byte| *byte == b'\n').count();
        let fault = Fault::new(path, Place { line, column: 1 }, "the file is not UTF-8");
        fault.fix("save it as UTF-8")
    })
}
