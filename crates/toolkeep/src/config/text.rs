//! Reads a file's text, with its bound.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::yaml::FILE_BYTES;
use super::{Fault, Place};

/// No line of the file is at fault.
const WHOLE: Place = Place { line: 0, column: 0 };

/// The text of a regular file.
pub(super) fn read(path: &Path) -> Result<String, Fault> {
    let fail = |error: &std::io::Error| {
        let fault = Fault::new(path, WHOLE, format!("cannot be read: {error}"));
        fault.fix("check the path and its permissions")
    };
    let file = File::open(path).map_err(|error| fail(&error))?;
    if file.metadata().map_err(|error| fail(&error))?.is_dir() {
        return Err(Fault::new(path, WHOLE, "is a folder").fix("name a file"));
    }
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
