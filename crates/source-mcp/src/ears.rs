//! What a server says without being asked, and where it goes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::mcp::{Id, Notification, meta};
use serde::Deserialize;
use tokio::sync::{Notify, broadcast, watch};
use tool::Json;

use super::subscription::{Channel, Standing};

/// Notices of one resource that may wait for a listener; older ones are dropped.
const UPDATES: usize = 64;
/// Resources of one connection that may be listened to.
const RESOURCES: usize = 1_024;

/// The notice of a changed resource.
pub(super) const UPDATED: &str = "notifications/resources/updated";
/// The first word of a subscription of 2026-07-28.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The notice of how far a request is.
pub(super) const PROGRESS: &str = "notifications/progress";

/// What is known of a progress notice.
#[derive(Debug, Deserialize)]
pub(super) struct Progress {
    #[serde(rename = "progress")]
    pub(super) done: f64,
    pub(super) total: Option<f64>,
    pub(super) message: Option<String>,
}

/// What a notification is to its connection.
#[derive(Debug)]
pub(super) enum Heard {
    /// Progress of the request of this number, as it came.
    Progressed(i64, Json),
    /// A log line, or another word for the client of a call.
    Logged(Notification),
    /// A subscription, the request of this number, has begun.
    Acknowledged(i64, Notification),
    /// The server wants no answer to this question any more.
    Withdrawn(Id),
    /// Dealt with, or of no interest.
    Quiet,
}

/// The ears of one connection.
#[derive(Debug)]
pub(super) struct Ears {
    changed: Arc<Notify>,
    updates: Mutex<HashMap<String, Channel>>,
}

/// One more listener of a resource.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) updates: broadcast::Receiver<Json>,
    pub(super) channel: Channel,
    /// Whether nobody listened before.
    pub(super) first: bool,
}

impl Ears {
    /// Changed lists are told to `changed`.
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { changed, updates: Mutex::default() }
    }

    /// The lists may be others now.
    pub(super) fn changed(&self) {
        self.changed.notify_one();
    }

    /// Takes what is meant for all; the rest is for one request.
    pub(super) fn hear(&self, notice: Notification) -> Heard {
        match notice.method.as_str() {
            PROGRESS => progress(notice.params.as_ref()),
            "notifications/message" | "notifications/elicitation/complete" => Heard::Logged(notice),
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => {
                self.changed();
                Heard::Quiet
            }
            "notifications/cancelled" => {
                let of = notice.params.as_ref().and_then(|params| params.get("requestId"));
                of.and_then(|id| Id::read(&id)).map_or(Heard::Quiet, Heard::Withdrawn)
            }
            UPDATED => {
                if let Some(params) = &notice.params {
                    self.updated(params);
                }
                Heard::Quiet
            }
            ACKNOWLEDGED => {
                let of = notice.params.as_ref().and_then(subscription);
                of.map_or(Heard::Quiet, |id| Heard::Acknowledged(id, notice))
            }
            _ => Heard::Quiet,
        }
    }

    /// Notices of one resource from now on; nothing where too many are listened to.
    pub(super) fn listen(&self, uri: &str) -> Option<Joined> {
        let mut updates = self.updates();
        if let Some(channel) = updates.get(uri) {
            let (updates, channel) = (channel.updates.subscribe(), channel.clone());
            return Some(Joined { updates, channel, first: false });
        }
        if updates.len() >= RESOURCES {
            return None;
        }
        let (sender, receiver) = broadcast::channel(UPDATES);
        let standing = watch::Sender::new(Standing::Coming);
        let channel = Channel { updates: sender, standing, left: Arc::default() };
        updates.insert(uri.to_owned(), channel.clone());
        Some(Joined { updates: receiver, channel, first: true })
    }

    /// Whether anybody listens to a resource.
    pub(super) fn is_heard(&self) -> bool {
        self.updates().values().any(|channel| channel.updates.receiver_count() > 0)
    }

    /// Forgets a resource that nobody listens to; whether it did.
    pub(super) fn forget(&self, uri: &str) -> bool {
        let mut updates = self.updates();
        let alone = updates.get(uri).is_none_or(|channel| channel.updates.receiver_count() == 0);
        if alone {
            updates.remove(uri);
        }
        alone
    }

    /// Forgets a resource whose subscription failed, whoever listens: they learn it by the channel.
    pub(super) fn drop_all(&self, uri: &str, channel: &Channel) {
        let mut updates = self.updates();
        let same = |found: &Channel| found.updates.same_channel(&channel.updates);
        if updates.get(uri).is_some_and(same) {
            updates.remove(uri);
        }
    }

    /// MCP: the URI told may be of a part of the one that was asked for.
    fn updated(&self, params: &Json) {
        let Some(uri) = params.get("uri").and_then(|uri| uri.read::<String>().ok()) else { return };
        for (listened, channel) in &*self.updates() {
            let below = uri.strip_prefix(listened.as_str());
            if below.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || listened.ends_with('/')
            }) {
                // Nobody listens where the last one just left.
                drop(channel.updates.send(params.clone()));
            }
        }
    }

    fn updates(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn progress(params: Option<&Json>) -> Heard {
    let read = || {
        let params = params?;
        let token = Id::read(&params.get(meta::PROGRESS_TOKEN)?)?.as_number()?;
        params.read::<Progress>().ok()?;
        Some(Heard::Progressed(token, params.clone()))
    };
    read().unwrap_or(Heard::Quiet)
}

fn subscription(params: &Json) -> Option<i64> {
    Id::read(&meta::of(params)?.get(meta::SUBSCRIPTION_ID)?)?.as_number()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::mcp::Notification;
    use serde_json::json;
    use tool::Json;

    use super::{Ears, Heard, RESOURCES, UPDATED};

    fn updated(uri: &str) -> Notification {
        Notification { method: UPDATED.to_owned(), params: Some(Json::of(&json!({"uri": uri}))) }
    }

    #[test]
    fn a_changed_resource_is_told_to_who_listens_to_it_or_to_what_holds_it() {
        let ears = Ears::new(Arc::default());
        let mut listens: Vec<_> =
            ["a:/x", "a:/x/", "a:/xy"].map(|uri| ears.listen(uri).unwrap()).into();
        assert!(matches!(ears.hear(updated("a:/x/1")), Heard::Quiet));
        let heard: Vec<_> = listens.iter_mut().map(|one| one.updates.try_recv().is_ok()).collect();
        assert_eq!(heard, [true, true, false]);
        assert!(!ears.forget("a:/x"));
        drop(listens);
        assert!(ears.forget("a:/x"));
    }

    #[test]
    fn resources_listened_to_are_bounded() {
        let ears = Ears::new(Arc::default());
        let all: Vec<_> = (0..=RESOURCES).map(|n| ears.listen(&n.to_string())).collect();
        assert_eq!(all.iter().filter(|one| one.is_some()).count(), RESOURCES);
        assert!(ears.listen("0").is_some());
    }
}
