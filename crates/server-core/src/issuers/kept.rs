//! One issuer with its cached signing keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use identity::{Issuer, KeySet};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tool::{Clock, Mono};

use super::KeySource;

/// Keys that are older are refreshed, but remain valid.
const FRESH: Duration = Duration::from_mins(10);
/// Keys that are older are not used: one of them may have been revoked.
const OLDEST: Duration = Duration::from_hours(1);
/// Minimum time between two refreshes.
const PAUSE: Duration = Duration::from_mins(1);
/// Minimum time to the next refresh after a failed one.
const PAUSE_FAILED: Duration = Duration::from_secs(5);
/// Timeout of one refresh.
const LONG: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) issuer: Issuer,
    /// The JWKS URL that the operator configured.
    place: Option<String>,
    keys: ArcSwapOption<(KeySet, Mono)>,
    asking: Mutex<Asking>,
    /// Notified whenever a refresh ends.
    ended: watch::Sender<u64>,
    tasks: TaskTracker,
}

#[derive(Debug, Clone, Copy, Default)]
struct Asking {
    running: bool,
    /// When the last refresh began, and whether it succeeded.
    last: Option<(Mono, bool)>,
}

impl Kept {
    fn new(issuer: Issuer, place: Option<String>) -> Self {
        let (keys, ended) = (ArcSwapOption::empty(), watch::Sender::new(0));
        Self { issuer, place, keys, asking: Mutex::default(), ended, tasks: TaskTracker::new() }
    }

    /// Whether these are the keys of `issuer` at the URL `place`.
    pub(super) fn same(&self, issuer: &Issuer, place: Option<&str>) -> bool {
        self.issuer.issuer == issuer.issuer && self.place.as_deref() == place
    }

    /// The keys for a new issuer configuration, which reuse known keys of the same endpoint.
    pub(super) fn after(
        known: Option<Arc<Self>>,
        issuer: Issuer,
        place: Option<String>,
    ) -> Arc<Self> {
        let Some(known) = known else { return Arc::new(Self::new(issuer, place)) };
        if known.issuer == issuer {
            return known;
        }
        let new = Self::new(issuer, place);
        new.keys.store(known.keys.load_full());
        let last = known.asking.lock().unwrap_or_else(PoisonError::into_inner).last;
        *new.asking.lock().unwrap_or_else(PoisonError::into_inner) =
            Asking { running: false, last };
        Arc::new(new)
    }

    /// The current keys, unless they are too old. Starts a refresh if needed.
    pub(super) fn keys(
        self: &Arc<Self>,
        from: &Arc<dyn KeySource>,
        clock: &Arc<dyn Clock>,
    ) -> Option<Arc<(KeySet, Mono)>> {
        let kept = self.keys.load_full()?;
        let age = clock.mono().since(kept.1);
        if age > FRESH {
            self.ask(from, clock);
        }
        (age <= OLDEST).then_some(kept)
    }

    /// Refreshes the keys, unless the last refresh was too recent, and waits; returns whether a
    /// refresh ended.
    pub(super) async fn renewed(
        self: &Arc<Self>,
        from: &Arc<dyn KeySource>,
        clock: &Arc<dyn Clock>,
    ) -> bool {
        // Subscribed before checking for a running refresh, so that its end is not missed.
        let mut ended = self.ended.subscribe();
        self.ask(from, clock) && tokio::time::timeout(LONG, ended.changed()).await.is_ok()
    }

    /// Starts a refresh, unless one is running or the last was too recent; returns whether one is
    /// running. It runs as its own task, so that a disconnecting caller does not cancel it for the
    /// others.
    fn ask(self: &Arc<Self>, from: &Arc<dyn KeySource>, clock: &Arc<dyn Clock>) -> bool {
        let now = clock.mono();
        {
            let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            if asking.running {
                return true;
            }
            let pause = |came| if came { PAUSE } else { PAUSE_FAILED };
            if asking.last.is_some_and(|(at, came)| now.since(at) < pause(came)) {
                return false;
            }
            asking.running = true;
        }
        let (own, from) = (Arc::clone(self), Arc::clone(from));
        drop(self.tasks.spawn(async move {
            let came = own.fetched(from.as_ref(), now).await;
            {
                let mut asking = own.asking.lock().unwrap_or_else(PoisonError::into_inner);
                *asking = Asking { running: false, last: Some((now, came)) };
            }
            own.ended.send_modify(|number| *number += 1);
        }));
        true
    }

    async fn fetched(&self, from: &dyn KeySource, now: Mono) -> bool {
        let issuer = &self.issuer.issuer;
        let late = || Err(format!("no answer within {LONG:?}"));
        let fetched =
            tokio::time::timeout(LONG, from.fetch(issuer)).await.unwrap_or_else(|_| late());
        let read = fetched.and_then(|text| KeySet::read(text).map_err(|error| error.to_string()));
        match read {
            Ok(keys) => {
                self.keys.store(Some(Arc::new((keys, now))));
                true
            }
            Err(error) => {
                tracing::warn!(issuer, error, "the keys of an issuer cannot be had");
                false
            }
        }
    }
}
