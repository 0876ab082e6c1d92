//! Routes the notifications of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::mcp::{RequestId, RpcNotification, events, meta};
use serde::Deserialize;
use tokio::sync::{Notify, broadcast, watch};
use tool::Json;

use super::resource_subscription::{ResourceChannel, SubscriptionState};

/// Notifications of one resource that a subscriber may have pending; older ones are dropped.
const UPDATE_BUFFER: usize = 64;
/// Maximum subscribed resources of one connection.
const MAX_RESOURCES: usize = 1_024;

/// Notification of a changed resource.
pub(super) const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// Acknowledgement of a 2026-07-28 subscription.
pub(super) const SUBSCRIPTION_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Notification of a request's progress.
pub(super) const PROGRESS_NOTIFICATION: &str = "notifications/progress";

/// Known fields of a progress notification.
#[derive(Debug, Deserialize)]
pub(super) struct ProgressParams {
    #[serde(rename = "progress")]
    pub(super) progress: f64,
    pub(super) total: Option<f64>,
    pub(super) message: Option<String>,
}

/// Destination of a notification.
#[derive(Debug)]
pub(super) enum RoutedNotification {
    /// Progress of the request with this id, as received.
    Progress(i64, Json),
    /// A log line or another message for the client of a call.
    ForCall(RpcNotification),
    /// An acknowledgement or an event of the subscription with this request id.
    ForSubscription(i64, RpcNotification),
    /// The server cancelled this request of its own.
    RequestCancelled(RequestId),
    /// Handled here or ignored.
    Consumed,
}

/// Router for the notifications of one connection.
#[derive(Debug)]
pub(super) struct NotificationRouter {
    list_changed: Arc<Notify>,
    channels: Mutex<HashMap<String, ResourceChannel>>,
}

/// New subscriber of a resource.
#[derive(Debug)]
pub(super) struct NewSubscriber {
    pub(super) updates: broadcast::Receiver<Json>,
    pub(super) channel: ResourceChannel,
    /// Whether it is the only subscriber of the resource.
    pub(super) is_first: bool,
}

impl NotificationRouter {
    /// Creates a router that reports list changes to `changed`.
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { list_changed: changed, channels: Mutex::default() }
    }

    /// Reports that the lists may have changed.
    pub(super) fn notify_list_changed(&self) {
        self.list_changed.notify_one();
    }

    /// Handles notifications for the whole connection. Returns where to send the others.
    pub(super) fn route_notification(&self, notification: RpcNotification) -> RoutedNotification {
        match notification.method.as_str() {
            PROGRESS_NOTIFICATION => route_progress(notification.params.as_ref()),
            "notifications/message" | "notifications/elicitation/complete" => {
                RoutedNotification::ForCall(notification)
            }
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | events::LIST_CHANGED_NOTIFICATION => {
                self.notify_list_changed();
                RoutedNotification::Consumed
            }
            "notifications/cancelled" => {
                let request_id =
                    notification.params.as_ref().and_then(|params| params.get("requestId"));
                request_id
                    .and_then(|id| RequestId::from_json(&id))
                    .map_or(RoutedNotification::Consumed, RoutedNotification::RequestCancelled)
            }
            RESOURCE_UPDATED => {
                if let Some(params) = &notification.params {
                    self.publish_update(params);
                }
                RoutedNotification::Consumed
            }
            method
                if method == SUBSCRIPTION_ACKNOWLEDGED
                    || method.starts_with(events::NOTIFICATION_PREFIX) =>
            {
                let of = notification.params.as_ref().and_then(parse_subscription_id);
                of.map_or(RoutedNotification::Consumed, |id| {
                    RoutedNotification::ForSubscription(id, notification)
                })
            }
            _ => RoutedNotification::Consumed,
        }
    }

    /// Subscribes to one resource; `None` if too many resources are subscribed.
    pub(super) fn subscribe_resource(&self, uri: &str) -> Option<NewSubscriber> {
        let mut updates = self.lock_channels();
        if let Some(channel) = updates.get(uri) {
            let (updates, channel) = (channel.updates.subscribe(), channel.clone());
            return Some(NewSubscriber { updates, channel, is_first: false });
        }
        if updates.len() >= MAX_RESOURCES {
            return None;
        }
        let (sender, receiver) = broadcast::channel(UPDATE_BUFFER);
        let standing = watch::Sender::new(SubscriptionState::Pending);
        let channel =
            ResourceChannel { updates: sender, state: standing, subscriber_left: Arc::default() };
        updates.insert(uri.to_owned(), channel.clone());
        Some(NewSubscriber { updates: receiver, channel, is_first: true })
    }

    /// Whether any resource has a subscriber.
    pub(super) fn has_subscribers(&self) -> bool {
        self.lock_channels().values().any(|channel| channel.updates.receiver_count() > 0)
    }

    /// Removes a resource without subscribers. Returns whether it was removed.
    pub(super) fn remove_if_unused(&self, uri: &str) -> bool {
        let mut updates = self.lock_channels();
        let alone = updates.get(uri).is_none_or(|channel| channel.updates.receiver_count() == 0);
        if alone {
            updates.remove(uri);
        }
        alone
    }

    /// Removes a resource whose subscription failed. Its subscribers see the failure in the
    /// channel.
    pub(super) fn remove_channel(&self, uri: &str, channel: &ResourceChannel) {
        let mut updates = self.lock_channels();
        let same = |found: &ResourceChannel| found.updates.same_channel(&channel.updates);
        if updates.get(uri).is_some_and(same) {
            updates.remove(uri);
        }
    }

    /// MCP: the URI of the notification may be a sub-resource of the subscribed one.
    fn publish_update(&self, params: &Json) {
        let Some(uri) = params.get("uri").and_then(|uri| uri.decode::<String>().ok()) else {
            return;
        };
        for (listened, channel) in &*self.lock_channels() {
            let suffix = uri.strip_prefix(listened.as_str());
            if suffix.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || listened.ends_with('/')
            }) {
                // The last subscriber may just have left.
                drop(channel.updates.send(params.clone()));
            }
        }
    }

    fn lock_channels(&self) -> MutexGuard<'_, HashMap<String, ResourceChannel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn route_progress(params: Option<&Json>) -> RoutedNotification {
    let read = || {
        let params = params?;
        let token = RequestId::from_json(&params.get(meta::PROGRESS_TOKEN)?)?.as_number()?;
        params.decode::<ProgressParams>().ok()?;
        Some(RoutedNotification::Progress(token, params.clone()))
    };
    read().unwrap_or(RoutedNotification::Consumed)
}

fn parse_subscription_id(params: &Json) -> Option<i64> {
    RequestId::from_json(&meta::get_meta(params)?.get(meta::SUBSCRIPTION_ID)?)?.as_number()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::mcp::RpcNotification;
    use serde_json::json;
    use tool::Json;

    use super::{MAX_RESOURCES, NotificationRouter, RESOURCE_UPDATED, RoutedNotification};

    fn updated(uri: &str) -> RpcNotification {
        RpcNotification {
            method: RESOURCE_UPDATED.to_owned(),
            params: Some(Json::encode(&json!({"uri": uri}))),
        }
    }

    #[test]
    fn a_changed_resource_is_told_to_who_listens_to_it_or_to_what_holds_it() {
        let ears = NotificationRouter::new(Arc::default());
        let mut listens: Vec<_> =
            ["a:/x", "a:/x/", "a:/xy"].map(|uri| ears.subscribe_resource(uri).unwrap()).into();
        assert!(matches!(ears.route_notification(updated("a:/x/1")), RoutedNotification::Consumed));
        let heard: Vec<_> = listens.iter_mut().map(|one| one.updates.try_recv().is_ok()).collect();
        assert_eq!(heard, [true, true, false]);
        assert!(!ears.remove_if_unused("a:/x"));
        drop(listens);
        assert!(ears.remove_if_unused("a:/x"));
    }

    #[test]
    fn resources_listened_to_are_bounded() {
        let ears = NotificationRouter::new(Arc::default());
        let all: Vec<_> =
            (0..=MAX_RESOURCES).map(|n| ears.subscribe_resource(&n.to_string())).collect();
        assert_eq!(all.iter().filter(|one| one.is_some()).count(), MAX_RESOURCES);
        assert!(ears.subscribe_resource("0").is_some());
    }
}
