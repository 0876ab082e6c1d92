//! Progress, log and elicitation notifications of a running call, filtered for its client.

use std::sync::{Arc, Mutex, PoisonError};

use mcp::{encode, meta, sse};
use tool::Json;
use tool::executor::ProgressSink;

use super::event_sink::EventSink;
use super::log_level::LogLevel;

/// Maximum length of a progress message, in characters.
const MAX_PROGRESS_CHARS: usize = 512;

/// Forwards notifications of one request to its stream, as far as the client wants them.
#[derive(Debug)]
pub(crate) struct ProgressStream {
    pub(crate) event_sink: Arc<EventSink>,
    /// The client's progress token; without it no progress is sent.
    pub(crate) progress_token: Option<Json>,
    /// The minimum level of log messages; `None` for none.
    pub(crate) min_level: Option<LogLevel>,
    /// The last reported progress, which must increase.
    pub(crate) last_progress: Mutex<f64>,
}

impl ProgressStream {
    pub(crate) fn new(sink: Arc<EventSink>, token: Option<Json>, level: Option<LogLevel>) -> Self {
        Self {
            event_sink: sink,
            progress_token: token,
            min_level: level,
            last_progress: Mutex::new(f64::NEG_INFINITY),
        }
    }

    fn send_notification(&self, method: &str, params: &Json) {
        self.event_sink
            .send_notification(sse::encode_event(&encode::encode_notification(method, params)));
    }

    /// Records `done` and returns whether it exceeds the last reported progress.
    fn advance_progress(&self, done: f64) -> bool {
        let mut last = self.last_progress.lock().unwrap_or_else(PoisonError::into_inner);
        // JSON cannot represent values that are not finite.
        let grows = done.is_finite() && done > *last;
        if grows {
            *last = done;
        }
        grows
    }
}

impl ProgressSink for ProgressStream {
    fn report_progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = self.progress_token.as_ref().filter(|_| self.advance_progress(done))
        else {
            return;
        };
        let done = Json::encode(&done);
        let total = total.filter(|total| total.is_finite()).map(|total| Json::encode(&total));
        let message = message
            .map(|line| Json::encode(&line.chars().take(MAX_PROGRESS_CHARS).collect::<String>()));
        let fields = [
            Some((meta::PROGRESS_TOKEN, token)),
            Some(("progress", &done)),
            total.as_ref().map(|total| ("total", total)),
            message.as_ref().map(|message| ("message", message)),
        ];
        self.send_notification(
            "notifications/progress",
            &Json::object_from(fields.into_iter().flatten()),
        );
    }

    fn has_listener(&self) -> bool {
        self.progress_token.is_some()
    }

    fn forward_notification(&self, method: &str, params: &Json) {
        match method {
            "notifications/progress" => {
                let done = params.get("progress").and_then(|done| done.decode().ok());
                let token = self
                    .progress_token
                    .as_ref()
                    .filter(|_| done.is_some_and(|d| self.advance_progress(d)));
                if let Some(token) = token {
                    self.send_notification(
                        method,
                        &params.with_member(meta::PROGRESS_TOKEN, token),
                    );
                }
            }
            "notifications/message" => {
                let level = params.get("level").and_then(|level| LogLevel::from_json(&level));
                if self.min_level.is_some_and(|from| level.is_none_or(|level| level >= from)) {
                    self.send_notification(method, params);
                }
            }
            // For an elicitation that is completed elsewhere, such as in a browser.
            "notifications/elicitation/complete" => self.send_notification(method, params),
            _ => {}
        }
    }
}
