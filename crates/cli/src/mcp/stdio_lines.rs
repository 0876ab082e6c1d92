//! Standard input and output as lines, one message each.
//!
//! Each runs on its own thread: a blocking read cannot be cancelled, and must not keep the process
//! from exiting.

use std::io::{self, BufRead as _, Read as _, Write as _};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

/// Maximum length of a line, in bytes; a longer one ends the conversation.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// Maximum number of queued lines.
const LINE_QUEUE_CAPACITY: usize = 64;

/// Starts the thread that reads lines from standard input.
pub(super) fn spawn_stdin_reader() -> mpsc::Receiver<Bytes> {
    let (sender, lines) = mpsc::channel(LINE_QUEUE_CAPACITY);
    // Without a thread there is no input.
    drop(std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) || line.last() != Some(&b'\n') {
                if read.is_ok_and(|read| read as u64 == MAX_LINE_BYTES) {
                    tracing::error!(bytes = MAX_LINE_BYTES, "the line is too long");
                }
                let last = trim_ascii(&Bytes::from(line));
                drop(sender.blocking_send(last));
                return;
            }
            if sender.blocking_send(trim_ascii(&Bytes::from(line))).is_err() {
                return;
            }
        }
    }));
    lines
}

/// Starts the thread that writes lines to standard output; returns the queue and a future that
/// resolves when all are written.
pub(super) fn spawn_stdout_writer() -> (mpsc::Sender<Bytes>, impl Future<Output = ()>) {
    let (sender, mut lines) = mpsc::channel::<Bytes>(LINE_QUEUE_CAPACITY);
    let (done, written) = oneshot::channel::<()>();
    drop(std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        let _done = done;
        let mut output = io::stdout().lock();
        while let Some(line) = lines.blocking_recv() {
            let line = mcp::encode::to_single_line(line);
            let sent = output.write_all(&line).and_then(|()| output.write_all(b"\n"));
            if sent.and_then(|()| output.flush()).is_err() {
                return;
            }
        }
    }));
    let written = async move {
        // An error means that the thread has ended, which is awaited here.
        written.await.unwrap_or_default();
    };
    (sender, written)
}

/// Trims ASCII whitespace from `bytes` without copying.
fn trim_ascii(bytes: &Bytes) -> Bytes {
    bytes.slice_ref(<[u8]>::trim_ascii(bytes))
}
