//! File descriptors of this process and their division between clients and sources.
//!
//! The soft limit is 1,024 on most systems, for programs that use select(2); the hard limit is the
//! one that the operator intends. A server raises the soft limit to the hard one. Children get the
//! original soft limit back. Connections to sources and started programs are counted, so that they
//! never use the descriptors that clients need.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A higher limit is useless and slows down programs that iterate over all descriptor numbers.
const MAX_USEFUL_LIMIT: u64 = 1 << 20;
/// Maximum client connections for which descriptors are reserved.
pub const MAX_CLIENTS: usize = 10_000;
/// Descriptors for files: the ledger, the store, artifacts and files being read.
const RESERVED_FOR_FILES: usize = 64;
/// Descriptors of a started program: its control socket, three pipes and its supervisor's handle.
pub const DESCRIPTORS_PER_CHILD: usize = 5;
/// Descriptors of an MCP server over HTTP: one connection for answers and one for its server
/// stream.
const DESCRIPTORS_PER_HTTP_SOURCE: usize = 2;

/// Soft limit that this process was started with; 0 if it was not raised.
static ORIGINAL_SOFT_LIMIT: AtomicU64 = AtomicU64::new(0);
/// Maximum descriptors for sources.
static SOURCE_QUOTA: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Descriptors that sources use now.
static SOURCE_DESCRIPTORS_IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Division of the file descriptors between clients and sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorShares {
    /// Total number of descriptors.
    pub limit: usize,
    /// Maximum client connections.
    pub clients: usize,
    /// Descriptors for connections to sources and for started programs.
    pub sources: usize,
}

impl DescriptorShares {
    /// Divides a limit: clients get half, at most [`MAX_CLIENTS`], sources the rest.
    #[must_use]
    pub fn from_limit(limit: usize) -> Self {
        let shared = limit.saturating_sub(RESERVED_FOR_FILES);
        let clients = (shared / 2).min(MAX_CLIENTS);
        Self { limit, clients, sources: shared - clients }
    }

    /// Divides the hard limit of this process, which a server would use.
    #[must_use]
    pub fn from_hard_limit() -> Self {
        Self::from_limit(usable_limit(getrlimit(Resource::Nofile)))
    }

    /// Maximum number of MCP servers over HTTP.
    #[must_use]
    pub fn http_sources(&self) -> usize {
        self.sources / DESCRIPTORS_PER_HTTP_SOURCE
    }

    /// Maximum number of started programs.
    #[must_use]
    pub fn programs(&self) -> usize {
        self.sources / DESCRIPTORS_PER_CHILD
    }
}

/// Returns the hard limit, capped at a useful value.
fn usable_limit(limit: Rlimit) -> usize {
    let hard = limit.maximum.unwrap_or(MAX_USEFUL_LIMIT).min(MAX_USEFUL_LIMIT);
    usize::try_from(hard.max(limit.current.unwrap_or(hard).min(MAX_USEFUL_LIMIT)))
        .unwrap_or(usize::MAX)
}

/// Raises the soft limit to the hard one and divides it. Called once, before any counted descriptor
/// is opened.
///
/// # Errors
/// Fails if the system refuses. The limit is then unchanged, and divided as it is.
pub fn raise_soft_limit() -> Result<DescriptorShares, (DescriptorShares, io::Error)> {
    let before = getrlimit(Resource::Nofile);
    let limit = usable_limit(before);
    let soft = before.current.unwrap_or(u64::MAX);
    if (limit as u64) > soft {
        let raised = Rlimit { current: Some(limit as u64), maximum: before.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            let shares = DescriptorShares::from_limit(usize::try_from(soft).unwrap_or(usize::MAX));
            SOURCE_QUOTA.store(shares.sources, Ordering::Relaxed);
            return Err((shares, error.into()));
        }
        ORIGINAL_SOFT_LIMIT.store(soft, Ordering::Relaxed);
    }
    let shares = DescriptorShares::from_limit(limit);
    SOURCE_QUOTA.store(shares.sources, Ordering::Relaxed);
    Ok(shares)
}

/// Returns the original soft limit for children, if this process changed its own.
pub fn original_soft_limit() -> Option<u64> {
    Some(ORIGINAL_SOFT_LIMIT.load(Ordering::Relaxed)).filter(|soft| *soft > 0)
}

/// Sets the soft limit of this process: a child's supervisor, whose child inherits it.
pub fn set_soft_limit(soft: u64) -> io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum })?)
}

/// Descriptors reserved for a source; dropping it releases them.
#[derive(Debug)]
pub struct DescriptorClaim(usize);

impl DescriptorClaim {
    /// Reserves `count` descriptors of the sources' share.
    ///
    /// # Errors
    /// Fails if fewer are left.
    pub fn reserve_for_source(count: usize) -> io::Result<Self> {
        let most = SOURCE_QUOTA.load(Ordering::Relaxed);
        let more = |taken: usize| taken.checked_add(count).filter(|taken| *taken <= most);
        match SOURCE_DESCRIPTORS_IN_USE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self(count)),
            Err(taken) => Err(io::Error::other(format!(
                "sources use {taken} of {most} file descriptors, and the rest is reserved for \
                 clients; raise the hard limit (`ulimit -Hn`, `LimitNOFILE=`), or remove sources"
            ))),
        }
    }
}

impl Drop for DescriptorClaim {
    fn drop(&mut self) {
        SOURCE_DESCRIPTORS_IN_USE.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_sources_never_take_the_last_descriptors_together() {
        for limit in [0, 63, 64, 65, 256, 1_024, 4_096, 20_064, 524_288, 1 << 20] {
            let shares = DescriptorShares::from_limit(limit);
            assert!(shares.clients <= MAX_CLIENTS && shares.limit == limit, "{shares:?}");
            assert!(
                shares.clients + shares.sources + RESERVED_FOR_FILES
                    <= limit.max(RESERVED_FOR_FILES),
                "{shares:?}"
            );
        }
        let usual = DescriptorShares::from_limit(1_024);
        assert_eq!((usual.clients, usual.sources), (480, 480));
        assert_eq!((usual.http_sources(), usual.programs()), (240, 96));
        assert_eq!(DescriptorShares::from_limit(1 << 20).clients, MAX_CLIENTS);
    }

    #[test]
    fn an_endless_hard_limit_is_raised_to_no_more_than_is_of_use() {
        let limit = |current, maximum| usable_limit(Rlimit { current, maximum });
        assert_eq!(limit(Some(1_024), None), 1 << 20);
        assert_eq!(limit(Some(1_024), Some(4_096)), 4_096);
        assert_eq!(limit(None, None), 1 << 20);
    }
}
