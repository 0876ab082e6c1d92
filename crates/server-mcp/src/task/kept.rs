//! The tasks of this process: whose they are, and how many there may be.
//!
//! An id is the sealed name of the call, bound to key and endpoint: only whom it was given can have it
//! opened, and nobody can make one. What it stands for is kept here, in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tool::{CallId, Secret, Wall};
use uuid::Uuid;

use super::state::Task;
use crate::asked::{Asked, Who};
use server_core::seal::Seal;

/// How long a call may take that has become a task.
pub(super) const LASTS: Duration = Duration::from_hours(1);
/// How long a task can be asked for, from its beginning.
pub(super) const KEPT: Duration = Duration::from_mins(70);
/// Tasks of one root key, those included that have ended and are kept.
pub(super) const OF_KEY: usize = 64;
/// Tasks that run at one source, which is to have room for other calls.
pub(super) const OF_SOURCE: usize = 128;
/// Tasks in all.
pub(super) const MOST: usize = 1_024;
/// Bytes of results kept for one root key, and in all.
const BYTES: (usize, usize) = (16 << 20, 64 << 20);

/// Organisation, key and endpoint.
pub(super) type Owner = [Box<str>; 3];

/// See the module's header.
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

/// The key that its tasks count for.
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

    /// A place for a call that may become a task.
    pub(crate) fn offer(&self, asked: &Asked<'_>) -> Arc<Task> {
        let clock = Arc::clone(&asked.who.doors.parts.clock);
        Task::new(self.clone(), (owner(asked.who), root(asked.who)), asked.client(), clock)
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of a call as a task; nothing where there is no randomness.
    pub(super) fn name(&self, owner: &Owner, call: CallId) -> Option<String> {
        self.seal.close(&bound(owner), call.0.as_bytes())
    }

    /// The task of this id, where it was given to this caller at this endpoint.
    pub(crate) fn find(&self, who: Who<'_>, id: &str) -> Option<Arc<Task>> {
        let plain = self.seal.open(&bound(&owner(who)), id)?;
        let call = CallId(Uuid::from_slice(&plain).ok()?);
        let now = who.doors.parts.clock.wall();
        let mut all = self.all();
        all.sweep(now);
        all.tasks.get(&call).map(Arc::clone)
    }

    /// Takes a task in; false where there are too many.
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

    /// Whether a result of so many bytes may be kept for this task.
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

    /// Gives up all that run. There are no new ones.
    pub(crate) fn close(&self) {
        let mut all = self.all();
        all.closed = true;
        all.tasks.values().for_each(|task| task.cancel.cancel());
    }
}

impl All {
    /// What has had its time goes. Whoever still works on it stops.
    fn sweep(&mut self, now: Wall) {
        self.tasks.retain(|_, task| {
            let holds = !task.expired(now);
            if !holds {
                task.cancel.cancel();
            }
            holds
        });
    }

    /// The tasks that count for the same root key as this one.
    fn of<'a>(&'a self, mine: &'a Task) -> impl Iterator<Item = &'a Arc<Task>> {
        self.tasks.values().filter(|task| task.is_of(mine))
    }

    /// Forgets what has ended and was fetched, the oldest first, until `enough` says so: of this root key at
    /// first, and then of anyone. False where nothing of that kind is left.
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
