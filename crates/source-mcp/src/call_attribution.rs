//! Tracks which callers a connection has served, to decide who may receive a message that names no
//! call.
//!
//! A server may send messages about a call that ended long ago, so one call in flight proves
//! nothing. On a connection that has served one caller only, every message of the server concerns
//! that caller's calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ::mcp::{RpcNotification, tasks};
use tool::{Caller, Json, Org, SourceName};

use tool::display_text::escape_and_truncate;

/// Maximum characters of a server's log line in the operator's log.
const MAX_LOG_CHARS: usize = 300;

/// Identifies a caller by organisation, subject and credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CallerId {
    org: Org,
    subject: String,
    key_id: String,
}

impl CallerId {
    pub(super) fn from_caller(caller: &Caller) -> Self {
        let Caller { org, subject, key_id: key, .. } = caller;
        Self { org: org.clone(), subject: subject.clone(), key_id: key.clone() }
    }

    fn matches_caller(&self, other: &Caller) -> bool {
        self.key_id == other.key_id && self.subject == other.subject && self.org == other.org
    }
}

/// Flag shared by all connections of a source: whether its server sent requests that name no call.
#[derive(Debug, Clone)]
pub(super) struct UnattributedRequests {
    source_name: SourceName,
    /// Whether the server ever sent a request without naming its call.
    seen: Arc<AtomicBool>,
}

impl UnattributedRequests {
    pub(super) fn new(source: SourceName) -> Self {
        Self { source_name: source, seen: Arc::default() }
    }

    /// Returns whether callers need their own connections before the server may send them requests.
    pub(super) fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Acquire)
    }
}

/// The callers of one connection.
#[derive(Debug)]
pub(super) struct ConnectionCallers {
    unattributed_requests: UnattributedRequests,
    sole_caller: OnceLock<CallerId>,
    is_multi_caller: AtomicBool,
}

impl ConnectionCallers {
    /// Creates the record for a connection that has served no caller yet.
    pub(super) fn new(requests: UnattributedRequests) -> Self {
        Self {
            unattributed_requests: requests,
            sole_caller: OnceLock::new(),
            is_multi_caller: AtomicBool::new(false),
        }
    }

    /// Records that a request for this caller is about to be sent.
    pub(super) fn add_caller(&self, caller: &Caller) {
        if !self.try_claim(caller) {
            self.is_multi_caller.store(true, Ordering::Release);
        }
    }

    /// Returns whether the connection belongs to this caller alone. Claims it if no caller has used
    /// it.
    pub(super) fn try_claim(&self, caller: &Caller) -> bool {
        !self.is_shared()
            && self.sole_caller.get_or_init(|| CallerId::from_caller(caller)).matches_caller(caller)
    }

    /// Whether the connection has served more than one caller.
    pub(super) fn is_shared(&self) -> bool {
        self.is_multi_caller.load(Ordering::Acquire)
    }

    /// Records that the server sent a request while calls were in flight and did not name its call.
    pub(super) fn note_unattributed_request(&self) {
        self.unattributed_requests.seen.store(true, Ordering::Release);
    }

    /// Logs a server's log line that belongs to no running call. Only the operator sees it.
    pub(super) fn log_for_operator(&self, notification: &RpcNotification) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let said = notification
            .params
            .as_ref()
            .map(|params| escape_and_truncate(params.as_str(), MAX_LOG_CHARS));
        let (source, said) = (&self.unattributed_requests.source_name, said.unwrap_or_default());
        tracing::debug!(
            %source,
            method = %notification.method,
            %said,
            "ignored a message that belongs to no running call"
        );
    }
}

/// Finds the call in flight that a message belongs to. `calls` yields request ids with their task
/// ids.
///
/// A message about a task belongs to the call that waits for that task. Any other message belongs
/// to the only call in flight, if the connection has served one caller only.
pub(super) fn find_target_call<'a>(
    calls: impl Iterator<Item = (i64, Option<&'a str>)>,
    params: Option<&Json>,
    callers: &ConnectionCallers,
) -> Option<i64> {
    let mut calls = calls;
    if let Some(named) = params.and_then(tasks::related_task_id) {
        return calls.find(|(_, task)| *task == Some(named.as_str())).map(|(call, _)| call);
    }
    if callers.is_shared() {
        return None;
    }
    let (call, _) = calls.next()?;
    calls.next().is_none().then_some(call)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::context::test_caller;
    use tool::{Caller, Json, Org, SourceName};

    use super::{ConnectionCallers, UnattributedRequests, find_target_call};

    fn audience() -> ConnectionCallers {
        ConnectionCallers::new(UnattributedRequests::new(SourceName::new("s").unwrap()))
    }

    #[test]
    fn a_connection_is_its_first_callers_until_another_is_served() {
        let ann = test_caller();
        for other in [
            Caller { key_id: "other".to_owned(), ..ann.clone() },
            Caller { subject: "bob".to_owned(), ..ann.clone() },
            Caller { org: Org::new("other").unwrap(), ..ann.clone() },
        ] {
            let audience = audience();
            audience.add_caller(&ann);
            audience.add_caller(&ann);
            assert!(
                audience.try_claim(&ann) && !audience.try_claim(&other) && !audience.is_shared()
            );
            audience.add_caller(&other);
            assert!(audience.is_shared() && !audience.try_claim(&ann));
        }
    }

    #[test]
    fn a_message_belongs_to_its_task_or_to_the_only_call_of_one_caller() {
        let audience = audience();
        let ann = test_caller();
        audience.add_caller(&ann);
        let of = |task: &str| {
            Json::encode(
                &json!({"_meta": {"io.modelcontextprotocol/related-task": {"taskId": task}}}),
            )
        };
        let (one, two) = ([(1, Some("a"))], [(1, Some("a")), (2, None)]);
        let find = |calls: &[(i64, Option<&str>)], params: Option<&Json>| {
            find_target_call(calls.iter().copied(), params, &audience)
        };
        assert_eq!(find(&one, None), Some(1));
        assert_eq!(find(&two, None), None);
        assert_eq!(find(&[], None), None);
        assert_eq!(find(&two, Some(&of("a"))), Some(1));
        assert_eq!(find(&one, Some(&of("b"))), None);
        audience.add_caller(&Caller { key_id: "other".to_owned(), ..ann });
        assert_eq!(find(&one, None), None);
        assert_eq!(find(&two, Some(&of("a"))), Some(1));
    }
}
