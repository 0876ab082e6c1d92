//! Main loop of a worker process: reads a request, computes, responds, until its input ends.
//!
//! Before the first request it drops all privileges that it does not need. It has one thread. The
//! only state it keeps between requests is a program that is suspended at a call, until another
//! request arrives.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use monty_types::{BASELINE_MEMORY, LIVE_MEMORY};
use sandbox::process::ResourceUsage;

use super::WorkerJob;
use super::dedicated_worker::WorkerResources;
use super::program_step::SuspendedProgram;
use super::worker_protocol::{self, RequestHeader, ResponseHeader, ResponseStatus};
use super::{python_runtime, sql_query};

/// The command-line argument that makes the binary run [`run_pool_worker`].
pub const POOL_WORKER_COMMAND: &str = "__work";
/// Memory limit of one request, in bytes.
const REQUEST_MEMORY_BYTES: usize = 1 << 30;

/// A job with its handler: takes arguments and a time limit, and returns JSON or an error message
/// for the model.
pub type JobHandler = (WorkerJob, fn(&[u8], Duration) -> Result<Vec<u8>, String>);

/// Serves jobs of this crate and of `extra_handlers` over standard input and output. Call it first
/// in `main`, in a sandbox. Returns a failure code if the process cannot be restricted or receives
/// an unknown request.
pub fn run_pool_worker(extra_handlers: &[JobHandler]) -> ExitCode {
    let Ok(base) = sandbox::start_counting(&LIVE_MEMORY, REQUEST_MEMORY_BYTES) else {
        return ExitCode::from(3);
    };
    BASELINE_MEMORY.store(base, Ordering::Relaxed);
    if sandbox::restrict_to_computing().is_err() {
        return ExitCode::from(4);
    }
    let mut desk = SuspendedProgram::default();
    serve_requests(|head, args| dispatch_job(head, args, &mut desk, extra_handlers))
}

/// Serves requests of a [`DedicatedWorker`](super::DedicatedWorker) over standard input and output.
/// `args` is the encoded [`WorkerResources`]. `create_state` runs first and may start threads; then
/// the process drops what it does not need, and `handle` receives the code, time limit and
/// bytes of each request. `None` means that there is no such job. Call it first in `main`, in a
/// sandbox. Returns a failure code if the process cannot be restricted or receives an unknown
/// request.
pub fn run_dedicated_worker<S>(
    args: impl IntoIterator<Item = OsString>,
    create_state: impl FnOnce() -> S,
    mut handle: impl FnMut(&mut S, (u8, Duration), &[u8]) -> Option<Result<Vec<u8>, String>>,
) -> ExitCode {
    let Some(share) = WorkerResources::from_args(args) else { return ExitCode::from(2) };
    if sandbox::start_counting(&LIVE_MEMORY, share.memory).is_err() {
        return ExitCode::from(3);
    }
    let mut state = create_state();
    if sandbox::restrict_to_computing().is_err() {
        return ExitCode::from(4);
    }
    serve_requests(|head, args| {
        handle(&mut state, (head.job_code, head.time_limit), args)
            .ok_or(io::ErrorKind::InvalidData.into())
    })
}

/// An answer or an error message for the caller; an I/O error if the request is malformed.
type JobResult = io::Result<Result<Vec<u8>, String>>;

/// Serves requests until the input ends.
fn serve_requests(mut compute: impl FnMut(RequestHeader, &[u8]) -> JobResult) -> ExitCode {
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    loop {
        match serve_request((&mut stdin, &mut stdout), &mut compute) {
            Ok(true) => {}
            Ok(false) => return ExitCode::SUCCESS,
            Err(_) => return ExitCode::from(2),
        }
    }
}

/// Serves one request; returns false at the end of the input.
fn serve_request(
    (from, to): (&mut impl Read, &mut impl Write),
    compute: &mut impl FnMut(RequestHeader, &[u8]) -> JobResult,
) -> io::Result<bool> {
    let mut head = [0; worker_protocol::REQUEST_HEADER_BYTES];
    match from.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    }
    let head = RequestHeader::decode(head).ok_or(io::ErrorKind::InvalidData)?;
    let mut args = vec![0; head.length];
    from.read_exact(&mut args)?;
    let (before, _) = host::memory::resource_usage();
    let (status, answer) = match compute(head, &args)? {
        Ok(answer) => (ResponseStatus::Value, answer),
        Err(words) => (ResponseStatus::Failure, words.into_bytes()),
    };
    let (after, peak) = host::memory::resource_usage();
    let cpu_time = Duration::from_millis(after.saturating_sub(before));
    let usage = ResourceUsage { cpu_time, peak_kib: peak };
    to.write_all(&ResponseHeader { status, usage, length: answer.len() }.encode())?;
    to.write_all(&answer)?;
    to.flush()?;
    Ok(true)
}

/// Runs the job of a request, which is one of this crate or of `more`.
fn dispatch_job(
    head: RequestHeader,
    args: &[u8],
    desk: &mut SuspendedProgram,
    more: &[JobHandler],
) -> JobResult {
    let live = LIVE_MEMORY.load(Ordering::Relaxed);
    // Memory that is already in use does not count for this request.
    let fresh = || BASELINE_MEMORY.store(live, Ordering::Relaxed);
    Ok(if head.job_code == WorkerJob::PROGRAM.code {
        // A program that continues keeps its own baseline.
        desk.run_step(args, head.time_limit, fresh)
    } else {
        desk.clear();
        fresh();
        let own: [JobHandler; 2] = [
            (WorkerJob::PYTHON, python_runtime::evaluate_python),
            (WorkerJob::SQL, sql_query::run_query),
        ];
        let job = own.iter().chain(more).find(|(job, _)| job.code == head.job_code);
        let (_, compute) = job.ok_or(io::ErrorKind::InvalidData)?;
        compute(args, head.time_limit)
    })
}
