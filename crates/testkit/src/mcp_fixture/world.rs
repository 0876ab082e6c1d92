//! The state of a fixture between requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use tokio::sync::broadcast;
use uuid::Uuid;

use super::session::Session;
use super::tasks::Task;
use super::{Era, Options};

/// A change that clients can be notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Tools,
    Prompts,
    /// The resource with this URI.
    Resource(String),
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) options: Options,
    /// The key that signs `requestState`.
    pub(super) secret: [u8; 16],
    pub(super) changes: broadcast::Sender<Change>,
    pub(super) sessions: Mutex<HashMap<String, Arc<Session>>>,
    pub(super) tasks: Mutex<HashMap<String, Task>>,
    pub(super) more_tools: AtomicBool,
    pub(super) more_prompts: AtomicBool,
    /// How often the subscribed resource changed.
    pub(super) watched: AtomicU64,
    /// Calls of `test_wait` that were cancelled.
    pub(super) cancelled: AtomicU64,
}

impl World {
    pub(super) fn new(options: Options) -> Self {
        let (changes, _) = broadcast::channel(64);
        Self {
            options,
            secret: *Uuid::new_v4().as_bytes(),
            changes,
            sessions: Mutex::default(),
            tasks: Mutex::default(),
            more_tools: AtomicBool::default(),
            more_prompts: AtomicBool::default(),
            watched: AtomicU64::default(),
            cancelled: AtomicU64::default(),
        }
    }

    pub(super) fn speaks(&self, era: Era) -> bool {
        self.options.era == Era::Both || self.options.era == era
    }

    pub(super) fn tell(&self, change: Change) {
        // There may be no receivers.
        let _heard = self.changes.send(change);
    }
}
