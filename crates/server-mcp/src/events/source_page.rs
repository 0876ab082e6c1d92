//! Events and pages as a source sends them, checked and written in the words of this server.
//!
//! A source is not trusted: its events have the members of the extension and no others, so that none
//! can look like a message of this server.

use mcp::meta;
use tool::Json;

use super::source_subscription::SourceEvents;

/// Maximum bytes of one event, as the extension recommends for webhooks.
const MAX_EVENT_BYTES: usize = 256 << 10;
/// Maximum bytes of an event id.
const MAX_ID_BYTES: usize = 1_024;
/// Maximum bytes of a timestamp.
const MAX_TIMESTAMP_BYTES: usize = 64;
/// Maximum bytes of a cursor of a source.
const MAX_CURSOR_BYTES: usize = 4_096;
/// Maximum bytes of the error with which a source ends a stream.
const MAX_ERROR_BYTES: usize = 16 << 10;
/// Times until the next poll that a source may ask for, in milliseconds, and the default.
const NEXT_POLL_MS: (std::ops::RangeInclusive<u64>, u64) = (1_000..=3_600_000, 5_000);

/// One event of a source.
#[derive(Debug, Clone)]
pub(super) struct SourceEvent {
    pub(super) id: String,
    /// The source's cursor after the event, if it says one.
    pub(super) cursor: Option<String>,
    timestamp: Json,
    data: Json,
    /// Metadata of the source, without what only this server may say.
    meta: Option<Json>,
}

/// The answer to one poll.
#[derive(Debug)]
pub(super) struct SourcePage {
    pub(super) events: Vec<SourceEvent>,
    pub(super) cursor: Option<String>,
    /// Whether events may have been skipped.
    pub(super) is_truncated: bool,
    pub(super) has_more: bool,
    pub(super) next_poll_ms: u64,
}

fn is_true(json: Option<&Json>) -> bool {
    json.is_some_and(|json| json.as_str() == "true")
}

fn short_string(json: Option<&Json>, max_bytes: usize) -> Option<String> {
    let text = json?.string_value()?;
    (!text.is_empty() && text.len() <= max_bytes).then(|| text.into_owned())
}

/// Reads a cursor; `Err` if it cannot be used.
pub(super) fn read_cursor(json: Option<&Json>) -> Result<Option<String>, &'static str> {
    match json.filter(|json| json.kind() != "null") {
        None => Ok(None),
        some => short_string(some, MAX_CURSOR_BYTES)
            .map(Some)
            .ok_or("a cursor that is no string, or too long"),
    }
}

/// Reads the error of a notification: its code, message and data, if they are short.
pub(super) fn read_error(params: &Json) -> Option<Json> {
    let error = params.get("error").filter(|it| it.bytes().len() <= MAX_ERROR_BYTES)?;
    let [code, message, data] = error.pick(["code", "message", "data"]);
    let code = code.filter(|code| code.decode::<i64>().is_ok())?;
    let message = message.filter(|message| message.kind() == "string")?;
    let members = [Some(("code", code)), Some(("message", message)), data.map(|it| ("data", it))];
    let members: Vec<_> = members.into_iter().flatten().collect();
    Some(Json::object_from(members.iter().map(|(key, value)| (*key, value))))
}

impl SourceEvents {
    /// Reads one event; `None` if it is too large, incomplete, or of another event type.
    pub(super) fn read_event(&self, event: &Json) -> Option<SourceEvent> {
        if event.bytes().len() > MAX_EVENT_BYTES {
            return None;
        }
        let [id, name, timestamp, data, cursor, beside] =
            event.pick(["eventId", "name", "timestamp", "data", "cursor", meta::META]);
        let is_own =
            name.as_ref().and_then(Json::string_value).is_some_and(|it| it == self.own_name);
        short_string(timestamp.as_ref(), MAX_TIMESTAMP_BYTES).filter(|_| is_own)?;
        let beside = beside.filter(|it| it.kind() == "object");
        let beside = beside.map(|it| meta::forwarded_meta(&it).members).unwrap_or_default();
        let members = beside
            .iter()
            .fold(Json::empty_object(), |all, (key, value)| all.with_member(key, value));
        Some(SourceEvent {
            id: short_string(id.as_ref(), MAX_ID_BYTES)?,
            cursor: read_cursor(cursor.as_ref()).ok()?,
            timestamp: timestamp?,
            data: data.filter(|data| data.kind() == "object")?,
            meta: (!beside.is_empty()).then_some(members),
        })
    }

    /// Reads the answer to a poll for at most `limit` events. An event that cannot be delivered is a gap.
    pub(super) fn read_page(
        &self,
        result: &Json,
        limit: usize,
    ) -> Result<SourcePage, &'static str> {
        let [events, cursor, truncated, more, next] =
            result.pick(["events", "cursor", "truncated", "hasMore", "nextPollMs"]);
        let events = events.filter(|events| events.kind() == "array").ok_or("no list of events")?;
        let received = events.elements();
        let events: Vec<_> =
            received.iter().take(limit).filter_map(|event| self.read_event(event)).collect();
        let is_incomplete = events.len() < received.len();
        let next = next.and_then(|next| next.decode::<u64>().ok()).unwrap_or(NEXT_POLL_MS.1);
        Ok(SourcePage {
            events,
            cursor: read_cursor(cursor.as_ref())?,
            is_truncated: is_true(truncated.as_ref()) || is_incomplete,
            has_more: is_true(more.as_ref()),
            next_poll_ms: next.clamp(*NEXT_POLL_MS.0.start(), *NEXT_POLL_MS.0.end()),
        })
    }

    /// Writes an event as it is delivered, with a sealed cursor where the mode has one.
    pub(super) fn write_event(&self, event: &SourceEvent, cursor: Option<Json>) -> Json {
        let members = [
            Some(("eventId", Json::encode(&event.id))),
            Some(("name", Json::encode(&self.name))),
            Some(("timestamp", event.timestamp.clone())),
            Some(("data", event.data.clone())),
            cursor.map(|cursor| ("cursor", cursor)),
            event.meta.clone().map(|beside| (meta::META, beside)),
        ];
        let members: Vec<_> = members.into_iter().flatten().collect();
        Json::object_from(members.iter().map(|(key, value)| (*key, value)))
    }
}
