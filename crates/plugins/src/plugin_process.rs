//! Process of one plugin version: JSON lines in both directions, several concurrent calls.
//!
//! The process is untrusted: lines, calls and times are limited, and a process that violates a
//! limit is killed. Dropping this kills the process.

mod http_proxy;
mod messages;
mod supervisor;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandbox::process::{
    ChildExit, ChildProcess, DEFAULT_GRACE, Line, Lines, OutputTail, OverlongLine,
};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tool::{Json, JsonLimits};

pub(crate) use http_proxy::HttpProxy;
pub(crate) use messages::ReportedProblem;
pub(crate) use supervisor::{LaunchSpec, ProcessSupervisor};

use messages::ProcessMessage;

/// Calls at once of one process.
const MAX_CALLS: usize = 64;
/// Longest line in bytes: the largest result and its envelope.
const MAX_LINE_BYTES: usize = (16 << 20) + 4096;
/// Lines on the way to it.
const LINE_QUEUE: usize = 2 * MAX_CALLS;
/// Number of stray lines after which the process is killed.
const MAX_STRAY_LINES: u64 = 1_000;
/// How long a process that closed its output has to end.
const EXIT_WAIT: Duration = Duration::from_millis(500);
/// Size of the stored end of standard error in bytes, and its maximum number of characters in a
/// message.
const STDERR_TAIL_BYTES: usize = 8 << 10;
const STDERR_TAIL_CHARS: usize = 500;
/// Bytes of the text of a failure.
const MAX_ERROR_BYTES: usize = 8 << 10;

/// A plugin process that is ready for calls.
#[derive(Debug)]
pub(crate) struct PluginProcess {
    line_sender: mpsc::Sender<Bytes>,
    shared: Arc<SharedProcessState>,
    next_call_number: AtomicU64,
    _end: DropGuard,
}

/// Result of a call.
#[derive(Debug)]
pub(crate) enum PluginCallResult {
    Value(Json),
    /// The tool reported a failure.
    ToolFailed(String),
    /// The process ended, with the reason.
    ProcessLost(String),
}

/// Progress update of a call.
#[derive(Debug)]
pub(crate) struct ProgressUpdate {
    pub(crate) completed: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

#[derive(Debug)]
struct InFlightCall {
    result_sender: oneshot::Sender<PluginCallResult>,
    progress_sender: mpsc::Sender<ProgressUpdate>,
}

/// State that the caller and the output reader share.
#[derive(Debug, Default)]
struct SharedProcessState {
    state: Mutex<ProcessState>,
}

#[derive(Debug, Default)]
struct ProcessState {
    in_flight: HashMap<u64, InFlightCall>,
    /// Reason why the process ended.
    end_reason: Option<String>,
    stray_lines: u64,
}

/// Error of starting a call.
#[derive(Debug)]
pub(crate) enum StartCallError {
    Busy,
    Ended(String),
}

/// A call that was sent to the process.
#[derive(Debug)]
pub(crate) struct StartedCall {
    pub(crate) call_number: u64,
    pub(crate) result: oneshot::Receiver<PluginCallResult>,
    pub(crate) progress: mpsc::Receiver<ProgressUpdate>,
}

impl SharedProcessState {
    fn lock_state(&self) -> MutexGuard<'_, ProcessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail_all(&self, why: &str) {
        let waiting = {
            let mut state = self.lock_state();
            if state.end_reason.is_none() {
                state.end_reason = Some(why.to_owned());
            }
            std::mem::take(&mut state.in_flight)
        };
        for (_, one) in waiting {
            let _gone = one.result_sender.send(PluginCallResult::ProcessLost(why.to_owned()));
        }
    }

    /// Counts a stray line. Fails if there are too many.
    fn count_stray_line(&self) -> Result<(), String> {
        let mut state = self.lock_state();
        state.stray_lines += 1;
        if state.stray_lines > MAX_STRAY_LINES {
            return Err(format!(
                "it wrote more than {MAX_STRAY_LINES} lines that are not \
                responses"
            ));
        }
        Ok(())
    }
}

impl PluginProcess {
    /// Starts a call: sends a line with its number, the tool and the arguments.
    pub(crate) fn start_call(
        &self,
        tool: &str,
        args: &Json,
    ) -> Result<StartedCall, StartCallError> {
        let number = self.next_call_number.fetch_add(1, Ordering::Relaxed);
        let line = encode_call(number, tool, args);
        let (sender, answer) = oneshot::channel();
        let (far, progress) = mpsc::channel(8);
        {
            let mut state = self.shared.lock_state();
            if let Some(why) = &state.end_reason {
                return Err(StartCallError::Ended(why.clone()));
            }
            if state.in_flight.len() >= MAX_CALLS {
                return Err(StartCallError::Busy);
            }
            state
                .in_flight
                .insert(number, InFlightCall { result_sender: sender, progress_sender: far });
        }
        if self.line_sender.try_send(line).is_err() {
            self.shared.lock_state().in_flight.remove(&number);
            return Err(StartCallError::Busy);
        }
        Ok(StartedCall { call_number: number, result: answer, progress })
    }

    /// Tells the process that a call was cancelled.
    pub(crate) fn cancel_call(&self, number: u64) {
        // If the queue is full, the process is stuck and about to be killed.
        let _full = self.line_sender.try_send(Bytes::from(format!("{{\"cancel\":{number}}}\n")));
    }

    /// Whether the process still works on a call.
    pub(crate) fn is_in_flight(&self, number: u64) -> bool {
        self.shared.lock_state().in_flight.contains_key(&number)
    }

    /// Returns the reason why the process ended, if it has.
    pub(crate) fn end_reason(&self) -> Option<String> {
        self.shared.lock_state().end_reason.clone()
    }
}

/// Encodes the line of a call. Line breaks in the arguments are only between JSON tokens, so spaces
/// replace them.
fn encode_call(number: u64, tool: &str, args: &Json) -> Bytes {
    let args = args.bytes();
    let mut line = Vec::with_capacity(args.len() + tool.len() + 64);
    line.extend_from_slice(
        format!("{{\"call\":{number},\"tool\":\"{tool}\",\"arguments\":").as_bytes(),
    );
    line.extend(args.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

/// Writes lines until the queue is closed, the process stops reading, or the process must end.
async fn write_lines(
    mut stdin: ChildStdin,
    mut lines: mpsc::Receiver<Bytes>,
    end: CancellationToken,
) {
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

fn line_reader(stdout: ChildStdout) -> Lines<ChildStdout> {
    Lines::new(stdout, MAX_LINE_BYTES, OverlongLine::Stop)
}

/// Returns the next complete line; `None` at the end. Cancel-safe.
///
/// # Errors
/// A message if the line is too long.
async fn next_line(lines: &mut Lines<ChildStdout>) -> Result<Option<Bytes>, String> {
    match lines.next().await {
        Ok(Line::Whole(line)) => Ok(Some(line)),
        Ok(Line::TooLong(_)) => Err(format!("it wrote a line of more than {MAX_LINE_BYTES} bytes")),
        Ok(Line::Rest(_) | Line::End) | Err(_) => Ok(None),
    }
}

/// Reader of the process's output.
struct OutputReader {
    child: ChildProcess,
    lines: Lines<ChildStdout>,
    tail: OutputTail,
    shared: Arc<SharedProcessState>,
    http_proxy: HttpProxy,
    end: CancellationToken,
}

impl std::fmt::Debug for OutputReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputReader").finish_non_exhaustive()
    }
}

impl OutputReader {
    /// Reads the output until the process ends, violates a limit, or is stopped; then kills all of
    /// it.
    async fn read_output(mut self) {
        let broken = loop {
            tokio::select! {
                line = next_line(&mut self.lines) => match line {
                    Ok(Some(line)) => {
                        if let Err(why) = self.handle_line(&line) {
                            break Some(why);
                        }
                    }
                    Ok(None) => break None,
                    Err(why) => break Some(why),
                },
                () = self.end.cancelled() => break Some("it was stopped".to_owned()),
            }
        };
        let why = match broken {
            Some(why) => why,
            None => self.exit_reason().await,
        };
        self.shared.fail_all(&why);
        self.child.shut_down(DEFAULT_GRACE).await;
    }

    async fn exit_reason(&mut self) -> String {
        let how = match tokio::time::timeout(EXIT_WAIT, self.child.wait_ended()).await {
            Err(_) => "it closed its output".to_owned(),
            Ok(_) if self.child.exceeded_memory_limit() => {
                "it exceeded its memory limit".to_owned()
            }
            Ok(ChildExit::Code(code)) => format!("exit status {code}"),
            Ok(ChildExit::Signal(number)) => format!("signal {number}"),
            Ok(ChildExit::NotStarted(why)) => why,
            Ok(ChildExit::SupervisorLost) => "its supervisor was killed".to_owned(),
        };
        with_stderr_tail(&how, &self.tail)
    }

    fn handle_line(&self, line: &Bytes) -> Result<(), String> {
        let Some(message) = ProcessMessage::parse_message(line) else {
            return self.shared.count_stray_line();
        };
        match message {
            ProcessMessage::Progress { call, far } => {
                let state = self.shared.lock_state();
                if let Some(waiting) = state.in_flight.get(&call) {
                    // Progress is dropped if the channel is full.
                    let _full = waiting.progress_sender.try_send(far);
                    return Ok(());
                }
                drop(state);
                self.shared.count_stray_line()
            }
            ProcessMessage::CallEnded { call, answer } => {
                let waiting = self.shared.lock_state().in_flight.remove(&call);
                let Some(waiting) = waiting else { return self.shared.count_stray_line() };
                let _gone = waiting.result_sender.send(check_result(answer));
                Ok(())
            }
            ProcessMessage::HttpRequest { number, asked } => {
                self.http_proxy.handle_request(number, asked);
                Ok(())
            }
            ProcessMessage::Ready(_) => self.shared.count_stray_line(),
        }
    }
}

fn check_result(answer: Result<Bytes, String>) -> PluginCallResult {
    match answer {
        Ok(bytes) => match Json::parse(bytes, JsonLimits::DOCUMENT) {
            Ok(json) => PluginCallResult::Value(json),
            Err(error) => PluginCallResult::ToolFailed(format!("invalid response: {error}")),
        },
        Err(mut words) => {
            words.truncate(words.floor_char_boundary(MAX_ERROR_BYTES));
            PluginCallResult::ToolFailed(words)
        }
    }
}

/// Appends the end of standard error to the reason.
fn with_stderr_tail(how: &str, tail: &OutputTail) -> String {
    let text = tail.to_lossy_string();
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ");
    let from = words.char_indices().rev().nth(STDERR_TAIL_CHARS).map_or(0, |(at, _)| at);
    match words.get(from..).unwrap_or_default() {
        "" => how.to_owned(),
        last => format!("{how}; its last output: {}", last.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_line_whatever_its_arguments() {
        let args =
            Json::parse("{\n \"a\": \"x\\ny\",\r\n\"b\":[1,\n2]}", JsonLimits::ARGUMENTS).unwrap();
        let line = encode_call(7, "t", &args);
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(value["arguments"], serde_json::json!({"a": "x\ny", "b": [1, 2]}));
        assert_eq!((&value["call"], &value["tool"]), (&7.into(), &"t".into()));
    }
}
