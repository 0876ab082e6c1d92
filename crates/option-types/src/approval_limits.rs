//! Timeouts and limits of approvals.

use std::collections::HashSet;
use std::time::Duration;

/// Timeouts and limits of approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// Time limit of a decision.
    pub expires: Duration,
    /// Maximum number of pending calls per root key.
    pub pending: usize,
    /// Maximum number of approval requests per root key and minute.
    pub per_minute: usize,
    /// Maximum number of stored calls, including decided and completed ones; a quarter of it per
    /// root key.
    pub total: usize,
    /// Maximum size of their arguments in bytes; a quarter of it per root key.
    pub bytes: usize,
    /// Retention of results for their callers.
    pub kept: Duration,
    /// Ids of the keys whose client may give the approval itself.
    pub client_confirm: HashSet<String>,
}

/// Maximum decision timeout, whatever is configured.
pub const LONGEST: Duration = Duration::from_hours(1);

impl Default for Patience {
    /// Returns 10 min; 32 per key and 60 a minute; 20,000 and 256 MiB in total; retained for an
    /// hour.
    fn default() -> Self {
        Self {
            expires: Duration::from_mins(10),
            pending: 32,
            per_minute: 60,
            total: 20_000,
            bytes: 256 << 20,
            kept: Duration::from_hours(1),
            client_confirm: HashSet::new(),
        }
    }
}
