//! File descriptors: how many this process may have, and how they are shared between clients and sources.
//!
//! The soft limit is 1,024 on most systems, for programs that use select(2); the hard limit is what the
//! operator means. A server raises the one to the other. Children get the soft limit back that this process
//! was started with. Connections to sources and started programs are counted, so that they never take the
//! descriptors that clients need.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than this is of no use, and makes programs slow that look at every number.
const MOST: u64 = 1 << 20;
/// Connections of clients for which descriptors are kept, at most.
pub const MOST_CLIENTS: usize = 10_000;
/// Descriptors for files: the record, the store, artefacts, what is being read.
const FILES: usize = 64;
/// What a started program takes: its control socket, three pipes and the handle of its supervisor.
pub const CHILD: usize = 5;
/// What an MCP server over HTTP takes: a connection for its answers, and one that listens.
const HTTP_SOURCE: usize = 2;

/// The soft limit that this process was started with; 0 where it was not raised.
static ORIGINAL: AtomicU64 = AtomicU64::new(0);
/// What sources may take.
static FOR_SOURCES: AtomicUsize = AtomicUsize::new(usize::MAX);
/// What they have taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Division of the file descriptors between clients and sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// All of them.
    pub limit: usize,
    /// Connections of clients.
    pub clients: usize,
    /// Descriptors of connections to sources and of started programs.
    pub sources: usize,
}

impl Shares {
    /// Divides a limit: clients get half, at most [`MOST_CLIENTS`], sources the rest.
    #[must_use]
    pub fn of(limit: usize) -> Self {
        let shared = limit.saturating_sub(FILES);
        let clients = (shared / 2).min(MOST_CLIENTS);
        Self { limit, clients, sources: shared - clients }
    }

    /// Of as many as a server would have here: the hard limit of this process.
    #[must_use]
    pub fn here() -> Self {
        Self::of(usable_limit(getrlimit(Resource::Nofile)))
    }

    /// MCP servers over HTTP that fit.
    #[must_use]
    pub fn http_sources(&self) -> usize {
        self.sources / HTTP_SOURCE
    }

    /// Started programs that fit.
    #[must_use]
    pub fn programs(&self) -> usize {
        self.sources / CHILD
    }
}

/// The hard limit, as far as it is of use.
fn usable_limit(limit: Rlimit) -> usize {
    let hard = limit.maximum.unwrap_or(MOST).min(MOST);
    usize::try_from(hard.max(limit.current.unwrap_or(hard).min(MOST))).unwrap_or(usize::MAX)
}

/// Raises the soft limit to the hard one, and shares out what there is: once, before anything is opened
/// that is counted.
///
/// # Errors
/// Where the system refuses; then the limit is as it was, and shared out too.
pub fn raise() -> Result<Shares, (Shares, io::Error)> {
    let before = getrlimit(Resource::Nofile);
    let limit = usable_limit(before);
    let soft = before.current.unwrap_or(u64::MAX);
    if (limit as u64) > soft {
        let raised = Rlimit { current: Some(limit as u64), maximum: before.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            let shares = Shares::of(usize::try_from(soft).unwrap_or(usize::MAX));
            FOR_SOURCES.store(shares.sources, Ordering::Relaxed);
            return Err((shares, error.into()));
        }
        ORIGINAL.store(soft, Ordering::Relaxed);
    }
    let shares = Shares::of(limit);
    FOR_SOURCES.store(shares.sources, Ordering::Relaxed);
    Ok(shares)
}

/// The soft limit for children, where this process has another one.
pub fn original_soft_limit() -> Option<u64> {
    Some(ORIGINAL.load(Ordering::Relaxed)).filter(|soft| *soft > 0)
}

/// Sets the soft limit of this process, a child's supervisor, and so of its child.
pub fn set_soft_limit(soft: u64) -> io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum })?)
}

/// Descriptors reserved for a source; dropping it releases them.
#[derive(Debug)]
pub struct Claim(usize);

impl Claim {
    /// Takes `count` of those for sources.
    ///
    /// # Errors
    /// Where so many are not left.
    pub fn take(count: usize) -> io::Result<Self> {
        let most = FOR_SOURCES.load(Ordering::Relaxed);
        let more = |taken: usize| taken.checked_add(count).filter(|taken| *taken <= most);
        match TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self(count)),
            Err(taken) => Err(io::Error::other(format!(
                "sources have {taken} of {most} file descriptors, and the others are kept for \
                 clients; raise the hard limit (`ulimit -Hn`, `LimitNOFILE=`), or remove sources"
            ))),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_sources_never_take_the_last_descriptors_together() {
        for limit in [0, 63, 64, 65, 256, 1_024, 4_096, 20_064, 524_288, 1 << 20] {
            let shares = Shares::of(limit);
            assert!(shares.clients <= MOST_CLIENTS && shares.limit == limit, "{shares:?}");
            assert!(shares.clients + shares.sources + FILES <= limit.max(FILES), "{shares:?}");
        }
        let usual = Shares::of(1_024);
        assert_eq!((usual.clients, usual.sources), (480, 480));
        assert_eq!((usual.http_sources(), usual.programs()), (240, 96));
        assert_eq!(Shares::of(1 << 20).clients, MOST_CLIENTS);
    }

    #[test]
    fn an_endless_hard_limit_is_raised_to_no_more_than_is_of_use() {
        let limit = |current, maximum| usable_limit(Rlimit { current, maximum });
        assert_eq!(limit(Some(1_024), None), 1 << 20);
        assert_eq!(limit(Some(1_024), Some(4_096)), 4_096);
        assert_eq!(limit(None, None), 1 << 20);
    }
}
