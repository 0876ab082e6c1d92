//! Params that the methods of the events extension share.

use tool::Json;

use crate::request_context::{RequestContext, require_string};
use crate::request_error::RequestError;

/// Maximum and default number of events of one poll.
pub(super) const MAX_POLL_EVENTS: usize = 100;

/// Where a subscription begins, as a request says it.
#[derive(Debug, Default)]
pub(super) struct StartParams {
    /// `None` for now.
    pub(super) cursor: Option<String>,
    /// Maximum age of replayed events.
    pub(super) max_age_ms: Option<u64>,
}

fn pick_value(request: &RequestContext<'_>, key: &'static str) -> Option<Json> {
    let [value] = request.pick_params([key]);
    value.filter(|json| json.kind() != "null")
}

impl StartParams {
    /// Parses `cursor` and `maxAgeMs`.
    pub(super) fn parse(request: &RequestContext<'_>) -> Result<Self, RequestError> {
        let cursor = pick_value(request, "cursor");
        let cursor = cursor.map(|json| require_string("cursor", Some(&json))).transpose()?;
        let max_age = pick_value(request, "maxAgeMs").map(|json| json.decode::<u64>()).transpose();
        let max_age_ms = max_age.map_err(|_| {
            RequestError::invalid_params("`params.maxAgeMs` must be a number of milliseconds")
        })?;
        Ok(Self { cursor, max_age_ms })
    }
}

/// Parses `maxEvents`, within the maximum of this server.
pub(super) fn parse_max_events(request: &RequestContext<'_>) -> Result<usize, RequestError> {
    match pick_value(request, "maxEvents").map(|json| json.decode::<usize>()) {
        None => Ok(MAX_POLL_EVENTS),
        Some(Ok(limit)) if limit > 0 => Ok(limit.min(MAX_POLL_EVENTS)),
        Some(_) => {
            let message = "`params.maxEvents` must be a number of at least 1";
            Err(RequestError::invalid_params(message))
        }
    }
}

/// Parses the name of the event type.
pub(super) fn parse_event_name(request: &RequestContext<'_>) -> Result<String, RequestError> {
    require_string("name", request.named_params.name.as_ref())
}
