//! Signed events between servers that share a registry: a tool changed, a node sent a heartbeat, an
//! address changed.
//!
//! An event is a hint, not data. A tool event triggers a reload of its record; an address event
//! only invalidates the cached address. Unsigned, own and expired events are ignored.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_lc_rs::hmac;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tool::node_registry::{HeartbeatState, NodeError};
use tool::store::{MAX_MESSAGE_BYTES, MessageBus, WritePrecondition};
use tool::{Backoff, StoreError, WallTime};

use crate::PersistentNodeRegistry;
use crate::registry_store::RegistryStore;

/// The channel of the message bus.
const CHANNEL: &str = "toolkeep:nodes";
/// The record of the signing key, stored with the registry.
pub(crate) const SIGNING_KEY: &str = "news/key";
/// Maximum number of events that wait to be sent; further ones are dropped.
const OUTBOX_CAPACITY: usize = 1_024;
/// Maximum age of a message, or clock difference of its sender.
const MAX_CLOCK_SKEW: Duration = Duration::from_mins(1);
/// Backoff after a failure of the store or the message bus.
pub(crate) const RECONNECT_BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// Interval between attempts to load the signing key.
const KEY_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// An event that servers of a registry exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PeerEvent {
    /// The record of a tool was written or removed.
    #[serde(rename = "written")]
    ToolChanged(String),
    /// A node sent a heartbeat.
    #[serde(rename = "beat")]
    Heartbeat(String, HeartbeatState),
    /// An operator drained a node, or resumed it.
    #[serde(rename = "drained")]
    Drained(String, bool),
    /// The address of the node with this label changed.
    #[serde(rename = "moved")]
    AddressChanged(String),
}

#[derive(Debug, Serialize, Deserialize)]
struct PeerMessage {
    /// The id of the sender.
    #[serde(rename = "by")]
    server_id: String,
    #[serde(rename = "at")]
    sent_at: WallTime,
    #[serde(rename = "word")]
    event: PeerEvent,
}

/// The queue of events to other servers. Without a message bus, events are discarded.
#[derive(Debug, Clone, Default)]
pub struct PeerOutbox(Arc<OnceLock<mpsc::Sender<PeerEvent>>>);

impl PeerOutbox {
    /// Sends an address change of the node with this label. Never waits.
    pub fn send_address_changed(&self, label: &str) {
        self.send_event(|| PeerEvent::AddressChanged(label.to_owned()));
    }

    /// Sends an event. Never waits.
    pub(crate) fn send_event(&self, event: impl FnOnce() -> PeerEvent) {
        if let Some(sender) = self.0.get() {
            // A full queue drops the event, which is only a hint.
            drop(sender.try_send(event()));
        }
    }
}

/// The link to the other servers of the registry.
pub(crate) struct PeerLink {
    bus: Arc<dyn MessageBus>,
    server_id: String,
    queue: mpsc::Receiver<PeerEvent>,
}

impl fmt::Debug for PeerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerLink").field("server_id", &self.server_id).finish_non_exhaustive()
    }
}

impl PeerLink {
    /// Connects an outbox to the bus. Returns `None` if it is already connected.
    pub(crate) fn connect(
        bus: Arc<dyn MessageBus>,
        outbox: &PeerOutbox,
        server_id: String,
    ) -> Option<Self> {
        let (sender, queue) = mpsc::channel(OUTBOX_CAPACITY);
        outbox.0.set(sender).ok().map(|()| Self { bus, server_id, queue })
    }
}

impl PersistentNodeRegistry {
    /// Sends events to the other servers and receives theirs, until it is cancelled. Without
    /// [`PersistentNodeRegistry::set_message_bus`]
    /// it does nothing.
    pub async fn run_peer_events(&self) {
        let news = self.context.peer_link.lock().await.take();
        let Some(mut news) = news else { return std::future::pending().await };
        let key = loop {
            match load_or_create_key(self.context.store.as_ref()).await {
                Ok(key) => break key,
                // Events wait meanwhile, or are dropped.
                Err(_) => tokio::time::sleep(KEY_RETRY_INTERVAL).await,
            }
        };
        let signer = MessageSigner::new(&key);
        let (bus, server_id) = (Arc::clone(&news.bus), news.server_id.clone());
        let clock = Arc::clone(&self.context.clock);
        let send_loop = async {
            while let Some(event) = news.queue.recv().await {
                let message =
                    PeerMessage { server_id: server_id.clone(), sent_at: clock.wall_now(), event };
                let signed = match signer.sign_message(&message) {
                    Ok(signed) => signed,
                    Err(error) => {
                        tracing::warn!(%error, "an event cannot be written");
                        continue;
                    }
                };
                // The bus has its own backoff after a failure.
                drop(bus.publish_message(CHANNEL, signed).await);
            }
        };
        tokio::join!(send_loop, self.run_subscription(bus.as_ref(), &signer, &server_id));
    }

    async fn run_subscription(
        &self,
        bus: &dyn MessageBus,
        signer: &MessageSigner,
        server_id: &str,
    ) {
        let mut backoff = RECONNECT_BACKOFF;
        loop {
            if let Err(error) = self.receive_messages(bus, signer, server_id, &mut backoff).await {
                tracing::debug!(%error, "cannot receive the events of other servers");
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    async fn receive_messages(
        &self,
        bus: &dyn MessageBus,
        signer: &MessageSigner,
        server_id: &str,
        backoff: &mut Backoff,
    ) -> Result<(), StoreError> {
        let mut subscription = bus.subscribe_channel(CHANNEL).await?;
        loop {
            let messages = subscription.next_messages().await?;
            backoff.reset();
            let mut ignored_count = 0_usize;
            for bytes in messages {
                match signer.verify_message(&bytes, self.context.clock.wall_now()) {
                    Some(message) if message.server_id != server_id => {
                        self.apply_event(message.event).await;
                    }
                    Some(_) => {}
                    None => ignored_count += 1,
                }
            }
            if ignored_count > 0 {
                tracing::warn!(ignored_count, "ignored messages without a valid signature");
            }
        }
    }

    async fn apply_event(&self, event: PeerEvent) {
        match event {
            PeerEvent::ToolChanged(key) => {
                if crate::registry::is_announced_key(&key) {
                    let read: Result<(), NodeError> = self.context.reload_key(&key).await;
                    drop(read);
                }
            }
            PeerEvent::Heartbeat(node, beat) => drop(self.context.record_heartbeat(&node, beat)),
            PeerEvent::Drained(node, drained) => drop(self.context.set_drained(&node, drained)),
            PeerEvent::AddressChanged(label) => {
                if let Some(locator) = self.context.channels.locator.get() {
                    locator.mark_moved(&label);
                }
            }
        }
    }
}

/// Returns the signing key that all servers of a registry share. The first server generates it.
async fn load_or_create_key(keep: &dyn RegistryStore) -> Result<Vec<u8>, StoreError> {
    for _ in 0..2 {
        if let Some(stored) = keep.get_record(SIGNING_KEY).await? {
            return Ok(stored.bytes.to_vec());
        }
        let random = || uuid::Uuid::new_v4().simple();
        let new_key = format!("\"{}{}\"", random(), random());
        match keep.put_record(SIGNING_KEY, WritePrecondition::Absent, Some(new_key.into())).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Unavailable("cannot create the signing key of events".to_owned()))
}

/// Signs messages: a MAC of 32 bytes, then the message.
struct MessageSigner(hmac::Key);

impl MessageSigner {
    fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    fn sign_message(&self, message: &PeerMessage) -> serde_json::Result<Bytes> {
        let text = serde_json::to_vec(message)?;
        Ok([hmac::sign(&self.0, &text).as_ref(), &text].concat().into())
    }

    fn verify_message(&self, signed: &Bytes, now: WallTime) -> Option<PeerMessage> {
        let (mac, text) =
            signed.split_at_checked(32).filter(|_| signed.len() <= MAX_MESSAGE_BYTES)?;
        hmac::verify(&self.0, text, mac).ok()?;
        let message: PeerMessage = serde_json::from_slice(text).ok()?;
        let skew = u128::from(now.0.abs_diff(message.sent_at.0));
        (skew <= MAX_CLOCK_SKEW.as_millis()).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tool::WallTime;
    use tool::node_registry::HeartbeatState;

    use super::{MAX_CLOCK_SKEW, MessageSigner, PeerEvent, PeerMessage};

    #[test]
    fn a_word_counts_only_as_it_was_signed_and_for_a_while() {
        let (seal, at) = (MessageSigner::new(b"key"), WallTime(1_000_000));
        let word = PeerEvent::Heartbeat("n1".to_owned(), HeartbeatState::Draining);
        let sealed = seal
            .sign_message(&PeerMessage {
                server_id: "a".to_owned(),
                sent_at: at,
                event: word.clone(),
            })
            .unwrap();
        // The control: as it is it counts.
        assert_eq!(seal.verify_message(&sealed, at).unwrap().event, word);
        let age = u64::try_from(MAX_CLOCK_SKEW.as_millis()).unwrap();
        assert!(seal.verify_message(&sealed, WallTime(at.0 + age)).is_some());
        assert!(
            seal.verify_message(&sealed, WallTime(at.0 + age + 1)).is_none(),
            "said again later"
        );
        assert!(seal.verify_message(&sealed, WallTime(at.0 - age - 1)).is_none());
        assert!(MessageSigner::new(b"other").verify_message(&sealed, at).is_none());
        let text = String::from_utf8(sealed[32..].to_vec()).unwrap().replace("n1", "n2");
        let forged = [&sealed[..32], text.as_bytes()].concat();
        assert!(seal.verify_message(&forged.into(), at).is_none());
        for broken in [&b""[..], b"short", &sealed[..40]] {
            assert!(seal.verify_message(&Bytes::copy_from_slice(broken), at).is_none());
        }
    }
}
