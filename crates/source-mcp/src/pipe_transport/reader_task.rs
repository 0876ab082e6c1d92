//! Reading task of a pipe. Dispatches each line to the request that it belongs to.

use std::io;
use std::sync::Arc;

use ::mcp::{
    MessageError, RequestId, RpcError, RpcMessage, RpcNotification, RpcRequest, RpcResponse, encode,
};
use bytes::Bytes;
use sandbox::process::{Line, Lines, OverlongLine};
use tokio::sync::mpsc;
use tool::{Json, JsonLimits};

use super::{CloseReason, InFlightTable, PipeReader};
use crate::connection::ConnectionContext;
use crate::in_flight_request::{
    InvalidResult, RequestEvent, unattributed_request_error, unsupported_method_error,
};
use crate::input_requests::is_forwarded;
use crate::notifications::RoutedNotification;
use crate::stray_output::StrayOutputVerdict;

/// Reading task of one pipe.
pub(super) struct ReaderTask {
    lines: Lines<PipeReader>,
    dispatcher: MessageDispatcher,
}

/// Dispatches messages to requests, calls and the writer.
struct MessageDispatcher {
    limits: JsonLimits,
    write_queue: mpsc::WeakSender<Bytes>,
    in_flight: Arc<InFlightTable>,
    context: ConnectionContext,
}

/// `None` ends the reading task.
type ReadFlow = Option<()>;

impl ReaderTask {
    pub(super) fn new(
        reader: PipeReader,
        max_line_bytes: usize,
        (outgoing, in_flight): (mpsc::WeakSender<Bytes>, Arc<InFlightTable>),
        context: ConnectionContext,
    ) -> Self {
        let limits = JsonLimits { max_bytes: max_line_bytes, ..JsonLimits::DOCUMENT };
        let sorting = MessageDispatcher { limits, write_queue: outgoing, in_flight, context };
        Self {
            lines: Lines::new(reader, max_line_bytes, OverlongLine::PassOver),
            dispatcher: sorting,
        }
    }

    /// Reads until the connection closes.
    pub(super) async fn run_reader(self) {
        let Self { mut lines, dispatcher: sorting } = self;
        let reading = async { while sorting.handle_line(lines.next().await).await.is_some() {} };
        tokio::select! {
            () = reading => {}
            () = sorting.context.close_signal.closed.cancelled() => {}
        }
        sorting.in_flight.close_all();
    }
}

impl MessageDispatcher {
    async fn handle_line(&self, line: io::Result<Line>) -> ReadFlow {
        match line {
            Ok(Line::Whole(line) | Line::Rest(line)) if line.is_empty() => Some(()),
            Ok(Line::Whole(line) | Line::Rest(line)) => {
                match RpcMessage::parse(line.clone(), self.limits) {
                    Ok(message) => {
                        self.context.stray_output.reset_run();
                        self.dispatch_message(message).await
                    }
                    Err(fault) => self.handle_invalid_line(&line, &fault),
                }
            }
            Ok(Line::TooLong(bytes)) => {
                let verdict = self.context.stray_output.record_oversized(bytes);
                // The only waiting request: the line was most likely its answer.
                if let Some(id) = self.in_flight.sole_request() {
                    let limit = self.limits.max_bytes;
                    let why = format!(
                        "a message of {bytes} bytes is longer than the limit of {limit}; raise `max_message` of the \
                         source"
                    );
                    self.complete_request(id, Err(RpcError::new(0, why)));
                }
                self.apply_verdict(verdict)
            }
            Ok(Line::End) => None,
            Err(error) => {
                self.context.close_signal.close_with(CloseReason::Io(error.to_string()));
                None
            }
        }
    }

    async fn dispatch_message(&self, message: RpcMessage) -> ReadFlow {
        match message {
            RpcMessage::Response(RpcResponse { id, result }) => {
                let id = id.as_ref().and_then(RequestId::as_number);
                // An error without an id belongs to the only waiting request, if the connection has
                // served one caller only.
                let only =
                    || self.in_flight.sole_request().filter(|_| !self.context.callers.is_shared());
                if let Some(id) = id.or_else(only) {
                    self.complete_request(id, result);
                }
                Some(())
            }
            RpcMessage::Request(request) => self.dispatch_input_request(request).await,
            RpcMessage::Notification(notice) => {
                let target = match self.context.notifications.route_notification(notice) {
                    RoutedNotification::Progress(id, progress) => {
                        (self.in_flight.get_request(id), RequestEvent::Progress(progress))
                    }
                    RoutedNotification::ForSubscription(id, notice) => {
                        self.forward_to_subscription(id, notice);
                        return Some(());
                    }
                    RoutedNotification::ForCall(notice) => {
                        let call = self.in_flight.find_target_call(notice.params.as_ref());
                        if call.is_none() {
                            self.context.callers.log_for_operator(&notice);
                        }
                        (call, RequestEvent::Notification(notice))
                    }
                    RoutedNotification::RequestCancelled(id) => {
                        for waiter in self.in_flight.list_calls() {
                            drop(waiter.try_send(RequestEvent::InputRequestCancelled(id.clone())));
                        }
                        return Some(());
                    }
                    RoutedNotification::Consumed => return Some(()),
                };
                if let (Some(waiter), event) = target {
                    // Dropped if the queue is full: the reader does not wait.
                    drop(waiter.try_send(event));
                }
                Some(())
            }
        }
    }

    /// Forwards a message of a subscription. If its queue is full, the subscription ends, so that its
    /// owner opens it anew at its last position and no event is lost unnoticed.
    fn forward_to_subscription(&self, id: i64, notice: RpcNotification) {
        let Some(waiter) = self.in_flight.get_request(id) else { return };
        if waiter.try_send(RequestEvent::Notification(notice)).is_err() {
            drop(self.in_flight.take_request(id));
        }
    }

    fn complete_request(&self, id: i64, answer: Result<Json, RpcError>) {
        if let Some(waiter) = self.in_flight.take_request(id) {
            // The queue has a free place. The receiver may be gone if the caller gave up.
            drop(waiter.events.try_send(RequestEvent::Response(answer)));
        }
    }

    /// Forwards a request to the call that it belongs to, or refuses it.
    async fn dispatch_input_request(&self, request: RpcRequest) -> ReadFlow {
        if request.method == "ping" {
            return self
                .send_reply(encode::encode_result(&request.id, &Json::empty_object()))
                .await;
        }
        if !is_forwarded(&request.method) {
            let error = unsupported_method_error(&request.method);
            return self.send_reply(encode::encode_error(Some(&request.id), &error)).await;
        }
        let (id, params) = (request.id.clone(), request.params.as_ref());
        if !self.in_flight.list_calls().is_empty() {
            self.context.callers.note_unattributed_request();
        }
        let call = self.in_flight.find_target_call(params);
        let sent = call.map(|waiter| waiter.try_send(RequestEvent::InputRequested(request)));
        if matches!(sent, Some(Ok(()))) {
            return Some(());
        }
        self.send_reply(encode::encode_error(Some(&id), &unattributed_request_error())).await
    }

    /// Waits for a place in the queue, so that answers to the server do not pile up.
    async fn send_reply(&self, message: Bytes) -> ReadFlow {
        self.write_queue.upgrade()?.send(message).await.ok()
    }

    /// A line that is no valid message may still be an invalid answer to a request.
    fn handle_invalid_line(&self, line: &Bytes, fault: &MessageError) -> ReadFlow {
        let spoiled = InvalidResult::from_response(line, fault);
        if let Some((id, spoiled)) = spoiled
            && let Some(waiter) = self.in_flight.take_request(id)
        {
            drop(waiter.events.try_send(RequestEvent::InvalidResponse(spoiled)));
            return Some(());
        }
        let verdict = self.context.stray_output.record_line(line, &fault.to_string());
        self.apply_verdict(verdict)
    }

    fn apply_verdict(&self, verdict: StrayOutputVerdict) -> ReadFlow {
        match verdict {
            StrayOutputVerdict::Tolerate => Some(()),
            StrayOutputVerdict::Abort(why) => {
                self.context.close_signal.close_with(CloseReason::StrayOutput(why));
                None
            }
        }
    }
}
