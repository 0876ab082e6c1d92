//! Timeouts and limits of approvals.

use std::collections::HashSet;
use std::time::Duration;

/// Timeouts and limits of approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// Time limit of a decision.
    pub decision_timeout: Duration,
    /// Maximum number of pending calls per root key.
    pub max_pending_per_key: usize,
    /// Maximum number of approval requests per root key and minute.
    pub max_requests_per_minute: usize,
    /// Maximum number of stored calls, including decided and completed ones; a quarter of it per
    /// root key.
    pub max_stored: usize,
    /// Maximum size of their arguments in bytes; a quarter of it per root key.
    pub max_argument_bytes: usize,
    /// Retention of results for their callers.
    pub result_retention: Duration,
    /// Ids of the keys whose client may give the approval itself.
    pub client_confirming_keys: HashSet<String>,
}

/// Maximum decision timeout, whatever is configured.
pub const MAX_DECISION_TIMEOUT: Duration = Duration::from_hours(1);

impl Default for ApprovalSettings {
    /// Returns 10 min; 32 per key and 60 a minute; 20,000 and 256 MiB in total; retained for an
    /// hour.
    fn default() -> Self {
        Self {
            decision_timeout: Duration::from_mins(10),
            max_pending_per_key: 32,
            max_requests_per_minute: 60,
            max_stored: 20_000,
            max_argument_bytes: 256 << 20,
            result_retention: Duration::from_hours(1),
            client_confirming_keys: HashSet::new(),
        }
    }
}
