//! Option types of crates that a configuration sets, without the code that uses them: whoever reads a configuration
//! does not build the gateway, plugins and packages.
//!
//! The crate that uses a type exports it too.

mod approval_limits;
mod call_limits;
mod package_limits;
mod plugin_grant;

pub use approval_limits::{LONGEST, Patience};
pub use call_limits::Bounds;
pub use package_limits::PackageLimits;
pub use plugin_grant::Grant;
