//! One webhook subscription: what a refresh changes, and the deliveries of its events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use identity::Principal;
use mcp::events::SUBSCRIPTION_HEADER;
use serde_json::{Value, json};
use server_core::webhook::{
    WebhookFailure, WebhookMessage, WebhookSecret, WebhookTarget, WebhookTransport,
};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tool::{Json, WallTime};

use super::event_errors::access_revoked;
use super::event_reader::{EventReader, occurrence};
use crate::McpServerState;

/// Maximum number of events that are read at once: each is judged when it is sent.
const PAGE_EVENTS: usize = 1;
/// Number of abandoned events in a row after which deliveries are suspended until the next refresh.
const SUSPEND_AFTER: u32 = 5;
/// Time for which a replaced secret still signs.
const FORMER_SECRET_MS: u64 = 5 * 60_000;
/// Longest sleep before the expiry and the caller's access are checked again.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Everything up to here was accepted or abandoned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Watermark {
    /// A position of this server's log.
    Log(u64),
    /// A cursor of a source; `None` if it has said none.
    Source(Option<String>),
}

/// A webhook subscription of one caller.
#[derive(Debug)]
pub(super) struct WebhookSubscription {
    /// Id for the receiver; it grants nothing.
    pub(super) id: String,
    pub(super) url: String,
    pub(super) root_key: Box<str>,
    /// Ends the deliveries.
    pub(super) end: CancellationToken,
    /// Notifies of a refresh.
    refreshed: Notify,
    state: Mutex<DeliveryState>,
}

#[derive(Debug)]
struct DeliveryState {
    secret: WebhookSecret,
    /// The replaced secret, and until when it signs too.
    former: Option<(WebhookSecret, u64)>,
    expires_at: WallTime,
    /// The caller of the last refresh, until the deliveries go on with its rights.
    renewed_caller: Option<Principal>,
    is_active: bool,
    failures: u32,
    last_delivery: Option<WallTime>,
    last_error: Option<WebhookFailure>,
    failed_since: Option<WallTime>,
    watermark: Watermark,
}

impl WebhookSubscription {
    pub(super) fn new(
        (id, url): (String, String),
        root_key: Box<str>,
        secret: WebhookSecret,
        (expires_at, watermark): (WallTime, Watermark),
    ) -> Arc<Self> {
        let state = DeliveryState {
            secret,
            former: None,
            expires_at,
            renewed_caller: None,
            is_active: true,
            failures: 0,
            last_delivery: None,
            last_error: None,
            failed_since: None,
            watermark,
        };
        let (end, refreshed) = (CancellationToken::new(), Notify::new());
        Arc::new(Self { id, url, root_key, end, refreshed, state: Mutex::new(state) })
    }

    fn lock_state(&self) -> MutexGuard<'_, DeliveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_expired(&self, now: WallTime) -> bool {
        self.lock_state().expires_at <= now
    }

    pub(super) fn watermark(&self) -> Watermark {
        self.lock_state().watermark.clone()
    }

    /// Moves on without a delivery.
    pub(super) fn move_to(&self, watermark: Watermark) {
        self.lock_state().watermark = watermark;
    }

    /// Whether events are delivered: not after too many failures, until the next refresh.
    pub(super) fn is_active(&self) -> bool {
        self.lock_state().is_active
    }

    /// Resolves when the subscription is refreshed, or its expiry and its caller must be checked.
    pub(super) async fn wait_for_check(&self) {
        tokio::select! {
            () = self.refreshed.notified() => {}
            () = sleep(CHECK_INTERVAL) => {}
        }
    }

    /// Extends the subscription, replaces its secret and its credential, and resumes its deliveries.
    /// Returns the status before.
    pub(super) fn refresh(
        &self,
        secret: WebhookSecret,
        caller: &Principal,
        (now, expires_at): (WallTime, WallTime),
    ) -> Value {
        let status = {
            let mut state = self.lock_state();
            let status = state.status();
            let former = std::mem::replace(&mut state.secret, secret);
            state.former = Some((former, now.0.saturating_add(FORMER_SECRET_MS)));
            state.expires_at = expires_at;
            state.renewed_caller = Some(caller.clone());
            (state.is_active, state.failures) = (true, 0);
            status
        };
        self.refreshed.notify_one();
        status
    }

    /// Takes the caller of the last refresh, if the deliveries do not have it yet. It has the key of the
    /// subscription: a token that ends later than the first one, or has other rights.
    pub(super) fn take_renewed_caller(&self) -> Option<Principal> {
        self.lock_state().renewed_caller.take()
    }

    /// The message of a body, with the header that names the subscription.
    pub(super) fn message(&self, id: Option<&str>, kind: &str, body: &Json) -> WebhookMessage {
        let mut message = WebhookMessage::new(kind, body.bytes().clone());
        if let Some(id) = id {
            id.clone_into(&mut message.id);
        }
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(&self.id) {
            headers.insert(HeaderName::from_static(SUBSCRIPTION_HEADER), value);
        }
        message.headers = headers;
        message
    }

    /// The secrets that sign a message now.
    pub(super) fn secrets(&self, now: WallTime) -> Vec<WebhookSecret> {
        let mut state = self.lock_state();
        state.former = state.former.take().filter(|(_, until)| now.0 < *until);
        let former = state.former.as_ref().map(|(secret, _)| secret.clone());
        std::iter::once(state.secret.clone()).chain(former).collect()
    }

    /// Notes the end of the attempts to deliver one event at this position.
    pub(super) fn note_delivery(
        &self,
        now: WallTime,
        watermark: Watermark,
        result: Result<(), WebhookFailure>,
    ) {
        let mut state = self.lock_state();
        state.watermark = watermark;
        match result {
            Ok(()) => {
                (state.failures, state.last_error, state.failed_since) = (0, None, None);
                state.last_delivery = Some(now);
            }
            Err(failure) => {
                // A receiver that refuses one event for good takes others.
                state.failures += u32::from(!failure.is_final());
                state.last_error = Some(failure);
                state.failed_since.get_or_insert(now);
                state.is_active = state.failures < SUSPEND_AFTER;
            }
        }
    }
}

impl DeliveryState {
    fn status(&self) -> Value {
        json!({
            "active": self.is_active,
            "lastDeliveryAt": self.last_delivery.map(|at| at.to_string()),
            "lastError": self.last_error.map(WebhookFailure::category),
            "failedSince": self.failed_since.map(|at| at.to_string()),
        })
    }
}

/// Sends the messages of one subscription to its webhook.
#[derive(Debug)]
pub(super) struct WebhookSender {
    pub(super) state: McpServerState,
    pub(super) transport: Arc<dyn WebhookTransport>,
    pub(super) subscription: Arc<WebhookSubscription>,
}

impl WebhookSender {
    /// Runs deliveries until they end, the subscription is ended, or the server stops.
    pub(super) async fn run_until_end(&self, deliveries: impl Future<Output = ()>) {
        let (end, closed) = (self.subscription.end.clone(), self.state.streams_closed.clone());
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            () = closed.cancelled() => {}
            () = deliveries => {}
        }
        self.state.mcp_components.webhooks.remove_ended(&self.subscription);
    }

    pub(super) fn is_expired(&self) -> bool {
        self.subscription.is_expired(self.state.components.clock.wall_now())
    }

    /// Sends one message, with the id of its event or one of its own.
    pub(super) async fn send(
        &self,
        id: Option<&str>,
        kind: &str,
        body: &Json,
    ) -> Result<(), WebhookFailure> {
        let message = self.subscription.message(id, kind, body);
        let clock = self.state.components.clock.as_ref();
        let secrets = self.subscription.secrets(clock.wall_now());
        let target = WebhookTarget {
            transport: self.transport.as_ref(),
            clock,
            url: &self.subscription.url,
            secrets: &secrets,
        };
        target.deliver_message(&message).await
    }

    /// Tells the receiver that the subscription has ended. It has, whether the receiver hears of it or
    /// not.
    pub(super) async fn send_terminated(&self, error: &Json) {
        let body = Json::object_from([("type", &Json::encode("terminated")), ("error", error)]);
        let _undelivered = self.send(None, "terminated", &body).await;
    }

    /// Tells the receiver that events may be missing before this cursor.
    pub(super) async fn send_gap(&self, cursor: &Json) {
        let body = Json::object_from([("type", &Json::encode("gap")), ("cursor", cursor)]);
        let _undelivered = self.send(None, "gap", &body).await;
    }
}

/// Delivers the events of one subscription until it expires, is ended, or the server stops.
pub(super) async fn deliver_events(sender: WebhookSender, reader: EventReader) {
    let mut delivery = WebhookDelivery { sender: &sender, reader };
    sender.run_until_end(async { delivery.run().await }).await;
}

/// The deliveries of one subscription to events of this server.
struct WebhookDelivery<'a> {
    sender: &'a WebhookSender,
    reader: EventReader,
}

impl WebhookDelivery<'_> {
    async fn run(&mut self) {
        let sender = self.sender;
        let mut head = sender.state.components.events.subscribe_head();
        loop {
            if sender.is_expired() {
                return;
            }
            if let Some(caller) = sender.subscription.take_renewed_caller() {
                self.reader.set_principal(caller);
            }
            if self.reader.renew_principal(&sender.state).is_none() {
                return sender.send_terminated(&access_revoked()).await;
            }
            let is_active = sender.subscription.is_active();
            if is_active && self.deliver_page().await {
                continue;
            }
            // A suspended subscription waits for its refresh, or its end.
            tokio::select! {
                _ = head.changed(), if is_active => {}
                () = sender.subscription.wait_for_check() => {}
            }
        }
    }

    /// Delivers the next events in order. Returns whether there may be more.
    async fn deliver_page(&mut self) -> bool {
        let sender = self.sender;
        let subscription = &sender.subscription;
        let page = self.reader.next_page(&sender.state, PAGE_EVENTS);
        if page.is_truncated {
            sender.send_gap(&self.watermark_cursor()).await;
        }
        for event in &page.events {
            let body = occurrence(event, Some(self.watermark_cursor()));
            let result = sender.send(Some(&event.id), "event", &body).await;
            let now = sender.state.components.clock.wall_now();
            subscription.note_delivery(now, Watermark::Log(event.position), result);
            if !subscription.is_active() {
                self.reader.position = event.position;
                return false;
            }
        }
        if !page.has_more {
            subscription.move_to(Watermark::Log(self.reader.position));
        }
        page.has_more
    }

    fn watermark_cursor(&self) -> Json {
        let state = &self.sender.state;
        let position = match self.sender.subscription.watermark() {
            Watermark::Log(position) => position,
            Watermark::Source(_) => self.reader.position,
        };
        let epoch = state.components.events.epoch();
        self.reader.cursor_at(&state.mcp_components.event_cursors, epoch, position)
    }
}
