//! Stream for messages that a server of MCP 2025-11-25 or older sends outside of any response.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::sse;
use ::mcp::{RpcMessage, RpcNotification, RpcRequest, error_codes};
use egress::EgressBody;
use http::StatusCode;
use tokio::time::{Instant, sleep};
use tool::JsonLimits;

use super::response_body;
use super::response_stream::answer_request;
use super::sse_state::SseState;
use crate::connection::{DeliveryError, McpConnection};
use crate::in_flight_request::{RequestEvent, unattributed_request_error};
use crate::input_requests::is_forwarded;
use crate::notifications::RoutedNotification;
use crate::stray_output::StrayOutputVerdict;

/// Minimum and maximum delay before a stream that ended is opened again.
const RECONNECT_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Listens until the connection closes or the server says that it has no such stream.
pub(crate) async fn run_server_stream(connection: Arc<McpConnection>) {
    tokio::select! {
        () = connection.wait_until_closed() => {}
        () = reconnect_loop(&connection) => {}
    }
}

async fn reconnect_loop(link: &Arc<McpConnection>) {
    let Some(endpoint) = link.http_transport() else { return };
    let (mut wait, mut generation) = (RECONNECT_BACKOFF.0, endpoint.current_session().generation);
    let mut reader = ServerStreamReader { state: SseState::default() };
    loop {
        let since = Instant::now();
        let seat = endpoint.current_session();
        if seat.generation != generation {
            // Event ids are valid in one session only.
            (generation, reader.state.last_event_id) = (seat.generation, None);
        }
        if let Ok(response) = endpoint.open_stream(&seat, reader.state.last_event_id.as_ref()).await
        {
            let status = response.status();
            let streams = status.is_success()
                && response_body::content_kind(&response)
                    == response_body::ContentKind::EventStream;
            if streams {
                reader.read_events(response.into_body(), link, endpoint.max_message_bytes).await;
            } else {
                response_body::drain_body(response.into_body()).await;
                if status == StatusCode::NOT_FOUND && seat.has_session_id {
                    // If that fails, the next call reports it.
                    drop(link.renew_session(seat.generation).await);
                } else if status.is_client_error() && !is_retryable(status) || status.is_success() {
                    // 405 or another client error: the server has no such stream.
                    return;
                }
            }
        }
        wait = if since.elapsed() > RECONNECT_BACKOFF.1 { RECONNECT_BACKOFF.0 } else { wait };
        let delay = reader.state.retry_delay.unwrap_or(wait);
        sleep(delay.clamp(RECONNECT_BACKOFF.0, RECONNECT_BACKOFF.1)).await;
        wait = wait.saturating_mul(2).min(RECONNECT_BACKOFF.1);
    }
}

/// Forwards a request to the call that it belongs to, or refuses it.
async fn dispatch_request(link: &McpConnection, question: RpcRequest) -> Result<(), DeliveryError> {
    if !is_forwarded(&question.method) {
        return answer_request(&question, link).await;
    }
    let id = question.id.clone();
    let (beside, audience) = (&link.context.close_signal.session_events, &link.context.callers);
    if beside.has_calls() {
        audience.note_unattributed_request();
    }
    let call = beside.find_target_call(question.params.as_ref(), audience);
    if let Some(Ok(())) =
        call.map(|call| beside.push_for_call(call, RequestEvent::InputRequested(question)))
    {
        return Ok(());
    }
    link.respond_to_server(&id, &Err(unattributed_request_error())).await
}

fn dispatch_notification(link: &McpConnection, notice: RpcNotification) {
    let (beside, audience) = (&link.context.close_signal.session_events, &link.context.callers);
    // Dropped if the buffer is full, as for every transport.
    drop(match link.context.notifications.route_notification(notice) {
        RoutedNotification::Progress(call, progress) => {
            beside.push_for_call(call, RequestEvent::Progress(progress))
        }
        RoutedNotification::ForCall(notice) => {
            let Some(call) = beside.find_target_call(notice.params.as_ref(), audience) else {
                return audience.log_for_operator(&notice);
            };
            beside.push_for_call(call, RequestEvent::Notification(notice))
        }
        RoutedNotification::RequestCancelled(id) => return beside.cancel_input_request(&id),
        RoutedNotification::ForSubscription(..) | RoutedNotification::Consumed => Ok(()),
    });
}

fn is_retryable(status: StatusCode) -> bool {
    matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

struct ServerStreamReader {
    state: SseState,
}

impl ServerStreamReader {
    async fn read_events(&mut self, mut body: EgressBody, link: &Arc<McpConnection>, most: usize) {
        let mut reader = sse::SseDecoder::new(most);
        while let Ok(Some(part)) = body.next_chunk().await {
            if reader.feed_bytes(&part).is_err() {
                return;
            }
            while let Some(event) = reader.next_event() {
                if self.handle_event(event, link, most).await.is_none() {
                    return;
                }
            }
        }
    }

    async fn handle_event(
        &mut self,
        event: sse::SseEvent,
        link: &Arc<McpConnection>,
        most: usize,
    ) -> Option<()> {
        let Some(data) = self.state.accept_event(event) else { return Some(()) };
        match RpcMessage::parse(
            data.clone(),
            JsonLimits { max_bytes: most, ..JsonLimits::DOCUMENT },
        ) {
            Ok(RpcMessage::Notification(notice)) => dispatch_notification(link, notice),
            Ok(RpcMessage::Request(question)) => dispatch_request(link, question).await.ok()?,
            Err(fault) if fault.error.code == error_codes::PARSE_ERROR => {
                let verdict =
                    link.context.stray_output.record_line(data.as_bytes(), &fault.to_string());
                if let StrayOutputVerdict::Abort(_) = verdict {
                    return None;
                }
            }
            Ok(RpcMessage::Response(_)) | Err(_) => {}
        }
        Some(())
    }
}
