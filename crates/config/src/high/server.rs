//! The front doors, as they are configured.

use std::time::Duration;

use egress::HttpStack;
use sandbox::Tier;
use serde::Serialize;

use crate::shown::show;

/// The front doors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerConfig {
    /// Names under which it may be addressed, beside its own address and `localhost`; lower case.
    pub allowed_hosts: Vec<String>,
    /// Origins that may speak to it, as browsers write them.
    pub allowed_origins: Vec<String>,
    /// The largest request body, in bytes.
    pub max_body: usize,
    /// The least cage in which code runs.
    #[serde(serialize_with = "show")]
    pub cage: Tier,
    /// How long a background server stays without a client.
    #[serde(serialize_with = "show")]
    pub idle_timeout: Duration,
    /// What reads and writes HTTP/1.1 on both sides.
    #[serde(serialize_with = "show")]
    pub http: HttpStack,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body: 2 << 20,
            cage: Tier::Whole,
            idle_timeout: Duration::from_mins(1),
            http: HttpStack::Fast,
        }
    }
}
