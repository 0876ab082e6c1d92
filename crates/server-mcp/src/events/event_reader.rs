//! Reads the events of one subscription: of its kind, with its arguments, and visible to its caller
//! when they are read.

use std::sync::Arc;

use identity::Principal;
use server_core::event_log::{EventKind, ServerEvent, is_event_visible};
use server_core::sealing_key::SealingKey;
use server_core::server_state::StateInner;
use tool::{Json, Secret};
use uuid::Uuid;

use super::event_errors::unknown_event;
use super::event_params::{StartParams, parse_event_name};
use super::event_types::{filter_names, is_offered};
use crate::request_context::RequestContext;
use crate::request_error::RequestError;

/// Number of bytes of the id of a process's log.
const EPOCH_BYTES: usize = 16;

/// Seals positions of the log and cursors of sources, so that a cursor shows no other caller's activity
/// and moves to nobody.
#[derive(Debug)]
pub(crate) struct CursorKey {
    log: SealingKey,
    sources: SealingKey,
}

impl CursorKey {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self {
            log: SealingKey::new(secret, "toolkeep mcp event cursor"),
            sources: SealingKey::new(secret, "toolkeep mcp source event cursor"),
        }
    }

    pub(super) fn seal_source_cursor(&self, binding: &[&str], cursor: &str) -> Option<String> {
        self.sources.seal_bytes(binding, cursor.as_bytes())
    }

    pub(super) fn open_source_cursor(&self, binding: &[&str], sealed: &str) -> Option<String> {
        String::from_utf8(self.sources.open_sealed(binding, sealed)?).ok()
    }
}

/// Takes over the rights of a caller's key as they are now. Returns false if it is no longer valid.
pub(super) fn renew_principal(state: &StateInner, principal: &mut Principal) -> bool {
    let now = state.components.clock.wall_now();
    let Some(current) = state.components.keys.current_principal(principal, now) else {
        return false;
    };
    *principal = current;
    true
}

/// A subscription to events of this server, as a request names it.
#[derive(Debug, Clone)]
pub(super) struct EventSubscription {
    pub(super) kind: EventKind,
    /// Required values of members of the data.
    pub(super) filters: Vec<(String, String)>,
}

impl EventSubscription {
    /// Parses name and arguments, of a kind that the caller may subscribe to.
    pub(super) fn parse(request: &RequestContext<'_>) -> Result<Self, RequestError> {
        let name = parse_event_name(request)?;
        let arguments = request.named_params.arguments.clone();
        let (state, principal) = (request.caller.state, request.caller.principal);
        let kind = EventKind::parse(&name).filter(|kind| is_offered(state, principal, *kind));
        let kind = kind.ok_or_else(|| unknown_event(&name))?;
        let filters = parse_filters(kind, arguments.filter(|json| json.kind() != "null"))?;
        Ok(Self { kind, filters })
    }

    fn matches(&self, event: &ServerEvent) -> bool {
        let has = |name: &str, value: &str| {
            event
                .data
                .get(name)
                .is_some_and(|json| json.string_value().is_some_and(|it| it == value))
        };
        event.kind == self.kind && self.filters.iter().all(|(name, value)| has(name, value))
    }
}

fn parse_filters(
    kind: EventKind,
    arguments: Option<Json>,
) -> Result<Vec<(String, String)>, RequestError> {
    let Some(arguments) = arguments else { return Ok(Vec::new()) };
    let known = filter_names(kind);
    let invalid = |why: String| {
        RequestError::invalid_params(format!("`params.arguments`: {why}; use {}", known.join(", ")))
    };
    if arguments.kind() != "object" {
        return Err(invalid(format!("{} is no object", arguments.kind())));
    }
    let mut filters = Vec::new();
    for (name, value) in arguments.members() {
        let shown = crate::request_headers::escape_input(&name);
        if !known.contains(&name.as_str()) {
            return Err(invalid(format!("unknown argument `{shown}`")));
        }
        let text = value.string_value().map(std::borrow::Cow::into_owned);
        let text = text.ok_or_else(|| invalid(format!("`{shown}` must be a string")))?;
        filters.push((name, text));
    }
    filters.sort_unstable();
    Ok(filters)
}

/// Events of one page.
#[derive(Debug, Default)]
pub(super) struct ReadPage {
    pub(super) events: Vec<Arc<ServerEvent>>,
    /// Whether events may have been skipped.
    pub(super) is_truncated: bool,
    pub(super) has_more: bool,
}

/// The position of one subscription.
#[derive(Debug)]
pub(super) struct EventReader {
    pub(super) subscription: EventSubscription,
    principal: Principal,
    /// What the cursors are bound to: organization, key and endpoint.
    owner: [Box<str>; 3],
    pub(super) position: u64,
    /// Whether the reader starts later than its cursor.
    is_reset: bool,
    /// Older events are skipped until the reader has caught up.
    not_before: Option<u64>,
}

impl EventReader {
    /// Starts a subscription at the cursor of a request, or now.
    pub(super) fn start(
        request: &RequestContext<'_>,
        subscription: EventSubscription,
    ) -> Result<Self, RequestError> {
        let StartParams { cursor, max_age_ms } = StartParams::parse(request)?;
        let caller = request.caller;
        let owner = caller.endpoint.owner_binding(caller.principal).map(Into::into);
        let mut reader = Self {
            subscription,
            principal: caller.principal.clone(),
            owner,
            position: 0,
            is_reset: false,
            not_before: None,
        };
        let log = &caller.state.components.events;
        match cursor {
            None => reader.position = log.head(),
            Some(cursor) => {
                let key = &caller.state.mcp_components.event_cursors;
                let position = reader.open_cursor(key, log.epoch(), &cursor);
                reader.is_reset = position.is_none();
                reader.position = position.unwrap_or_default();
                let received_at = caller.received_at.0;
                reader.not_before = max_age_ms.map(|age| received_at.saturating_sub(age));
            }
        }
        Ok(reader)
    }

    fn binding(&self) -> [&str; 4] {
        let [org, key, endpoint] = &self.owner;
        [org, key, endpoint, self.subscription.kind.as_str()]
    }

    fn open_cursor(&self, key: &CursorKey, epoch: Uuid, cursor: &str) -> Option<u64> {
        let plain = key.log.open_sealed(&self.binding(), cursor)?;
        let (log, position) = plain.split_first_chunk::<EPOCH_BYTES>()?;
        let position = u64::from_be_bytes(position.try_into().ok()?);
        (*log == *epoch.as_bytes()).then_some(position)
    }

    /// The cursor of a position; null if no randomness is available.
    pub(super) fn cursor_at(&self, key: &CursorKey, epoch: Uuid, position: u64) -> Json {
        let plain = [&epoch.as_bytes()[..], &position.to_be_bytes()].concat();
        Json::encode(&key.log.seal_bytes(&self.binding(), &plain))
    }

    /// Goes on with a newer credential of the same caller.
    pub(super) fn set_principal(&mut self, principal: Principal) {
        self.principal = principal;
    }

    /// The caller as it is now; `None` if it may no longer subscribe.
    pub(super) fn renew_principal(&mut self, state: &StateInner) -> Option<&Principal> {
        if !renew_principal(state, &mut self.principal) {
            return None;
        }
        is_offered(state, &self.principal, self.subscription.kind).then_some(&self.principal)
    }

    /// Whether the reader starts later than its cursor. It then starts with the oldest event.
    pub(super) fn take_truncation(&mut self, state: &StateInner) -> bool {
        let is_overtaken = state.components.events.events_after(self.position).is_truncated;
        if is_overtaken {
            self.position = state.components.events.oldest().saturating_sub(1);
        }
        std::mem::take(&mut self.is_reset) || is_overtaken
    }

    /// Reads at most `limit` events and moves on.
    pub(super) fn next_page(&mut self, state: &StateInner, limit: usize) -> ReadPage {
        let log = state.components.events.events_after(self.position);
        let mut page = ReadPage {
            is_truncated: log.is_truncated || std::mem::take(&mut self.is_reset),
            ..ReadPage::default()
        };
        for event in log.events {
            if page.events.len() == limit {
                page.has_more = true;
                return page;
            }
            self.position = event.position;
            if !self.subscription.matches(&event)
                || !is_event_visible(state, &self.principal, &event)
            {
                continue;
            }
            if self.not_before.is_some_and(|oldest| event.occurred_at.0 < oldest) {
                page.is_truncated = true;
                continue;
            }
            page.events.push(event);
        }
        self.position = self.position.max(log.head);
        self.not_before = None;
        page
    }
}

/// An event as it is delivered, with the cursor after it where the mode has one.
pub(super) fn occurrence(event: &ServerEvent, cursor: Option<Json>) -> Json {
    let members = [
        Some(("eventId", Json::encode(&event.id))),
        Some(("name", Json::encode(event.kind.as_str()))),
        Some(("timestamp", Json::encode(&event.occurred_at.to_string()))),
        Some(("data", event.data.clone())),
        cursor.map(|cursor| ("cursor", cursor)),
    ];
    let members: Vec<_> = members.into_iter().flatten().collect();
    Json::object_from(members.iter().map(|(key, value)| (*key, value)))
}
