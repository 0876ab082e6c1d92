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

use super::Job;
use super::dedicated::WorkerShare;
use super::frame::{self, Head, Status, Told};
use super::program::Desk;
use super::{python, sql};

/// The command-line argument that makes the binary run [`work`].
pub const WORK: &str = "__work";
/// Memory limit of one request, in bytes.
const MOST: usize = 1 << 30;

/// A job with its handler: takes arguments and a time limit, and returns JSON or an error message
/// for the model.
pub type Extra = (Job, fn(&[u8], Duration) -> Result<Vec<u8>, String>);

/// Serves jobs of this crate and of `more` over standard input and output. Call it first in `main`,
/// in a sandbox. Returns a failure code if the process cannot be restricted or receives an unknown
/// request.
pub fn work(more: &[Extra]) -> ExitCode {
    let Ok(base) = sandbox::ration(&LIVE_MEMORY, MOST) else {
        return ExitCode::from(3);
    };
    BASELINE_MEMORY.store(base, Ordering::Relaxed);
    if sandbox::narrow().is_err() {
        return ExitCode::from(4);
    }
    let mut desk = Desk::default();
    serve_all(|head, args| computed(head, args, &mut desk, more))
}

/// Serves requests of a [`DedicatedWorker`](super::DedicatedWorker) over standard input and output.
/// `args` is the encoded [`WorkerShare`]. `begin` runs first and may start threads; then the
/// process drops what it does not need, and `answer` receives the code, time limit and bytes of
/// each request. `None` means that there is no such job. Call it first in `main`, in a sandbox.
/// Returns a failure code if the process cannot be restricted or receives an unknown request.
pub fn serve_dedicated<S>(
    args: impl IntoIterator<Item = OsString>,
    begin: impl FnOnce() -> S,
    mut answer: impl FnMut(&mut S, (u8, Duration), &[u8]) -> Option<Result<Vec<u8>, String>>,
) -> ExitCode {
    let Some(share) = WorkerShare::of_args(args) else { return ExitCode::from(2) };
    if sandbox::ration(&LIVE_MEMORY, share.memory).is_err() {
        return ExitCode::from(3);
    }
    let mut state = begin();
    if sandbox::narrow().is_err() {
        return ExitCode::from(4);
    }
    serve_all(|head, args| {
        answer(&mut state, (head.job, head.limit), args).ok_or(io::ErrorKind::InvalidData.into())
    })
}

/// An answer or an error message for the caller; an I/O error if the request is malformed.
type Computed = io::Result<Result<Vec<u8>, String>>;

/// Serves requests until the input ends.
fn serve_all(mut compute: impl FnMut(Head, &[u8]) -> Computed) -> ExitCode {
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    loop {
        match serve((&mut stdin, &mut stdout), &mut compute) {
            Ok(true) => {}
            Ok(false) => return ExitCode::SUCCESS,
            Err(_) => return ExitCode::from(2),
        }
    }
}

/// Serves one request; returns false at the end of the input.
fn serve(
    (from, to): (&mut impl Read, &mut impl Write),
    compute: &mut impl FnMut(Head, &[u8]) -> Computed,
) -> io::Result<bool> {
    let mut head = [0; frame::REQUEST];
    match from.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    }
    let head = Head::decode(head).ok_or(io::ErrorKind::InvalidData)?;
    let mut args = vec![0; head.length];
    from.read_exact(&mut args)?;
    let (before, _) = host::memory::used();
    let (status, answer) = match compute(head, &args)? {
        Ok(answer) => (Status::Value, answer),
        Err(words) => (Status::Failure, words.into_bytes()),
    };
    let (after, peak) = host::memory::used();
    let used = (after.saturating_sub(before), peak);
    to.write_all(&Told { status, used, length: answer.len() }.encode())?;
    to.write_all(&answer)?;
    to.flush()?;
    Ok(true)
}

/// Runs the job of a request, which is one of this crate or of `more`.
fn computed(head: Head, args: &[u8], desk: &mut Desk, more: &[Extra]) -> Computed {
    let live = LIVE_MEMORY.load(Ordering::Relaxed);
    // Memory that is already in use does not count for this request.
    let fresh = || BASELINE_MEMORY.store(live, Ordering::Relaxed);
    Ok(if head.job == Job::PROGRAM.letter {
        // A program that continues keeps its own baseline.
        desk.step(args, head.limit, fresh)
    } else {
        desk.clear();
        fresh();
        let own: [Extra; 2] = [(Job::PYTHON, python::evaluate), (Job::SQL, sql::query)];
        let job = own.iter().chain(more).find(|(job, _)| job.letter == head.job);
        let (_, compute) = job.ok_or(io::ErrorKind::InvalidData)?;
        compute(args, head.limit)
    })
}
