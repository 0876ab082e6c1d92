//! The process of one version of a plugin: JSON lines both ways, any number of calls at once.
//!
//! It is believed in nothing: lines, calls and times have bounds, and one that breaks the rules is ended.
//! Dropped, it ends.

mod ask;
mod host;
mod said;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandbox::process::{Child, Exit, GRACE, Line, Lines, OverlongLine, Tail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tool::{Json, Limits};

pub(crate) use ask::Net;
pub(crate) use host::{Host, Run};
pub(crate) use said::Told;

use said::Said;

/// Calls at once of one process.
const MOST_CALLS: usize = 64;
/// Longest line, in bytes: the largest answer, and what stands around it.
const LONGEST_LINE: usize = (16 << 20) + 4096;
/// Lines on the way to it.
const QUEUE: usize = 2 * MOST_CALLS;
/// Lines that belong to nothing, before it is ended.
const MOST_NOISE: u64 = 1_000;
/// How long a process that closed its output has to end.
const LAST: Duration = Duration::from_millis(500);
/// Bytes of standard error that are kept, and characters of them that are told.
const TAIL: usize = 8 << 10;
const TOLD: usize = 500;
/// Bytes of the text of a failure.
const FAILURE: usize = 8 << 10;

/// A process that is ready.
#[derive(Debug)]
pub(crate) struct Process {
    to: mpsc::Sender<Bytes>,
    shared: Arc<Shared>,
    number: AtomicU64,
    _end: DropGuard,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    Value(Json),
    /// The tool says that it failed.
    Failed(String),
    /// The process is gone, and why.
    Lost(String),
}

/// A line on how far a call is.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Answer>,
    progress: mpsc::Sender<Far>,
}

/// What both sides of a process look at.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, Waiting>,
    /// Why it is over.
    over: Option<String>,
    noise: u64,
}

/// Why a call did not begin.
#[derive(Debug)]
pub(crate) enum Unbegun {
    Busy,
    Over(String),
}

/// A call that was begun.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) number: u64,
    pub(crate) answer: oneshot::Receiver<Answer>,
    pub(crate) progress: mpsc::Receiver<Far>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: &str) {
        let waiting = {
            let mut state = self.lock();
            if state.over.is_none() {
                state.over = Some(why.to_owned());
            }
            std::mem::take(&mut state.waiting)
        };
        for (_, one) in waiting {
            let _gone = one.answer.send(Answer::Lost(why.to_owned()));
        }
    }

    /// Counts a line that belongs to nothing; whether there were too many.
    fn noise(&self) -> Result<(), String> {
        let mut state = self.lock();
        state.noise += 1;
        if state.noise > MOST_NOISE {
            return Err(format!("it wrote more than {MOST_NOISE} lines that answer nothing"));
        }
        Ok(())
    }
}

impl Process {
    /// Begins a call: `head` and the arguments are put together to its line.
    pub(crate) fn begin(&self, tool: &str, args: &Json) -> Result<Begun, Unbegun> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let line = call(number, tool, args);
        let (sender, answer) = oneshot::channel();
        let (far, progress) = mpsc::channel(8);
        {
            let mut state = self.shared.lock();
            if let Some(why) = &state.over {
                return Err(Unbegun::Over(why.clone()));
            }
            if state.waiting.len() >= MOST_CALLS {
                return Err(Unbegun::Busy);
            }
            state.waiting.insert(number, Waiting { answer: sender, progress: far });
        }
        if self.to.try_send(line).is_err() {
            self.shared.lock().waiting.remove(&number);
            return Err(Unbegun::Busy);
        }
        Ok(Begun { number, answer, progress })
    }

    /// Says that nobody waits for a call any more.
    pub(crate) fn cancel(&self, number: u64) {
        // Where there is no room for the word, the process is stuck and about to be ended.
        let _full = self.to.try_send(Bytes::from(format!("{{\"cancel\":{number}}}\n")));
    }

    /// Whether the process still works on a call.
    pub(crate) fn works_on(&self, number: u64) -> bool {
        self.shared.lock().waiting.contains_key(&number)
    }

    /// Why it is over, where it is.
    pub(crate) fn over(&self) -> Option<String> {
        self.shared.lock().over.clone()
    }
}

/// The line of a call. Line breaks in the arguments stand between values only, where a space is as good.
fn call(number: u64, tool: &str, args: &Json) -> Bytes {
    let args = args.bytes();
    let mut line = Vec::with_capacity(args.len() + tool.len() + 64);
    line.extend_from_slice(
        format!("{{\"call\":{number},\"tool\":\"{tool}\",\"arguments\":").as_bytes(),
    );
    line.extend(args.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

/// Writes lines until there are none to come, nobody reads, or it is to end.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Bytes>, end: CancellationToken) {
    let writing = async {
        while let Some(line) = lines.recv().await {
            if stdin.write_all(&line).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = writing => {}
        () = end.cancelled() => {}
    }
}

fn lines_of(stdout: ChildStdout) -> Lines<ChildStdout> {
    Lines::new(stdout, LONGEST_LINE, OverlongLine::Stop)
}

/// The next line that has an end; `None` where there is none. Dropping the future loses nothing.
///
/// # Errors
/// Where it is too long, in words.
async fn next_line(lines: &mut Lines<ChildStdout>) -> Result<Option<Bytes>, String> {
    match lines.next().await {
        Ok(Line::Whole(line)) => Ok(Some(line)),
        Ok(Line::TooLong(_)) => Err(format!("it wrote a line of more than {LONGEST_LINE} bytes")),
        Ok(Line::Rest(_) | Line::End) | Err(_) => Ok(None),
    }
}

/// What listening needs.
struct Listening {
    child: Child,
    lines: Lines<ChildStdout>,
    tail: Tail,
    shared: Arc<Shared>,
    net: Net,
    end: CancellationToken,
}

impl Listening {
    /// Until the process ends, breaks a rule, or is not wanted any more; then all of it is gone.
    async fn run(mut self) {
        let broken = loop {
            tokio::select! {
                line = next_line(&mut self.lines) => match line {
                    Ok(Some(line)) => {
                        if let Err(why) = self.take(&line) {
                            break Some(why);
                        }
                    }
                    Ok(None) => break None,
                    Err(why) => break Some(why),
                },
                () = self.end.cancelled() => break Some("it was ended".to_owned()),
            }
        };
        let why = match broken {
            Some(why) => why,
            None => self.ended().await,
        };
        self.shared.end(&why);
        self.child.kill(GRACE).await;
    }

    async fn ended(&mut self) -> String {
        let how = match tokio::time::timeout(LAST, self.child.wait()).await {
            Err(_) => "it closed its output".to_owned(),
            Ok(_) if self.child.too_heavy() => "it took more memory than it may".to_owned(),
            Ok(Exit::Code(code)) => format!("exit status {code}"),
            Ok(Exit::Signal(number)) => format!("signal {number}"),
            Ok(Exit::NotStarted(why)) => why,
            Ok(Exit::Lost) => "its supervisor was killed".to_owned(),
        };
        with_words(&how, &self.tail)
    }

    fn take(&self, line: &Bytes) -> Result<(), String> {
        let Some(said) = Said::read(line) else { return self.shared.noise() };
        match said {
            Said::Far { call, far } => {
                let state = self.shared.lock();
                if let Some(waiting) = state.waiting.get(&call) {
                    // Lossy: progress is told where there is room.
                    let _full = waiting.progress.try_send(far);
                    return Ok(());
                }
                drop(state);
                self.shared.noise()
            }
            Said::Done { call, answer } => {
                let waiting = self.shared.lock().waiting.remove(&call);
                let Some(waiting) = waiting else { return self.shared.noise() };
                let _gone = waiting.answer.send(checked(answer));
                Ok(())
            }
            Said::Ask { number, asked } => {
                self.net.ask(number, asked);
                Ok(())
            }
            Said::Ready(_) => self.shared.noise(),
        }
    }
}

fn checked(answer: Result<Bytes, String>) -> Answer {
    match answer {
        Ok(bytes) => match Json::check(bytes, Limits::DOCUMENT) {
            Ok(json) => Answer::Value(json),
            Err(error) => Answer::Failed(format!("the answer cannot be used: {error}")),
        },
        Err(mut words) => {
            words.truncate(words.floor_char_boundary(FAILURE));
            Answer::Failed(words)
        }
    }
}

/// How it ended, with the last of what it said to nobody.
fn with_words(how: &str, tail: &Tail) -> String {
    let text = tail.text();
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ");
    let from = words.char_indices().rev().nth(TOLD).map_or(0, |(at, _)| at);
    match words.get(from..).unwrap_or_default() {
        "" => how.to_owned(),
        last => format!("{how}; its last words: {}", last.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_line_whatever_its_arguments() {
        let args =
            Json::check("{\n \"a\": \"x\\ny\",\r\n\"b\":[1,\n2]}", Limits::ARGUMENTS).unwrap();
        let line = call(7, "t", &args);
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(value["arguments"], serde_json::json!({"a": "x\ny", "b": [1, 2]}));
        assert_eq!((&value["call"], &value["tool"]), (&7.into(), &"t".into()));
    }
}
