//! Main function of a folder reader: a worker that serves one request about its working directory.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;

use monty_types::LIVE_MEMORY;

use super::frame::{self, Head, Status, Told};
use super::{CHANGED, Job};
use crate::code::git_status;

/// The command-line argument that makes the binary run [`read_folder`].
pub const READ_FOLDER: &str = "__read";
/// Memory limit of one request, in bytes.
const MOST: usize = 1 << 30;

/// Serves one request about the working directory over standard input and output. `args` are the
/// folder's device and inode number; another folder is not read. Call it first in `main`, in a
/// sandbox. Returns a failure code if the process cannot be restricted or receives an unknown
/// request.
pub fn read_folder(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    if sandbox::ration(&LIVE_MEMORY, MOST).is_err() {
        return ExitCode::from(3);
    }
    let numbers = args.into_iter().map(|word| word.to_str()?.parse::<u64>().ok());
    let Some(expected) = numbers.collect::<Option<Vec<_>>>() else { return ExitCode::from(2) };
    if !fs::metadata(".").is_ok_and(|here| expected == [here.dev(), here.ino()]) {
        return ExitCode::from(CHANGED);
    }
    if sandbox::narrow_to_reading().is_err() {
        return ExitCode::from(4);
    }
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

fn serve() -> io::Result<()> {
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    let mut head = [0; frame::REQUEST];
    from.read_exact(&mut head)?;
    let head = Head::decode(head).ok_or(io::ErrorKind::InvalidData)?;
    if head.job != Job::GIT_STATUS.letter {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (status, answer) = match git_status::status() {
        Ok(answer) => (Status::Value, answer),
        Err(words) => (Status::Failure, words.into_bytes()),
    };
    let used = host::memory::used();
    to.write_all(&Told { status, used, length: answer.len() }.encode())?;
    to.write_all(&answer)?;
    to.flush()
}
