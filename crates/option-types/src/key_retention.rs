//! How long the records of ended keys are kept.

use std::time::Duration;

/// How long the record of a revoked or expired key is kept by default.
pub const DEFAULT_ENDED_KEY_RETENTION: Duration = Duration::from_hours(24 * 90);
