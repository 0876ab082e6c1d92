//! The state of a fixture between requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use tokio::sync::broadcast;
use uuid::Uuid;

use super::session::FixtureSession;
use super::tasks::FixtureTask;
use super::{FixtureEra, FixtureOptions};

/// A change that clients can be notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FixtureChange {
    Tools,
    Prompts,
    /// The resource with this URI.
    Resource(String),
}

#[derive(Debug)]
pub(super) struct FixtureState {
    pub(super) options: FixtureOptions,
    /// Whether it has the events extension.
    pub(super) has_events: bool,
    /// The key that signs `requestState`.
    pub(super) secret: [u8; 16],
    pub(super) changes: broadcast::Sender<FixtureChange>,
    pub(super) sessions: Mutex<HashMap<String, Arc<FixtureSession>>>,
    pub(super) tasks: Mutex<HashMap<String, FixtureTask>>,
    pub(super) more_tools: AtomicBool,
    pub(super) more_prompts: AtomicBool,
    /// How often the subscribed resource changed.
    pub(super) watched_changes: AtomicU64,
    /// Calls of `test_wait` that were cancelled.
    pub(super) cancelled_calls: AtomicU64,
}

impl FixtureState {
    pub(super) fn new(options: FixtureOptions) -> Self {
        let (changes, _) = broadcast::channel(64);
        Self {
            options,
            has_events: false,
            secret: *Uuid::new_v4().as_bytes(),
            changes,
            sessions: Mutex::default(),
            tasks: Mutex::default(),
            more_tools: AtomicBool::default(),
            more_prompts: AtomicBool::default(),
            watched_changes: AtomicU64::default(),
            cancelled_calls: AtomicU64::default(),
        }
    }

    pub(super) fn supports_era(&self, era: FixtureEra) -> bool {
        self.options.era == FixtureEra::Both || self.options.era == era
    }

    pub(super) fn broadcast_change(&self, change: FixtureChange) {
        // There may be no receivers.
        let _heard = self.changes.send(change);
    }
}
