//! The events extension (SEP-3415): names of its methods, notifications and headers.
//!
//! <https://modelcontextprotocol.io/seps/3415-events-extension>

/// Name of the extension in the capabilities of both sides.
pub const EVENTS_EXTENSION: &str = "io.modelcontextprotocol/events";
/// Header that names the subscription of a webhook request.
pub const SUBSCRIPTION_HEADER: &str = "x-mcp-subscription-id";
/// First notification of a stream, and the sign of a gap.
pub const ACTIVE_NOTIFICATION: &str = "notifications/events/active";
/// Notification with one event.
pub const EVENT_NOTIFICATION: &str = "notifications/events/event";
/// Notification that the stream is alive, with its position.
pub const HEARTBEAT_NOTIFICATION: &str = "notifications/events/heartbeat";
/// Notification that the subscription has ended.
pub const TERMINATED_NOTIFICATION: &str = "notifications/events/terminated";
