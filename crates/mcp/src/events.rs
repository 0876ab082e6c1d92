//! The events extension (SEP-3415): names of its methods, notifications and headers.
//!
//! <https://modelcontextprotocol.io/seps/3415-events-extension>

/// Name of the extension in the capabilities of both sides.
pub const EVENTS_EXTENSION: &str = "io.modelcontextprotocol/events";
/// Method that returns the events since a cursor.
pub const POLL_METHOD: &str = "events/poll";
/// Method that opens a stream of events.
pub const STREAM_METHOD: &str = "events/stream";
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
/// Notification of a failure after which the stream goes on.
pub const ERROR_NOTIFICATION: &str = "notifications/events/error";
/// Notification that the event types of a server have changed.
pub const LIST_CHANGED_NOTIFICATION: &str = "notifications/events/list_changed";
/// Beginning of the methods of all notifications that a stream of events carries.
pub const NOTIFICATION_PREFIX: &str = "notifications/events/";
