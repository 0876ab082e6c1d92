//! How a plugin follows: lists of its server, and changes that are not taken.

use std::sync::Arc;
use std::time::Duration;

use tool::{Mono, Problem, Revision, Source as _};

use super::PluginSource;
use crate::server::Session;
use crate::version::{Version, listed};

/// Waits before what did not start is tried again, as it stands: the machine may have been short of
/// something. The last one repeats.
const WAITS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
];

/// When a version that did not start is tried again.
#[derive(Debug, Default)]
pub(super) struct Again {
    at: Option<Mono>,
    tries: usize,
}

impl Again {
    /// Whether it is time; once.
    pub(super) fn due(&mut self, now: Mono) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.at = None;
        }
        due
    }

    /// Notes what came of a try.
    pub(super) fn note(&mut self, unstarted: bool, now: Mono) {
        let wait = WAITS.get(self.tries).or(WAITS.last()).copied().unwrap_or_default();
        self.at = unstarted.then(|| now.after(wait));
        self.tries = if unstarted { self.tries + 1 } else { 0 };
    }
}

impl PluginSource {
    /// Resolves when the server that this is lists other things.
    pub(super) async fn heard(&self) -> (Arc<Session>, Revision) {
        let follows = self.lock().version.as_ref().and_then(Version::follows);
        match follows {
            Some((session, seen)) => {
                let now = session.server.changed(seen).await;
                (session, now)
            }
            None => std::future::pending().await,
        }
    }

    /// Takes what the server lists now: the folder is the same, and so is the version.
    pub(super) async fn relist(&self, session: &Arc<Session>, now: Revision) {
        let listing = listed(session, self.maker.means.ready).await;
        let mut state = self.lock();
        let Some(version) = state.version.as_ref() else { return };
        let follows = version.follows();
        let same = follows.is_some_and(|(known, _)| Arc::ptr_eq(&known, session));
        let Some(again) = same.then(|| version.again(listing, now)).flatten() else { return };
        let old = state.version.replace(again);
        drop(state);
        drop(old);
        self.tell();
    }
}

/// Whether a tool that works would be there no longer.
pub(super) fn loses(last: &Version, next: &Version) -> bool {
    let worked = |name: &str| last.tools.iter().any(|tool| tool.enabled && tool.name == name);
    next.tools.iter().any(|tool| !tool.enabled && worked(&tool.name))
}

/// Problems of a change that is not taken, and what stays instead.
pub(super) fn kept(problems: &[Problem], stays: Option<&Version>) -> Vec<Problem> {
    let Some(version) = stays else { return problems.to_vec() };
    let told = |problem: &Problem| {
        let message = format!(
            "the change is not taken, version {} stays: {}",
            version.manifest.version, problem.message
        );
        Problem { message, ..problem.clone() }
    };
    problems.iter().map(told).collect()
}
