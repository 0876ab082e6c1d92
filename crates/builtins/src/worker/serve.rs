//! The worker's own side: reads a request, computes, answers, until its input ends.
//!
//! Before the first request it gives up all it will not need. It has one thread, and keeps nothing from
//! one request for the next but a program that stopped at a call, until another request comes.

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

/// The word with which the binary is asked to run [`work`].
pub const WORK: &str = "__work";
/// Bytes that one request may take of memory, all in all.
const MOST: usize = 1 << 30;

/// A job that another crate does: from arguments and the time it has to an answer as JSON, or to words for
/// the model.
pub type Extra = (Job, fn(&[u8], Duration) -> Result<Vec<u8>, String>);

/// Computes for the process at the other ends of standard input and output: what the tools here need, and
/// what `more` says. To be called first thing in `main`, in a cage. Answers failure where it cannot be
/// bound, or is spoken to in no known way.
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

/// Computes for a [`DedicatedWorker`](super::DedicatedWorker) at the other ends of standard input and output. `args`
/// are what its [`WorkerShare`] wrote. `begin` runs first, and may start threads; then this process gives up
/// all that it does not need, and `answer` is called with each request's letter and bytes. `None` means that
/// there is no such job. To be called first thing in `main`, in a cage. Answers failure where it cannot be bound,
/// or is spoken to in no known way.
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

/// An answer, or words for the caller; an error where the request is in no known form.
type Computed = io::Result<Result<Vec<u8>, String>>;

/// Answers requests until the input ends.
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

/// One request; false where the input has ended before one.
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

/// What one of the jobs here, or of `more`, comes to.
fn computed(head: Head, args: &[u8], desk: &mut Desk, more: &[Extra]) -> Computed {
    let live = LIVE_MEMORY.load(Ordering::Relaxed);
    // What the worker has by now is not the request's.
    let fresh = || BASELINE_MEMORY.store(live, Ordering::Relaxed);
    Ok(if head.job == Job::PROGRAM.letter {
        // A program that goes on has what it had.
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
