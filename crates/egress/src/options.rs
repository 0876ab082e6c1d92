//! The options of the egress client, and the limits of one request.

use std::sync::Arc;
use std::time::Duration;

use super::{
    Dialer, DnsResolver, HttpStack, PoolOptions, SystemResolver, TcpDialer, TrustStore, UrlPolicy,
};

/// Timeouts and maximum body size of one request.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// For permit, DNS lookup, TCP and TLS together, however many addresses there are.
    pub connect_timeout: Duration,
    /// From sending the request to the head of the response. [`Duration::MAX`] disables it, for
    /// callers that drop the request at a limit of their own.
    pub header_timeout: Duration,
    /// Between two parts of the body. [`Duration::MAX`] disables it.
    pub body_idle_timeout: Duration,
    /// Maximum size of the body, in bytes.
    pub max_body_bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            connect_timeout: 10 * second,
            header_timeout: 30 * second,
            body_idle_timeout: 30 * second,
            max_body_bytes: 10 * 1024 * 1024,
        }
    }
}

/// Options of an egress client. Tests replace resolver and dialer.
#[derive(Debug, Clone)]
pub struct EgressOptions {
    /// Allowed hosts and ports of untrusted URLs.
    pub url_policy: UrlPolicy,
    /// Trusted certificate authorities.
    pub trust_store: TrustStore,
    /// Maximum number of open requests. Further ones wait up to their connect timeout.
    pub max_open_requests: usize,
    /// Size and idle timeout of the connection pool.
    pub pool: PoolOptions,
    /// Resolves host names to addresses.
    pub resolver: Arc<dyn DnsResolver>,
    /// Opens connections to addresses.
    pub dialer: Arc<dyn Dialer>,
    /// The HTTP/1.1 implementation.
    pub http_stack: HttpStack,
}

impl Default for EgressOptions {
    fn default() -> Self {
        Self {
            url_policy: UrlPolicy::default(),
            trust_store: TrustStore::default(),
            max_open_requests: 1024,
            pool: PoolOptions::default(),
            resolver: Arc::new(SystemResolver::default()),
            dialer: Arc::new(TcpDialer),
            http_stack: HttpStack::Fast,
        }
    }
}
