//! Bounds of one request, and what the way out is made of.

use std::sync::Arc;
use std::time::Duration;

use super::{Dial, HttpStack, Keep, Resolve, Roots, Rules, SystemResolver, Tcp};

/// How long and how much.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// For a connection: place, look-up, TCP and TLS together, however many addresses there are.
    pub connect: Duration,
    /// From sending the request to the head of the response. [`Duration::MAX`]: the caller has a limit
    /// of its own, and drops the request.
    pub headers: Duration,
    /// Between two parts of the body. [`Duration::MAX`] as before.
    pub idle: Duration,
    /// Largest body, in bytes.
    pub body: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            connect: 10 * second,
            headers: 30 * second,
            idle: 30 * second,
            body: 10 * 1024 * 1024,
        }
    }
}

/// What an [`Egress`] is made of. The defaults are for use; resolver and dialer change in tests.
#[derive(Debug, Clone)]
pub struct EgressSettings {
    /// Hosts and ports of the public classes.
    pub rules: Rules,
    /// Trusted certificate authorities.
    pub roots: Roots,
    /// Most requests open at once; one more waits as long as it may wait for its connection.
    pub open: usize,
    /// Connections kept for the next request.
    pub keep: Keep,
    /// Names to addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Addresses to connections.
    pub dialer: Arc<dyn Dial>,
    /// Which implementation of HTTP/1.1 is used.
    pub http: HttpStack,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            roots: Roots::default(),
            open: 1024,
            keep: Keep::default(),
            resolver: Arc::new(SystemResolver::default()),
            dialer: Arc::new(Tcp),
            http: HttpStack::Fast,
        }
    }
}
