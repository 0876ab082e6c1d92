//! The callers that a connection has served: what decides who may receive a message that names no call.
//!
//! A server may speak for a call that ended long ago, so that one call is in flight now proves nothing. On
//! a connection that has served one caller only, whatever the server says is about calls of that caller.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ::mcp::{Notification, task};
use tool::{Caller, Json, Org, SourceName};

use tool::display_text::shown;

/// Characters of a log line that goes to the operator's log.
const LINE: usize = 300;

/// One credential of one subject of one organisation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CallerId {
    org: Org,
    subject: String,
    key: String,
}

impl CallerId {
    pub(super) fn of(caller: &Caller) -> Self {
        let Caller { org, subject, key, .. } = caller;
        Self { org: org.clone(), subject: subject.clone(), key: key.clone() }
    }

    fn is(&self, caller: &Caller) -> bool {
        self.key == caller.key && self.subject == caller.subject && self.org == caller.org
    }
}

/// What all connections of one source share.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    source: SourceName,
    /// Whether its server ever asked something without saying in which call.
    asks: Arc<AtomicBool>,
}

impl Asking {
    pub(super) fn new(source: SourceName) -> Self {
        Self { source, asks: Arc::default() }
    }

    /// Whether callers need connections of their own to be asked anything.
    pub(super) fn is_known(&self) -> bool {
        self.asks.load(Ordering::Acquire)
    }
}

/// The callers of one connection.
#[derive(Debug)]
pub(super) struct Audience {
    asking: Asking,
    only: OnceLock<CallerId>,
    shared: AtomicBool,
}

impl Audience {
    /// Nobody's yet.
    pub(super) fn new(asking: Asking) -> Self {
        Self { asking, only: OnceLock::new(), shared: AtomicBool::new(false) }
    }

    /// Something is about to be sent for this caller.
    pub(super) fn admit(&self, caller: &Caller) {
        if !self.claim(caller) {
            self.shared.store(true, Ordering::Release);
        }
    }

    /// Whether the connection is this caller's alone; where it was nobody's, it is now.
    pub(super) fn claim(&self, caller: &Caller) -> bool {
        !self.is_shared() && self.only.get_or_init(|| CallerId::of(caller)).is(caller)
    }

    /// Whether it has served more than one caller.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// The server asked something while calls were in flight, and did not say in which of them.
    pub(super) fn note_question(&self) {
        self.asking.asks.store(true, Ordering::Release);
    }

    /// A log line of no running call: for the operator alone.
    pub(super) fn log(&self, notice: &Notification) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let said = notice.params.as_ref().map(|params| shown(params.as_str(), LINE));
        let (source, said) = (&self.asking.source, said.unwrap_or_default());
        tracing::debug!(%source, method = %notice.method, %said, "a server says what belongs to no running call");
    }
}

/// The call in flight that a message belongs to, of those that `calls` gives with the ids of their tasks.
///
/// A message of a task belongs to the call that waits for that task. Any other, on a connection of one
/// caller, belongs to the only call in flight.
pub(super) fn addressee<'a>(
    calls: impl Iterator<Item = (i64, Option<&'a str>)>,
    params: Option<&Json>,
    audience: &Audience,
) -> Option<i64> {
    let mut calls = calls;
    if let Some(named) = params.and_then(task::related) {
        return calls.find(|(_, task)| *task == Some(named.as_str())).map(|(call, _)| call);
    }
    if audience.is_shared() {
        return None;
    }
    let (call, _) = calls.next()?;
    calls.next().is_none().then_some(call)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::context::caller;
    use tool::{Caller, Json, Org, SourceName};

    use super::{Asking, Audience, addressee};

    fn audience() -> Audience {
        Audience::new(Asking::new(SourceName::new("s").unwrap()))
    }

    #[test]
    fn a_connection_is_its_first_callers_until_another_is_served() {
        let ann = caller();
        for other in [
            Caller { key: "other".to_owned(), ..ann.clone() },
            Caller { subject: "bob".to_owned(), ..ann.clone() },
            Caller { org: Org::new("other").unwrap(), ..ann.clone() },
        ] {
            let audience = audience();
            audience.admit(&ann);
            audience.admit(&ann);
            assert!(audience.claim(&ann) && !audience.claim(&other) && !audience.is_shared());
            audience.admit(&other);
            assert!(audience.is_shared() && !audience.claim(&ann));
        }
    }

    #[test]
    fn a_message_belongs_to_its_task_or_to_the_only_call_of_one_caller() {
        let audience = audience();
        let ann = caller();
        audience.admit(&ann);
        let of = |task: &str| {
            Json::of(&json!({"_meta": {"io.modelcontextprotocol/related-task": {"taskId": task}}}))
        };
        let (one, two) = ([(1, Some("a"))], [(1, Some("a")), (2, None)]);
        let find = |calls: &[(i64, Option<&str>)], params: Option<&Json>| {
            addressee(calls.iter().copied(), params, &audience)
        };
        assert_eq!(find(&one, None), Some(1));
        assert_eq!(find(&two, None), None);
        assert_eq!(find(&[], None), None);
        assert_eq!(find(&two, Some(&of("a"))), Some(1));
        assert_eq!(find(&one, Some(&of("b"))), None);
        audience.admit(&Caller { key: "other".to_owned(), ..ann });
        assert_eq!(find(&one, None), None);
        assert_eq!(find(&two, Some(&of("a"))), Some(1));
    }
}
