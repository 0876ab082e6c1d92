//! MCP over a pair of pipes, one message per line.
//!
//! One task writes and one task reads. Lines and stray output have limits, and a child that stops
//! reading its input is detected.

mod reader_task;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ::mcp::encode::to_single_line;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufWriter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool::Json;

use super::call_attribution::{ConnectionCallers, find_target_call};
use super::connection::{ConnectionContext, DeliveryError};
use super::http_transport::SessionEvents;
use super::in_flight_request::RequestEvent;

use reader_task::ReaderTask;

/// Messages that may be queued for the writer.
const WRITE_QUEUE_LEN: usize = 64;
/// Events of one request that may be queued beside its answer. Further progress and log lines are
/// dropped.
const EVENT_QUEUE_LEN: usize = 17;
/// Events of one stream of events that may be queued. One more ends the stream.
const STREAM_QUEUE_LEN: usize = 64;

/// Maximum time that a child may leave its input unread while a message waits.
pub(super) const WRITE_STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Output end of a child process, or of a test double.
pub type PipeReader = Box<dyn AsyncRead + Send + Unpin>;
/// Input end of a child process, or of a test double.
pub type PipeWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// Reason why Toolkeep closed a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// The child wrote too much stray output.
    StrayOutput(String),
    /// The child does not read its input.
    WriteStalled,
    /// Reading or writing failed.
    Io(String),
    /// The endpoint forgot the session and opens no new one.
    SessionLost(String),
}

/// Close state that both directions of a connection share.
#[derive(Debug, Default)]
pub(super) struct CloseSignal {
    reason: OnceLock<CloseReason>,
    /// Fires when the connection is closed by [`Self::close`].
    pub(super) closed: CancellationToken,
    /// Events for calls that arrive outside of their own streams, over HTTP.
    pub(super) session_events: SessionEvents,
}

impl CloseSignal {
    /// Returns the reason, if it is known.
    pub(super) fn close_reason(&self) -> Option<&CloseReason> {
        self.reason.get()
    }

    pub(super) fn close_with(&self, reason: CloseReason) {
        // The first reason counts.
        drop(self.reason.set(reason));
        self.close();
    }

    /// Marks the connection as closed and wakes all waiting requests.
    pub(super) fn close(&self) {
        self.closed.cancel();
        self.session_events.close();
    }
}

/// Connection over a pair of pipes.
#[derive(Debug)]
pub(super) struct PipeTransport {
    /// `None` once closed: then the writer task ends and closes the child's input.
    write_queue: Mutex<Option<mpsc::Sender<Bytes>>>,
    in_flight: Arc<InFlightTable>,
}

impl PipeTransport {
    /// Starts the two tasks of a connection, which end with it. `max_line_bytes` limits a line.
    pub(super) fn spawn_tasks(
        (reader, writer): (PipeReader, PipeWriter),
        max_line_bytes: usize,
        context: ConnectionContext,
    ) -> Self {
        let (out, queue) = mpsc::channel(WRITE_QUEUE_LEN);
        let waiting = Arc::new(InFlightTable {
            close_signal: Arc::clone(&context.close_signal),
            callers: Arc::clone(&context.callers),
            requests: Mutex::default(),
        });
        let end = Arc::clone(&context.close_signal);
        drop(context.tasks.spawn(async move {
            if let Err(why) = run_writer(writer, queue).await {
                end.close_with(why);
            }
        }));
        let tasks = context.tasks.clone();
        let reading = ReaderTask::new(
            reader,
            max_line_bytes,
            (out.downgrade(), Arc::clone(&waiting)),
            context,
        );
        drop(tasks.spawn(reading.run_reader()));
        Self { write_queue: Mutex::new(Some(out)), in_flight: waiting }
    }

    /// Registers a request and returns its event queue; `None` if the connection is closed.
    pub(super) fn register_request(
        &self,
        id: i64,
        role: RequestRole,
    ) -> Option<mpsc::Receiver<RequestEvent>> {
        self.register_with_queue(id, role, EVENT_QUEUE_LEN)
    }

    /// Registers a request for a stream of events.
    pub(super) fn register_stream(
        &self,
        id: i64,
        role: RequestRole,
    ) -> Option<mpsc::Receiver<RequestEvent>> {
        self.register_with_queue(id, role, STREAM_QUEUE_LEN)
    }

    fn register_with_queue(
        &self,
        id: i64,
        role: RequestRole,
        queue_len: usize,
    ) -> Option<mpsc::Receiver<RequestEvent>> {
        let (events, received) = mpsc::channel(queue_len);
        self.in_flight.lock_requests().insert(id, ResponseSender { events, role });
        if self.in_flight.close_signal.closed.is_cancelled() {
            self.unregister_request(id);
            return None;
        }
        Some(received)
    }

    /// Removes a request that no longer waits.
    pub(super) fn unregister_request(&self, id: i64) {
        drop(self.in_flight.take_request(id));
    }

    /// Queues one message; waits while the queue is full.
    pub(super) async fn send_message(&self, message: Bytes) -> Result<(), DeliveryError> {
        let out = self.write_queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sent = out.ok_or(DeliveryError::ConnectionClosed)?.send(to_single_line(message)).await;
        sent.map_err(|_| DeliveryError::ConnectionClosed)
    }

    /// Closes the child's input, which makes most servers exit.
    pub(super) fn close_input(&self) {
        drop(self.write_queue.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Role of a request: only calls can receive requests of the server.
#[derive(Debug, Clone)]
pub(super) enum RequestRole {
    /// Request of Toolkeep itself.
    Internal,
    /// Call, or the request for the result of the task with this id.
    Call(Option<Arc<str>>),
}

/// Requests that wait for their answers.
#[derive(Debug)]
struct InFlightTable {
    close_signal: Arc<CloseSignal>,
    callers: Arc<ConnectionCallers>,
    requests: Mutex<HashMap<i64, ResponseSender>>,
}

#[derive(Debug, Clone)]
struct ResponseSender {
    events: mpsc::Sender<RequestEvent>,
    role: RequestRole,
}

impl InFlightTable {
    fn lock_requests(&self) -> MutexGuard<'_, HashMap<i64, ResponseSender>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_request(&self, id: i64) -> Option<ResponseSender> {
        self.lock_requests().remove(&id)
    }

    /// Closes the connection; each waiting request sees it.
    fn close_all(&self) {
        self.close_signal.close();
        drop(std::mem::take(&mut *self.lock_requests()));
    }

    /// Returns the only waiting request, if there is exactly one.
    fn sole_request(&self) -> Option<i64> {
        let open = self.lock_requests();
        open.keys().next().copied().filter(|_| open.len() == 1)
    }

    /// Finds the call in flight that a message with these params belongs to.
    fn find_target_call(&self, params: Option<&Json>) -> Option<ResponseSender> {
        let open = self.lock_requests();
        let calls = open.iter().filter_map(|(id, waiter)| match &waiter.role {
            RequestRole::Call(task) => Some((*id, task.as_deref())),
            RequestRole::Internal => None,
        });
        let call = find_target_call(calls, params, &self.callers)?;
        open.get(&call).cloned()
    }

    /// Returns all calls in flight.
    fn list_calls(&self) -> Vec<ResponseSender> {
        let open = self.lock_requests();
        open.values()
            .filter(|waiter| matches!(waiter.role, RequestRole::Call(_)))
            .cloned()
            .collect()
    }

    fn get_request(&self, id: i64) -> Option<ResponseSender> {
        self.lock_requests().get(&id).cloned()
    }
}

impl ResponseSender {
    /// Queues an event. One place stays free for the answer.
    fn try_send(&self, event: RequestEvent) -> Result<(), RequestEvent> {
        if self.events.capacity() < 2 {
            return Err(event);
        }
        self.events.try_send(event).map_err(|error| match error {
            mpsc::error::TrySendError::Full(event) | mpsc::error::TrySendError::Closed(event) => {
                event
            }
        })
    }
}

async fn run_writer(
    writer: PipeWriter,
    mut queue: mpsc::Receiver<Bytes>,
) -> Result<(), CloseReason> {
    let mut writer = BufWriter::new(writer);
    while let Some(line) = queue.recv().await {
        let written = async {
            writer.write_all(&line).await?;
            writer.write_all(b"\n").await?;
            if queue.is_empty() { writer.flush().await } else { Ok(()) }
        };
        match tokio::time::timeout(WRITE_STALL_TIMEOUT, written).await {
            Ok(Ok(())) => {}
            // The reading task reports the close, so a failed write adds nothing.
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            Ok(Err(error)) => return Err(CloseReason::Io(error.to_string())),
            Err(_) => return Err(CloseReason::WriteStalled),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
