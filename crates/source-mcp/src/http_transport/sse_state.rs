//! State of an event stream that outlives its connection: where to resume it, and when.

use std::time::Duration;

use ::mcp::sse::SseEvent;
use http::HeaderValue;

/// Position in an event stream, and the delay that the server asks for before a reconnect.
#[derive(Debug, Default)]
pub(super) struct SseState {
    /// Id of the last event that had one.
    pub(super) last_event_id: Option<HeaderValue>,
    pub(super) retry_delay: Option<Duration>,
}

impl SseState {
    /// Records the id and the delay of an event. Returns its data if it is a message.
    pub(super) fn accept_event(&mut self, event: SseEvent) -> Option<String> {
        if let Some(id) = event.id {
            self.last_event_id = HeaderValue::from_str(&id).ok().filter(|id| !id.is_empty());
        }
        if let Some(delay) = event.retry_ms {
            self.retry_delay = Some(Duration::from_millis(delay));
        }
        let is_message = matches!(event.event_type.as_deref(), None | Some("" | "message"));
        event.data.filter(|data| is_message && !data.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_have_data_and_every_event_may_move_the_position() {
        let mut state = SseState::default();
        let event = |id: &str, kind: Option<&str>, data: &str| SseEvent {
            event_type: kind.map(str::to_owned),
            data: Some(data.to_owned()),
            id: Some(id.to_owned()),
            retry_ms: None,
        };
        assert_eq!(state.accept_event(event("1", None, "{}")), Some("{}".to_owned()));
        assert_eq!(state.accept_event(event("2", Some("other"), "{}")), None);
        assert_eq!(state.last_event_id, Some(HeaderValue::from_static("2")));
        assert_eq!(state.accept_event(event("", Some("message"), " ")), None);
        assert_eq!((state.last_event_id.take(), state.retry_delay), (None, None));
        let retry = SseEvent { retry_ms: Some(20), ..SseEvent::default() };
        assert_eq!(state.accept_event(retry), None);
        assert_eq!(state.retry_delay, Some(Duration::from_millis(20)));
    }
}
