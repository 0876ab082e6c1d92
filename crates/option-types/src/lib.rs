//! Option types that a configuration sets. They are separate from the code that uses them, so that
//! reading a configuration does not require the gateway, plugins and packages.
//!
//! The crate that uses a type also exports it.

mod approval_limits;
mod call_limits;
mod key_retention;
mod package_limits;
mod plugin_grant;
mod tool_listing;
mod tool_selection;

pub use approval_limits::{ApprovalSettings, MAX_DECISION_TIMEOUT};
pub use call_limits::ConcurrencyLimits;
pub use key_retention::DEFAULT_ENDED_KEY_RETENTION;
pub use package_limits::PackageLimits;
pub use plugin_grant::AccessGrant;
pub use tool_listing::{ListingMode, ListingOptions};
pub use tool_selection::ToolSelection;
