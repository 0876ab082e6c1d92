//! The pool of idle connections, keyed by trust class, origin and tokio runtime. A connection is
//! never reused under another key.

use std::collections::VecDeque;
use std::mem::{self, Discriminant};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tool::FastMap;

use tokio::time::Instant;

use super::UrlTrust;
use super::http_connection::HttpConnection;
use super::url_policy::Origin;

/// Trust class, origin and runtime of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    trust_class: Discriminant<UrlTrust>,
    origin: Origin,
    /// A socket wakes only the runtime that registered it, so another runtime must not use the
    /// connection.
    runtime: tokio::runtime::Id,
}

impl PoolKey {
    pub(super) fn from_origin(trust: &UrlTrust, origin: &Origin) -> Self {
        Self {
            trust_class: mem::discriminant(trust),
            origin: origin.clone(),
            runtime: tokio::runtime::Handle::current().id(),
        }
    }
}

/// Size and idle timeout of the connection pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolOptions {
    /// Maximum number of idle connections.
    pub max_idle: usize,
    /// Maximum number of idle connections to one origin from one runtime.
    pub max_idle_per_origin: usize,
    /// Time after which an idle connection is closed. Common servers close after 5 s (uvicorn,
    /// Node.js), so the default is less.
    pub idle_timeout: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { max_idle: 256, max_idle_per_origin: 64, idle_timeout: Duration::from_secs(4) }
    }
}

/// Maximum number of empty queues that are kept for reuse.
const MAX_EMPTY_QUEUES: usize = 256;

/// The pool of idle connections.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    options: PoolOptions,
    idle_connections: Mutex<IdleConnections>,
}

#[derive(Debug, Default)]
struct IdleConnections {
    queues: FastMap<PoolKey, VecDeque<(Instant, HttpConnection)>>,
    /// Number of connections in all queues.
    connection_count: usize,
}

impl ConnectionPool {
    pub(super) fn new(options: PoolOptions) -> Self {
        Self { options, idle_connections: Mutex::default() }
    }

    fn lock_idle(&self) -> MutexGuard<'_, IdleConnections> {
        self.idle_connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a reusable connection, most recently used first.
    pub(super) fn take_connection(&self, key: &PoolKey) -> Option<HttpConnection> {
        while let Some(mut conn) = self.pop_newest(key) {
            if conn.is_reusable() {
                return Some(conn);
            }
        }
        None
    }

    fn pop_newest(&self, key: &PoolKey) -> Option<HttpConnection> {
        let mut idle = self.lock_idle();
        let last = idle.queues.get_mut(key)?.pop_back()?;
        idle.connection_count -= 1;
        drop(idle);
        // Older ones wait longer still; `sweep` takes them.
        let (since, conn) = last;
        (since.elapsed() < self.options.idle_timeout).then_some(conn)
    }

    /// Adds an idle connection. If the pool is full, evicts the one that was idle longest.
    pub(super) fn put_connection(&self, key: PoolKey, conn: HttpConnection) {
        let now = Instant::now();
        let mut evicted = None;
        let mut idle = self.lock_idle();
        let queue = idle.queues.entry(key).or_default();
        queue.push_back((now, conn));
        let oldest_since = queue.front().map_or(now, |(since, _)| *since);
        if queue.len() > self.options.max_idle_per_origin
            || now - oldest_since >= self.options.idle_timeout
        {
            evicted = queue.pop_front();
        } else {
            idle.connection_count += 1;
        }
        if idle.connection_count > self.options.max_idle {
            idle.connection_count -= 1;
            evicted = idle.pop_oldest();
        }
        if idle.queues.len() > MAX_EMPTY_QUEUES {
            idle.queues.retain(|_, queue| !queue.is_empty());
        }
        drop(idle);
        // Closed outside the lock.
        drop(evicted);
    }

    /// Closes the connections whose idle timeout expired.
    pub(super) fn evict_expired(&self) {
        let mut expired = Vec::new();
        let mut idle = self.lock_idle();
        idle.queues.retain(|_, queue| {
            while queue
                .front()
                .is_some_and(|(since, _)| since.elapsed() >= self.options.idle_timeout)
            {
                expired.extend(queue.pop_front());
            }
            !queue.is_empty()
        });
        idle.connection_count -= expired.len();
        drop(idle);
        drop(expired);
    }

    /// Returns the idle timeout, which sets the interval of the eviction loop.
    pub(super) fn idle_timeout(&self) -> Duration {
        self.options.idle_timeout
    }
}

impl IdleConnections {
    fn pop_oldest(&mut self) -> Option<(Instant, HttpConnection)> {
        let queues = self.queues.values_mut().filter(|queue| !queue.is_empty());
        queues.min_by_key(|queue| queue.front().map(|(since, _)| *since))?.pop_front()
    }
}
