//! Names to addresses.

use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tool::Boxed;

/// Most answers to one name that are looked at; more is an error.
pub const MOST_ANSWERS: usize = 16;
/// Most look-ups at once: each holds a thread until the system gives up on it.
const MOST_AT_ONCE: usize = 16;

/// Where addresses come from. Tests bring their own.
pub trait Resolve: Send + Sync + fmt::Debug {
    /// The addresses of `host`: all of them, as each is checked.
    ///
    /// # Errors
    /// Where there are none or nobody knows.
    fn resolve<'a>(&'a self, host: &'a str) -> Boxed<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's own resolver: `getaddrinfo`, with the host's files and servers. It follows aliases by
/// itself, and bounds their number.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    places: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }
}

impl SystemResolver {
    async fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        let looking = tokio::task::spawn_blocking(move || {
            // Kept until the system answers, also where nobody waits any more.
            let _place = place;
            let found = (host.as_str(), 0).to_socket_addrs()?;
            let mut addresses: Vec<IpAddr> = Vec::new();
            for address in found.map(|found| found.ip()) {
                // One more than allowed is enough to know.
                if !addresses.contains(&address) && addresses.len() <= MOST_ANSWERS {
                    addresses.push(address);
                }
            }
            Ok(addresses)
        });
        looking.await.map_err(io::Error::other)?
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(self.look_up(host))
    }
}
