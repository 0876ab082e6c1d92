//! The DNS resolver port, and the system resolver.

use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tool::BoxFuture;

/// Maximum number of addresses of one name; more is an error.
pub const MAX_ADDRESSES: usize = 16;
/// Maximum number of concurrent lookups. Each blocks a thread until the system call returns.
const MAX_CONCURRENT_LOOKUPS: usize = 16;

/// Resolves host names to addresses. Tests use their own implementation.
pub trait DnsResolver: Send + Sync + fmt::Debug {
    /// Returns all addresses of `host`; the caller checks each of them.
    ///
    /// # Errors
    /// Fails if the host is unknown or has no address.
    fn resolve_host<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver (`getaddrinfo`), with the host's files and servers. It follows a bounded
/// number of aliases.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookup_permits: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookup_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_LOOKUPS)) }
    }
}

impl SystemResolver {
    async fn look_up_host(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let permit =
            Arc::clone(&self.lookup_permits).acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        let lookup_task = tokio::task::spawn_blocking(move || {
            // The permit is held until the system call returns, even if the caller stopped waiting.
            let _permit = permit;
            let found = (host.as_str(), 0).to_socket_addrs()?;
            let mut addresses: Vec<IpAddr> = Vec::new();
            for address in found.map(|found| found.ip()) {
                // One more than allowed is enough to know.
                if !addresses.contains(&address) && addresses.len() <= MAX_ADDRESSES {
                    addresses.push(address);
                }
            }
            Ok(addresses)
        });
        lookup_task.await.map_err(io::Error::other)?
    }
}

impl DnsResolver for SystemResolver {
    fn resolve_host<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(self.look_up_host(host))
    }
}
