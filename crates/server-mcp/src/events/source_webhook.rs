//! Webhooks for events of sources. This server reads the source and sends to the client's URL, which the
//! source never learns.

use tokio::time::timeout;
use tool::Json;
use tool::call_outcome::CallFailure;

use super::event_errors::{access_revoked, failure_error};
use super::source_calls::poll_source;
use super::source_feed::{FeedItem, SourceFeed};
use super::source_page::SourceEvent;
use super::source_subscription::{STREAM_METHOD, SourcePosition, SourceSubscription};
use super::webhook_subscription::{CHECK_INTERVAL, Watermark, WebhookSender};
use crate::McpServerState;
use crate::source_items::EVENT_METHOD;
use server_core::sealing_key::hash_parts;

/// Maximum bytes of an event id that is used as the id of a message.
const MAX_MESSAGE_ID_BYTES: usize = 128;

/// Begins a subscription: a poll of the source, if it has that, checks the arguments and returns the
/// position from which events are delivered.
pub(super) async fn begin_subscription(
    state: &McpServerState,
    subscription: &SourceSubscription,
    mut position: SourcePosition,
) -> Result<SourcePosition, CallFailure> {
    if position.cursor.is_none() && subscription.usable_delivery(state).has_poll {
        let page = poll_source(state, subscription, (&position, 1)).await?;
        position.cursor = page.cursor;
        position.is_truncated |= page.is_truncated;
    }
    Ok(position)
}

/// The feed that delivers to a webhook: a stream if the source has it, else polls. A failure that passes
/// ends no webhook.
pub(super) fn open_feed(
    state: &McpServerState,
    subscription: SourceSubscription,
    position: SourcePosition,
) -> SourceFeed {
    let mut feed = if subscription.usable_delivery(state).has_push {
        SourceFeed::by_stream(state, subscription, position)
    } else {
        SourceFeed::by_polls(state, subscription, position)
    };
    feed.mark_begun();
    feed
}

/// Delivers the events of one subscription until it expires, is ended, or the server stops.
pub(super) async fn deliver_source_events(sender: WebhookSender, feed: SourceFeed) {
    let mut delivery = SourceDelivery { sender: &sender, feed };
    sender.run_until_end(async { delivery.run().await }).await;
}

/// The deliveries of one subscription to events of a source.
struct SourceDelivery<'a> {
    sender: &'a WebhookSender,
    feed: SourceFeed,
}

impl SourceDelivery<'_> {
    async fn run(&mut self) {
        let sender = self.sender;
        loop {
            if sender.is_expired() {
                return;
            }
            if !self.renew_access() {
                return sender.send_terminated(&access_revoked()).await;
            }
            if !sender.subscription.is_active() {
                self.feed.pause();
                sender.subscription.wait_for_check().await;
                continue;
            }
            let Ok(item) = timeout(CHECK_INTERVAL, self.feed.next_item()).await else {
                self.note_position();
                continue;
            };
            // The caller may have lost the event type while the source was silent.
            if !self.renew_access() {
                return sender.send_terminated(&access_revoked()).await;
            }
            match item {
                FeedItem::Active { is_truncated: true } => {
                    sender.send_gap(&self.feed_cursor()).await;
                    self.note_position();
                }
                FeedItem::Active { is_truncated: false } => self.note_position(),
                FeedItem::Error(_) => {}
                FeedItem::Event(event) => self.deliver_event(&event).await,
                FeedItem::Terminated(error) => return sender.send_terminated(&error).await,
                FeedItem::Refused(failure) => {
                    return sender.send_terminated(&failure_error(&failure)).await;
                }
            }
        }
    }

    /// Takes over the credential of the last refresh, and the caller's rights as they are now.
    fn renew_access(&mut self) -> bool {
        if let Some(caller) = self.sender.subscription.take_renewed_caller() {
            self.feed.subscription.principal = caller;
        }
        self.feed.renew_access()
    }

    async fn deliver_event(&self, event: &SourceEvent) {
        let (sender, subscription) = (self.sender, &self.feed.subscription);
        let method =
            if subscription.events.delivery.has_push { STREAM_METHOD } else { EVENT_METHOD };
        let target = subscription.events.call_target(method);
        sender.state.components.gateway.mark_delivery(&subscription.principal, &target);
        let before = match sender.subscription.watermark() {
            Watermark::Source(cursor) => cursor,
            Watermark::Log(_) => None,
        };
        let body = subscription.events.write_event(event, Some(self.sealed(before.as_deref())));
        let result = sender.send(Some(&message_id(&event.id)), "event", &body).await;
        let now = sender.state.components.clock.wall_now();
        sender.subscription.note_delivery(now, self.position(), result);
    }

    fn position(&self) -> Watermark {
        Watermark::Source(self.feed.cursor().map(str::to_owned))
    }

    fn note_position(&self) {
        self.sender.subscription.move_to(self.position());
    }

    fn sealed(&self, cursor: Option<&str>) -> Json {
        let key = &self.sender.state.mcp_components.event_cursors;
        self.feed.subscription.seal_cursor(key, cursor)
    }

    fn feed_cursor(&self) -> Json {
        self.sealed(self.feed.cursor())
    }
}

/// The id of the message with an event. It is part of what is signed and of a header, so an id of the
/// source that has other characters than an id needs is replaced by its hash.
fn message_id(event_id: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if event_id.len() <= MAX_MESSAGE_ID_BYTES && event_id.bytes().all(fits) {
        return event_id.to_owned();
    }
    let digest = hash_parts(&[event_id]);
    let digest = digest.iter().take(16).map(|byte| format!("{byte:02x}"));
    format!("evt_{}", digest.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::message_id;

    #[test]
    fn an_id_of_a_source_cannot_pretend_to_be_more_than_an_id() {
        assert_eq!(message_id("evt_1-A"), "evt_1-A");
        let long = "a".repeat(200);
        for id in ["a.1700000000.{}", "a\r\nx-header: 1", "é", &long] {
            let safe = message_id(id);
            assert!(safe.starts_with("evt_") && safe.len() == 36, "{safe}");
            assert_ne!(safe, message_id(&format!("{id}2")), "{id}");
        }
    }
}
