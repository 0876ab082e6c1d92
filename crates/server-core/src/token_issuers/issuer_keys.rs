//! One issuer with its cached signing keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use identity::{JwkSet, TrustedIssuer};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tool::{Clock, MonotonicTime};

use super::JwksProvider;

/// Keys that are older are refreshed, but remain valid.
const REFRESH_AFTER: Duration = Duration::from_mins(10);
/// Keys that are older are not used: one of them may have been revoked.
const MAX_KEY_AGE: Duration = Duration::from_hours(1);
/// Minimum time between two refreshes.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_mins(1);
/// Minimum time to the next refresh after a failed one.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of one refresh.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct IssuerKeys {
    pub(super) issuer: TrustedIssuer,
    /// The JWKS URL that the operator configured.
    jwks_url: Option<String>,
    keys: ArcSwapOption<(JwkSet, MonotonicTime)>,
    fetch_state: Mutex<FetchState>,
    /// Notified whenever a refresh ends.
    fetch_completed: watch::Sender<u64>,
    tasks: TaskTracker,
}

#[derive(Debug, Clone, Copy, Default)]
struct FetchState {
    is_running: bool,
    /// When the last refresh began, and whether it succeeded.
    last_fetch: Option<(MonotonicTime, bool)>,
}

impl IssuerKeys {
    fn new(issuer: TrustedIssuer, place: Option<String>) -> Self {
        let (keys, ended) = (ArcSwapOption::empty(), watch::Sender::new(0));
        Self {
            issuer,
            jwks_url: place,
            keys,
            fetch_state: Mutex::default(),
            fetch_completed: ended,
            tasks: TaskTracker::new(),
        }
    }

    /// Whether these are the keys of `issuer` at the URL `jwks_url`.
    pub(super) fn is_same_endpoint(&self, issuer: &TrustedIssuer, jwks_url: Option<&str>) -> bool {
        self.issuer.iss == issuer.iss && self.jwks_url.as_deref() == jwks_url
    }

    /// The keys for a new issuer configuration, which reuse known keys of the same endpoint.
    pub(super) fn with_config(
        existing: Option<Arc<Self>>,
        issuer: TrustedIssuer,
        jwks_url: Option<String>,
    ) -> Arc<Self> {
        let Some(existing) = existing else { return Arc::new(Self::new(issuer, jwks_url)) };
        if existing.issuer == issuer {
            return existing;
        }
        let new = Self::new(issuer, jwks_url);
        new.keys.store(existing.keys.load_full());
        let last = existing.fetch_state.lock().unwrap_or_else(PoisonError::into_inner).last_fetch;
        *new.fetch_state.lock().unwrap_or_else(PoisonError::into_inner) =
            FetchState { is_running: false, last_fetch: last };
        Arc::new(new)
    }

    /// The current keys, unless they are too old. Starts a refresh if needed.
    pub(super) fn current_keys(
        self: &Arc<Self>,
        provider: &Arc<dyn JwksProvider>,
        clock: &Arc<dyn Clock>,
    ) -> Option<Arc<(JwkSet, MonotonicTime)>> {
        let kept = self.keys.load_full()?;
        let age = clock.monotonic_now().saturating_duration_since(kept.1);
        if age > REFRESH_AFTER {
            self.start_refresh(provider, clock);
        }
        (age <= MAX_KEY_AGE).then_some(kept)
    }

    /// Refreshes the keys, unless the last refresh was too recent, and waits; returns whether a
    /// refresh ended.
    pub(super) async fn refresh_and_wait(
        self: &Arc<Self>,
        provider: &Arc<dyn JwksProvider>,
        clock: &Arc<dyn Clock>,
    ) -> bool {
        // Subscribed before checking for a running refresh, so that its end is not missed.
        let mut ended = self.fetch_completed.subscribe();
        self.start_refresh(provider, clock)
            && tokio::time::timeout(FETCH_TIMEOUT, ended.changed()).await.is_ok()
    }

    /// Starts a refresh, unless one is running or the last was too recent; returns whether one is
    /// running. It runs as its own task, so that a disconnecting caller does not cancel it for the
    /// others.
    fn start_refresh(
        self: &Arc<Self>,
        from: &Arc<dyn JwksProvider>,
        clock: &Arc<dyn Clock>,
    ) -> bool {
        let now = clock.monotonic_now();
        {
            let mut asking = self.fetch_state.lock().unwrap_or_else(PoisonError::into_inner);
            if asking.is_running {
                return true;
            }
            let pause = |came| if came { MIN_REFRESH_INTERVAL } else { RETRY_INTERVAL };
            if asking
                .last_fetch
                .is_some_and(|(at, came)| now.saturating_duration_since(at) < pause(came))
            {
                return false;
            }
            asking.is_running = true;
        }
        let (own, from) = (Arc::clone(self), Arc::clone(from));
        drop(self.tasks.spawn(async move {
            let came = own.fetch_keys(from.as_ref(), now).await;
            {
                let mut asking = own.fetch_state.lock().unwrap_or_else(PoisonError::into_inner);
                *asking = FetchState { is_running: false, last_fetch: Some((now, came)) };
            }
            own.fetch_completed.send_modify(|number| *number += 1);
        }));
        true
    }

    async fn fetch_keys(&self, from: &dyn JwksProvider, now: MonotonicTime) -> bool {
        let issuer = &self.issuer.iss;
        let late = || Err(format!("no answer within {FETCH_TIMEOUT:?}"));
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, from.fetch_jwks(issuer))
            .await
            .unwrap_or_else(|_| late());
        let read =
            fetched.and_then(|text| JwkSet::parse_set(text).map_err(|error| error.to_string()));
        match read {
            Ok(keys) => {
                self.keys.store(Some(Arc::new((keys, now))));
                true
            }
            Err(error) => {
                tracing::warn!(issuer, error, "cannot fetch the keys of an issuer");
                false
            }
        }
    }
}
