//! Events of this server: what happened to approvals, pins, sources and programs, for those who may see
//! the thing.
//!
//! The log is in memory and bounded. A reader that is too slow, or whose position is of an earlier
//! process, learns that it missed events.

mod event_scope;
mod source_watcher;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gateway::{ApprovalEvent, ApprovalEventKind, ApprovalState};
use serde_json::{Value, json};
use tokio::sync::watch;
use tool::ledger::AuditEventRecord;
use tool::{CallId, Caller, Clock, Json, SourceName, WallTime};
use uuid::Uuid;

pub use event_scope::{EventScope, is_event_visible};

/// Maximum number of events in the log; later ones replace the oldest.
const MAX_EVENTS: usize = 4_096;
/// Maximum bytes of the data of all events.
const MAX_LOG_BYTES: usize = 8 << 20;
/// Maximum bytes of the data of one event; a larger event is dropped and logged.
const MAX_EVENT_BYTES: usize = 16 << 10;

/// Kinds of events of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A call waits for an approval.
    ApprovalRequested,
    /// An approval was given or denied, or has expired.
    ApprovalDecided,
    /// A pinned definition appeared, changed, or was decided about.
    PinChanged,
    /// A source became unavailable.
    SourceDown,
    /// A source is available again.
    SourceUp,
    /// A program has ended.
    ProgramFinished,
}

impl EventKind {
    /// All kinds, in the order of lists.
    pub const ALL: [Self; 6] = [
        Self::ApprovalRequested,
        Self::ApprovalDecided,
        Self::PinChanged,
        Self::SourceDown,
        Self::SourceUp,
        Self::ProgramFinished,
    ];

    /// The name of the kind, as clients subscribe to it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalDecided => "approval.decided",
            Self::PinChanged => "pin.changed",
            Self::SourceDown => "source.down",
            Self::SourceUp => "source.up",
            Self::ProgramFinished => "program.finished",
        }
    }

    /// Parses the name of a kind.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One event of the log.
#[derive(Debug)]
pub struct ServerEvent {
    /// Position in the log, from 1.
    pub position: u64,
    /// Id, by which receivers detect duplicates.
    pub id: String,
    /// Its kind.
    pub kind: EventKind,
    /// Time of the event.
    pub occurred_at: WallTime,
    /// Names and ids of what happened; never arguments or results.
    pub data: Json,
    /// The thing that it is about, which decides who sees it.
    pub scope: EventScope,
}

/// Events that follow a position.
#[derive(Debug)]
pub struct EventPage {
    /// The events, oldest first, of every kind and scope.
    pub events: Vec<Arc<ServerEvent>>,
    /// Whether events after the position are gone.
    pub is_truncated: bool,
    /// The position of the newest event of the log.
    pub head: u64,
}

/// The log of the newest events.
#[derive(Debug)]
pub struct EventLog {
    /// Identifies this process: positions of another one mean nothing here.
    epoch: Uuid,
    clock: Arc<dyn Clock>,
    state: Mutex<LogState>,
    head: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct LogState {
    events: VecDeque<Arc<ServerEvent>>,
    head: u64,
    bytes: usize,
}

impl EventLog {
    /// Creates an empty log.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            epoch: Uuid::new_v4(),
            clock,
            state: Mutex::default(),
            head: watch::Sender::new(0),
        })
    }

    /// The id of this process's log.
    pub fn epoch(&self) -> Uuid {
        self.epoch
    }

    /// The position of the newest event.
    pub fn head(&self) -> u64 {
        self.lock_state().head
    }

    /// The position of the oldest event, or of the next one.
    pub fn oldest(&self) -> u64 {
        let log = self.lock_state();
        log.events.front().map_or(log.head + 1, |event| event.position)
    }

    /// Subscribes to the position of the newest event.
    pub fn subscribe_head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Returns the events after a position.
    pub fn events_after(&self, position: u64) -> EventPage {
        let log = self.lock_state();
        let first = log.events.front().map_or(log.head + 1, |event| event.position);
        let skipped = usize::try_from((position + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        EventPage {
            events: log.events.iter().skip(skipped).cloned().collect(),
            is_truncated: position + 1 < first,
            head: log.head,
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push_event(&self, kind: EventKind, scope: EventScope, data: &Value) {
        let data = gateway::sanitize_json(Json::encode(data));
        let bytes = data.bytes().len();
        if bytes > MAX_EVENT_BYTES {
            tracing::warn!(kind = kind.as_str(), bytes, "an event is too large; it is dropped");
            return;
        }
        let occurred_at = self.clock.wall_now();
        let head = {
            let mut log = self.lock_state();
            log.head += 1;
            let position = log.head;
            let id = format!("evt_{}", Uuid::new_v4().simple());
            let event = ServerEvent { position, id, kind, occurred_at, data, scope };
            log.events.push_back(Arc::new(event));
            log.bytes += bytes;
            while log.events.len() > MAX_EVENTS || log.bytes > MAX_LOG_BYTES {
                let Some(oldest) = log.events.pop_front() else { break };
                log.bytes -= oldest.data.bytes().len();
            }
            position
        };
        // Writers may overtake each other between the lock and here.
        self.head.send_if_modified(|last| {
            let is_newer = head > *last;
            *last = head.max(*last);
            is_newer
        });
    }

    /// Adds an event of an approval, if it is one that people wait for.
    pub fn push_approval(&self, event: &ApprovalEvent) {
        let approval = &event.approval;
        let decided = matches!(
            approval.state,
            ApprovalState::Approved
                | ApprovalState::Denied
                | ApprovalState::Expired
                | ApprovalState::Void
        );
        let decided_by = approval.decision.as_ref().map(|decision| &decision.subject);
        let data = json!({
            "approval": approval.id,
            "tool": approval.tool,
            "source": approval.source,
            "state": approval.state,
            "requested_by": approval.requester.subject,
            "expires": approval.expires_at.to_string(),
            "decided_by": decided_by,
        });
        let kind = match event.kind {
            ApprovalEventKind::Requested => EventKind::ApprovalRequested,
            ApprovalEventKind::Changed if decided => EventKind::ApprovalDecided,
            ApprovalEventKind::Changed => return,
        };
        self.push_event(kind, EventScope::Approval(Box::new(event.scope.clone())), &data);
    }

    /// Adds an event of a pin, if the record of the change is about one.
    pub fn push_audit_event(&self, record: &AuditEventRecord) {
        let Some(change) = record.kind.strip_prefix("pin_") else { return };
        let data = json!({
            "source": record.source,
            "tool": record.tool,
            "change": change,
            "definition": record.digest_after,
        });
        self.push_event(EventKind::PinChanged, EventScope::Pin(record.source.clone()), &data);
    }

    /// Adds an event of a source that became unavailable or available.
    pub(crate) fn push_source(&self, kind: EventKind, source: &SourceName, state: &str) {
        let data = json!({"source": source, "state": state});
        self.push_event(kind, EventScope::Source(source.clone()), &data);
    }

    /// Adds the event of a program that has ended.
    pub fn push_program(&self, program: CallId, status: &str, caller: &Caller) {
        let data = json!({"program": program, "status": status});
        self.push_event(
            EventKind::ProgramFinished,
            EventScope::Program(Box::new(caller.clone())),
            &data,
        );
    }
}

#[cfg(test)]
mod tests;
