//! Main function of a folder reader: a worker that serves one request about its working directory.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;
use std::time::Duration;

use monty_types::LIVE_MEMORY;
use sandbox::process::ResourceUsage;

use super::worker_protocol::{self, RequestHeader, ResponseHeader, ResponseStatus};
use super::{FOLDER_REPLACED_EXIT_CODE, WorkerJob};
use crate::code::git_status;

/// The command-line argument that makes the binary run [`run_folder_reader`].
pub const FOLDER_READER_COMMAND: &str = "__read";
/// Memory limit of one request, in bytes.
const REQUEST_MEMORY_BYTES: usize = 1 << 30;

/// Serves one request about the working directory over standard input and output. `args` are the
/// folder's device and inode number; another folder is not read. Call it first in `main`, in a
/// sandbox. Returns a failure code if the process cannot be restricted or receives an unknown
/// request.
pub fn run_folder_reader(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    if sandbox::start_counting(&LIVE_MEMORY, REQUEST_MEMORY_BYTES).is_err() {
        return ExitCode::from(3);
    }
    let numbers = args.into_iter().map(|word| word.to_str()?.parse::<u64>().ok());
    let Some(expected) = numbers.collect::<Option<Vec<_>>>() else { return ExitCode::from(2) };
    if !fs::metadata(".").is_ok_and(|here| expected == [here.dev(), here.ino()]) {
        return ExitCode::from(FOLDER_REPLACED_EXIT_CODE);
    }
    if sandbox::restrict_to_reading().is_err() {
        return ExitCode::from(4);
    }
    match serve_request() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

fn serve_request() -> io::Result<()> {
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    let mut head = [0; worker_protocol::REQUEST_HEADER_BYTES];
    from.read_exact(&mut head)?;
    let head = RequestHeader::decode(head).ok_or(io::ErrorKind::InvalidData)?;
    if head.job_code != WorkerJob::GIT_STATUS.code {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (status, answer) = match git_status::repository_status() {
        Ok(answer) => (ResponseStatus::Value, answer),
        Err(words) => (ResponseStatus::Failure, words.into_bytes()),
    };
    let (cpu_ms, peak_kib) = host::memory::resource_usage();
    let usage = ResourceUsage { cpu_time: Duration::from_millis(cpu_ms), peak_kib };
    to.write_all(&ResponseHeader { status, usage, length: answer.len() }.encode())?;
    to.write_all(&answer)?;
    to.flush()
}
