//! The side of a worker that reads one folder, its working directory: one request, one answer.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;

use monty_types::LIVE_MEMORY;

use super::frame::{self, Head, Status, Told};
use super::{CHANGED, Job};
use crate::code::git_status;

/// The word with which the binary is asked to run [`read_folder`].
pub const READ_FOLDER: &str = "__read";
/// Bytes that a request may take of memory, all in all.
const MOST: usize = 1 << 30;

/// Reads the working directory for the process at the other ends of standard input and output. `args` are
/// its device and number; where it is another folder nothing of it is read. To be called first thing in
/// `main`, in a cage. Answers failure where it cannot be bound, or is spoken to in no known way.
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
