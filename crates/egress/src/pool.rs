//! Connections that wait for the next request: each under the class, origin and runtime it was made for,
//! and found under no other.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tool::Map;

use tokio::time::Instant;

use super::Class;
use super::connection::Connection;
use super::target::Origin;

/// What a connection was made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    class: u8,
    origin: Origin,
    /// Used by another one, its socket would wake this one for every byte.
    runtime: tokio::runtime::Id,
}

impl Key {
    pub(super) fn of(class: &Class, origin: &Origin) -> Self {
        let class = match class {
            Class::Operator { .. } => 0,
            Class::Caller => 1,
            Class::Upstream => 2,
        };
        Self { class, origin: origin.clone(), runtime: tokio::runtime::Handle::current().id() }
    }
}

/// How many connections wait, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// Most in all.
    pub most: usize,
    /// Most to one origin from one runtime.
    pub per_origin: usize,
    /// Longest wait. Common servers close after 5 s (uvicorn, node), so the default is less.
    pub idle: Duration,
}

impl Default for Keep {
    fn default() -> Self {
        Self { most: 256, per_origin: 64, idle: Duration::from_secs(4) }
    }
}

/// Places whose connections are all in use, and that are remembered.
const REMEMBERED: usize = 256;

/// The connections that wait.
#[derive(Debug)]
pub(super) struct Pool {
    keep: Keep,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    queues: Map<Key, VecDeque<(Instant, Connection)>>,
    /// In all queues.
    count: usize,
}

impl Pool {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that can take a request, the last used first.
    pub(super) fn take(&self, key: &Key) -> Option<Connection> {
        while let Some(mut conn) = self.pop(key) {
            if conn.is_quiet() {
                return Some(conn);
            }
        }
        None
    }

    fn pop(&self, key: &Key) -> Option<Connection> {
        let mut waiting = self.waiting();
        let last = waiting.queues.get_mut(key)?.pop_back()?;
        waiting.count -= 1;
        drop(waiting);
        // Older ones wait longer still; `sweep` takes them.
        let (since, conn) = last;
        (since.elapsed() < self.keep.idle).then_some(conn)
    }

    /// Keeps one that is free. Where there is no room, the one that waits longest goes.
    pub(super) fn put(&self, key: Key, conn: Connection) {
        let now = Instant::now();
        let mut gone = None;
        let mut waiting = self.waiting();
        let queue = waiting.queues.entry(key).or_default();
        queue.push_back((now, conn));
        let first = queue.front().map_or(now, |(since, _)| *since);
        if queue.len() > self.keep.per_origin || now - first >= self.keep.idle {
            gone = queue.pop_front();
        } else {
            waiting.count += 1;
        }
        if waiting.count > self.keep.most {
            waiting.count -= 1;
            gone = waiting.longest();
        }
        if waiting.queues.len() > REMEMBERED {
            waiting.queues.retain(|_, queue| !queue.is_empty());
        }
        drop(waiting);
        // Closed outside the lock.
        drop(gone);
    }

    /// Closes what has waited too long.
    pub(super) fn sweep(&self) {
        let mut gone = Vec::new();
        let mut waiting = self.waiting();
        waiting.queues.retain(|_, queue| {
            while queue.front().is_some_and(|(since, _)| since.elapsed() >= self.keep.idle) {
                gone.extend(queue.pop_front());
            }
            !queue.is_empty()
        });
        waiting.count -= gone.len();
        drop(waiting);
        drop(gone);
    }

    /// Bounds of one wait; for a loop that sweeps.
    pub(super) fn idle(&self) -> Duration {
        self.keep.idle
    }
}

impl Waiting {
    fn longest(&mut self) -> Option<(Instant, Connection)> {
        let queues = self.queues.values_mut().filter(|queue| !queue.is_empty());
        queues.min_by_key(|queue| queue.front().map(|(since, _)| *since))?.pop_front()
    }
}
