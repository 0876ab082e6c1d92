//! Bounds of an MCP server: the time for its start, and the size of its messages.

use std::time::Duration;

use super::Resolver;
use crate::field::Field;
use crate::high::SourceKind;
use crate::low::Size;

/// Time for a start, and for one that may have to download a package first.
pub(super) const STARTUP: Duration = Duration::from_secs(20);
const STARTUP_OF_COMMAND: Duration = Duration::from_mins(5);
/// The longest that may be configured.
const LONGEST_STARTUP: Duration = Duration::from_hours(1);
/// Bytes of one message, and the most that may be configured.
pub(super) const MESSAGE: usize = 16 << 20;
const LARGEST_MESSAGE: usize = 256 << 20;

/// Time for a start of a source of this kind, where nothing is said.
pub(super) const fn default_startup(kind: &SourceKind) -> Duration {
    match kind {
        SourceKind::McpCommand(_) => STARTUP_OF_COMMAND,
        _ => STARTUP,
    }
}

impl Resolver<'_> {
    pub(super) fn startup_timeout(&self, field: &Field<String>) -> Option<Duration> {
        self.time_within(field, LONGEST_STARTUP)
    }

    pub(super) fn max_message(&self, field: &Field<Size>) -> Option<usize> {
        self.size(field, LARGEST_MESSAGE)
    }
}
