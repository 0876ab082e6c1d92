//! The webhook subscriptions of this server, with their limits, and the callback URLs that were
//! verified.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tool::{MonotonicTime, WallTime};

use super::webhook_subscription::WebhookSubscription;

/// Maximum number of subscriptions of one root key.
pub(super) const MAX_PER_KEY: usize = 16;
/// Maximum number of subscriptions in total.
pub(super) const MAX_SUBSCRIPTIONS: usize = 1_024;
/// Maximum number of verified callback URLs that are remembered.
const MAX_VERIFIED: usize = 4_096;
/// Time for which a callback URL stays verified.
const VERIFIED_FOR: Duration = Duration::from_hours(24);
/// Maximum number of verification requests to one host within [`HOST_WINDOW`].
const MAX_PER_HOST: usize = 6;
/// Window of [`MAX_PER_HOST`].
const HOST_WINDOW: Duration = Duration::from_mins(1);
/// Maximum number of hosts whose verifications are counted.
const MAX_HOSTS: usize = 1_024;

/// Why a subscription cannot be added: the name of the limit, and its maximum.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitReached {
    pub(super) limit: &'static str,
    pub(super) max: usize,
}

/// All webhook subscriptions of this process.
#[derive(Debug, Default)]
pub(crate) struct WebhookTable(Mutex<TableState>);

#[derive(Debug, Default)]
struct TableState {
    subscriptions: HashMap<String, Arc<WebhookSubscription>>,
    /// Until when a caller's URL counts as verified.
    verified: HashMap<[Box<str>; 2], MonotonicTime>,
    /// Times of recent verifications by host.
    verifications: HashMap<Box<str>, Vec<MonotonicTime>>,
}

impl WebhookTable {
    fn lock_state(&self) -> MutexGuard<'_, TableState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the subscription of an id, if it has not expired.
    pub(super) fn find(&self, id: &str, now: WallTime) -> Option<Arc<WebhookSubscription>> {
        let found = self.lock_state().subscriptions.get(id).map(Arc::clone);
        found.filter(|subscription| !subscription.is_expired(now))
    }

    /// Checks that the root key may have one more subscription.
    pub(super) fn check_limits(&self, root_key: &str, now: WallTime) -> Result<(), LimitReached> {
        self.lock_state().check_limits(root_key, now)
    }

    /// Adds a subscription, in place of an expired one.
    pub(super) fn insert(
        &self,
        subscription: &Arc<WebhookSubscription>,
        now: WallTime,
    ) -> Result<(), LimitReached> {
        let mut table = self.lock_state();
        table.check_limits(&subscription.root_key, now)?;
        let former = table.subscriptions.insert(subscription.id.clone(), Arc::clone(subscription));
        drop(table);
        if let Some(former) = former {
            former.end.cancel();
        }
        Ok(())
    }

    /// Removes a subscription and ends its deliveries. Returns false if there is none.
    pub(super) fn remove(&self, id: &str) -> bool {
        let removed = self.lock_state().subscriptions.remove(id);
        let Some(removed) = removed else { return false };
        removed.end.cancel();
        true
    }

    /// Removes a subscription that has ended, unless another one took its place.
    pub(super) fn remove_ended(&self, ended: &Arc<WebhookSubscription>) {
        let mut table = self.lock_state();
        if table.subscriptions.get(&ended.id).is_some_and(|found| Arc::ptr_eq(found, ended)) {
            table.subscriptions.remove(&ended.id);
        }
    }

    /// Whether this caller's URL was verified before.
    pub(super) fn is_verified(&self, caller_url: &[Box<str>; 2], now: MonotonicTime) -> bool {
        self.lock_state().verified.get(caller_url).is_some_and(|until| now < *until)
    }

    /// Remembers that this caller's URL was verified.
    pub(super) fn mark_verified(&self, caller_url: [Box<str>; 2], now: MonotonicTime) {
        let mut table = self.lock_state();
        if table.verified.len() >= MAX_VERIFIED {
            table.verified.retain(|_, until| now < *until);
        }
        if table.verified.len() < MAX_VERIFIED {
            table.verified.insert(caller_url, now.saturating_add(VERIFIED_FOR));
        }
    }

    /// Counts a verification request to a host, whoever asks for it.
    pub(super) fn count_verification(
        &self,
        host: &str,
        now: MonotonicTime,
    ) -> Result<(), LimitReached> {
        let reached =
            LimitReached { limit: "verifications of one host in a minute", max: MAX_PER_HOST };
        let is_recent = |at: &MonotonicTime| now < at.saturating_add(HOST_WINDOW);
        let mut table = self.lock_state();
        if table.verifications.len() >= MAX_HOSTS {
            table.verifications.retain(|_, times| times.iter().any(is_recent));
        }
        if table.verifications.len() >= MAX_HOSTS && !table.verifications.contains_key(host) {
            return Err(reached);
        }
        let times = table.verifications.entry(host.into()).or_default();
        times.retain(is_recent);
        if times.len() >= MAX_PER_HOST {
            return Err(reached);
        }
        times.push(now);
        Ok(())
    }
}

impl TableState {
    fn check_limits(&mut self, root_key: &str, now: WallTime) -> Result<(), LimitReached> {
        self.subscriptions.retain(|_, subscription| {
            let is_expired = subscription.is_expired(now);
            if is_expired {
                subscription.end.cancel();
            }
            !is_expired
        });
        let own = self.subscriptions.values().filter(|it| *it.root_key == *root_key).count();
        if own >= MAX_PER_KEY {
            return Err(LimitReached { limit: "subscriptions", max: MAX_PER_KEY });
        }
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(LimitReached {
                limit: "subscriptions of all keys",
                max: MAX_SUBSCRIPTIONS,
            });
        }
        Ok(())
    }
}
