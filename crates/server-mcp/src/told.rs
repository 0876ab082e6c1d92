//! Progress, log and elicitation notifications of a running call, filtered for its client.

use std::sync::{Arc, Mutex, PoisonError};

use mcp::{meta, sse, write};
use tool::Json;
use tool::executor::Progress;

use super::level::Level;
use super::outlet::Outlet;

/// Maximum length of a progress message, in characters.
const LINE: usize = 512;

/// Forwards notifications of one request to its stream, as far as the client wants them.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) outlet: Arc<Outlet>,
    /// The client's progress token; without it no progress is sent.
    pub(crate) token: Option<Json>,
    /// The minimum level of log messages; `None` for none.
    pub(crate) level: Option<Level>,
    /// The last reported progress, which must increase.
    pub(crate) last: Mutex<f64>,
}

impl Told {
    pub(crate) fn new(outlet: Arc<Outlet>, token: Option<Json>, level: Option<Level>) -> Self {
        Self { outlet, token, level, last: Mutex::new(f64::NEG_INFINITY) }
    }

    fn send(&self, method: &str, params: &Json) {
        self.outlet.notice(sse::event(&write::notification(method, params)));
    }

    /// Records `done` and returns whether it exceeds the last reported progress.
    fn grows(&self, done: f64) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // JSON cannot represent values that are not finite.
        let grows = done.is_finite() && done > *last;
        if grows {
            *last = done;
        }
        grows
    }
}

impl Progress for Told {
    fn report(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = self.token.as_ref().filter(|_| self.grows(done)) else { return };
        let done = Json::of(&done);
        let total = total.filter(|total| total.is_finite()).map(|total| Json::of(&total));
        let message = message.map(|line| Json::of(&line.chars().take(LINE).collect::<String>()));
        let fields = [
            Some((meta::PROGRESS_TOKEN, token)),
            Some(("progress", &done)),
            total.as_ref().map(|total| ("total", total)),
            message.as_ref().map(|message| ("message", message)),
        ];
        self.send("notifications/progress", &Json::fields(fields.into_iter().flatten()));
    }

    fn wanted(&self) -> bool {
        self.token.is_some()
    }

    fn notify(&self, method: &str, params: &Json) {
        match method {
            "notifications/progress" => {
                let done = params.get("progress").and_then(|done| done.read().ok());
                let token = self.token.as_ref().filter(|_| done.is_some_and(|d| self.grows(d)));
                if let Some(token) = token {
                    self.send(method, &params.with(meta::PROGRESS_TOKEN, token));
                }
            }
            "notifications/message" => {
                let level = params.get("level").and_then(|level| Level::read(&level));
                if self.level.is_some_and(|from| level.is_none_or(|level| level >= from)) {
                    self.send(method, params);
                }
            }
            // For an elicitation that is completed elsewhere, such as in a browser.
            "notifications/elicitation/complete" => self.send(method, params),
            _ => {}
        }
    }
}
