//! The tasks of this process, with their owners and limits.
//!
//! A task id is the encrypted call id, bound to key and endpoint: only its recipient can use it,
//! and nobody can forge one. The task itself is kept in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tool::{CallId, Secret, Wall};
use uuid::Uuid;

use super::state::Task;
use crate::asked::{Asked, Who};
use server_core::seal::Seal;

/// Maximum duration of a call that became a task.
pub(super) const LASTS: Duration = Duration::from_hours(1);
/// Time for which a task can be queried, from its creation.
pub(super) const KEPT: Duration = Duration::from_mins(70);
/// Maximum number of tasks of one root key, including finished ones that are kept.
pub(super) const OF_KEY: usize = 64;
/// Maximum number of tasks that run at one source, which leaves capacity for other calls.
pub(super) const OF_SOURCE: usize = 128;
/// Maximum number of tasks in total.
pub(super) const MOST: usize = 1_024;
/// Maximum bytes of stored results per root key, and in total.
const BYTES: (usize, usize) = (16 << 20, 64 << 20);

/// The organization, key and endpoint that a task belongs to.
pub(super) type Owner = [Box<str>; 3];

/// The store of all tasks; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    seal: Arc<Seal>,
    all: Arc<Mutex<All>>,
}

#[derive(Debug, Default)]
struct All {
    tasks: HashMap<CallId, Arc<Task>>,
    closed: bool,
}

fn owner(who: Who<'_>) -> Owner {
    [who.principal.org().as_str(), who.principal.key(), who.scope.word()].map(Into::into)
}

/// The root key whose limits apply to the caller's tasks.
fn root(who: Who<'_>) -> Box<str> {
    format!("{}/{}", who.principal.org().as_str(), who.principal.root_key()).into()
}

fn bound(owner: &Owner) -> [&str; 3] {
    owner.each_ref().map(|part| &**part)
}

impl Kept {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self { seal: Arc::new(Seal::new(secret, "toolkeep mcp task")), all: Arc::default() }
    }

    /// Creates a task for a call that may detach.
    pub(crate) fn offer(&self, asked: &Asked<'_>) -> Arc<Task> {
        let clock = Arc::clone(&asked.who.doors.parts.clock);
        Task::new(self.clone(), (owner(asked.who), root(asked.who)), asked.client(), clock)
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encrypts the task id of a call; `None` if no randomness is available.
    pub(super) fn name(&self, owner: &Owner, call: CallId) -> Option<String> {
        self.seal.close(&bound(owner), call.0.as_bytes())
    }

    /// Finds the task of an id that was issued to this caller at this endpoint.
    pub(crate) fn find(&self, who: Who<'_>, id: &str) -> Option<Arc<Task>> {
        let plain = self.seal.open(&bound(&owner(who)), id)?;
        let call = CallId(Uuid::from_slice(&plain).ok()?);
        let now = who.doors.parts.clock.wall();
        let mut all = self.all();
        all.sweep(now);
        all.tasks.get(&call).map(Arc::clone)
    }

    /// Adds a task. Returns false if there are too many.
    pub(super) fn admit(&self, call: CallId, task: Arc<Task>, now: Wall) -> bool {
        let mut all = self.all();
        all.sweep(now);
        let source = task.source();
        let beside = all.tasks.values().filter(|other| other.runs_beside(source.as_ref()));
        let room = !all.closed
            && beside.count() < OF_SOURCE
            && all.make_room(&task, |all, mine| all.of(mine).count() < OF_KEY)
            && all.make_room(&task, |all, _| all.tasks.len() < MOST);
        if room {
            all.tasks.insert(call, task);
        }
        room
    }

    /// Makes room for a result of `bytes` bytes. Returns false if the limits do not allow it.
    pub(super) fn takes(&self, task: &Task, bytes: usize) -> bool {
        let mut all = self.all();
        let sum = |tasks: &mut dyn Iterator<Item = &Arc<Task>>| -> usize {
            tasks.map(|task| task.bytes()).sum()
        };
        all.make_room(task, |all, mine| sum(&mut all.of(mine)) + bytes <= BYTES.0)
            && all.make_room(task, |all, _| sum(&mut all.tasks.values()) + bytes <= BYTES.1)
    }

    pub(super) fn forget(&self, call: CallId) {
        self.all().tasks.remove(&call);
    }

    /// Cancels all running tasks and accepts no new ones.
    pub(crate) fn close(&self) {
        let mut all = self.all();
        all.closed = true;
        all.tasks.values().for_each(|task| task.cancel.cancel());
    }
}

impl All {
    /// Removes expired tasks and cancels those that still run.
    fn sweep(&mut self, now: Wall) {
        self.tasks.retain(|_, task| {
            let holds = !task.expired(now);
            if !holds {
                task.cancel.cancel();
            }
            holds
        });
    }

    /// The tasks of the same root key as `mine`.
    fn of<'a>(&'a self, mine: &'a Task) -> impl Iterator<Item = &'a Arc<Task>> {
        self.tasks.values().filter(|task| task.is_of(mine))
    }

    /// Removes fetched results, oldest first, until `enough` is satisfied: of this root key first,
    /// then of any. Returns false if none is left.
    fn make_room(&mut self, mine: &Task, enough: impl Fn(&Self, &Task) -> bool) -> bool {
        while !enough(self, mine) {
            let fetched = self.tasks.iter().filter(|(_, task)| task.fetched());
            // Ids sort by time.
            let oldest = fetched.min_by_key(|(call, task)| (!task.is_of(mine), **call));
            let Some(call) = oldest.map(|(call, _)| *call) else { return false };
            self.tasks.remove(&call);
        }
        true
    }
}
