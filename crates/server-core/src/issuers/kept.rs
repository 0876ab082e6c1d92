//! One issuer with the keys that are known of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use identity::{Issuer, KeySet};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tool::{Clock, Mono};

use super::KeySource;

/// Older keys are asked for anew, while they still count.
const FRESH: Duration = Duration::from_mins(10);
/// Older keys do not count: one of them may have been taken back.
const OLDEST: Duration = Duration::from_hours(1);
/// The least time from one asking to the next.
const PAUSE: Duration = Duration::from_mins(1);
/// The same where nothing came of it.
const PAUSE_FAILED: Duration = Duration::from_secs(5);
/// How long one asking may take.
const LONG: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) issuer: Issuer,
    /// Where the operator says that its keys are.
    place: Option<String>,
    keys: ArcSwapOption<(KeySet, Mono)>,
    asking: Mutex<Asking>,
    /// Told whenever an asking ends.
    ended: watch::Sender<u64>,
    tasks: TaskTracker,
}

#[derive(Debug, Clone, Copy, Default)]
struct Asking {
    running: bool,
    /// When it was begun last, and whether keys came.
    last: Option<(Mono, bool)>,
}

impl Kept {
    fn new(issuer: Issuer, place: Option<String>) -> Self {
        let (keys, ended) = (ArcSwapOption::empty(), watch::Sender::new(0));
        Self { issuer, place, keys, asking: Mutex::default(), ended, tasks: TaskTracker::new() }
    }

    /// Whether the keys of this are those of `issuer` in `place`.
    pub(super) fn same(&self, issuer: &Issuer, place: Option<&str>) -> bool {
        self.issuer.issuer == issuer.issuer && self.place.as_deref() == place
    }

    /// An issuer as it is believed in from here on, with the keys that were known of it.
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

    /// The keys, where they are not too old.
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

    /// Asks for the keys anew, where that is not too soon, and waits; whether an asking ended.
    pub(super) async fn renewed(
        self: &Arc<Self>,
        from: &Arc<dyn KeySource>,
        clock: &Arc<dyn Clock>,
    ) -> bool {
        // Before looking whether one runs, so that its end is not missed.
        let mut ended = self.ended.subscribe();
        self.ask(from, clock) && tokio::time::timeout(LONG, ended.changed()).await.is_ok()
    }

    /// Begins to ask, unless somebody does or it is too soon; whether an asking runs now. It runs by
    /// itself, so that a caller who goes away does not end it for the others.
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
