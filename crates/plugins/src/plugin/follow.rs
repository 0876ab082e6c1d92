//! How a plugin follows: lists of its server, and changes that are not taken.

use std::sync::Arc;

use tool::{Problem, Revision};

use super::PluginSource;
use crate::server::Session;
use crate::version::{Version, listed};

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
