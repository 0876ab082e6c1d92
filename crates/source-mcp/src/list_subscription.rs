//! Subscription to list changes. Servers of MCP 2026-07-28 send them only to subscribers.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::{ProtocolEra, error_codes};
use serde_json::{Map, Value};
use tokio::time::sleep;
use tool::Json;

use super::connection::McpConnection;
use super::in_flight_request::{RequestEvent, RequestOrigin};
use super::negotiation::{ListCapability, ServerCapabilities};
use super::outgoing_request::OutgoingRequest;

/// Delay before a subscription that ended is renewed.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(30);

/// MCP method that opens a subscription.
pub(super) const LISTEN_METHOD: &str = "subscriptions/listen";

/// Subscribes to list changes until the connection closes.
pub(super) async fn run_list_subscription(connection: &Arc<McpConnection>) {
    let Some(wanted) = list_change_filter(connection.negotiated().capabilities)
        .filter(|_| connection.era() == ProtocolEra::Stateless)
    else {
        return;
    };
    tokio::select! {
        () = connection.wait_until_closed() => {}
        () = subscribe_repeatedly(connection, &wanted) => {}
    }
}

async fn subscribe_repeatedly(link: &Arc<McpConnection>, wanted: &Json) {
    loop {
        let request = OutgoingRequest::internal(LISTEN_METHOD, wanted);
        if let Ok(mut listening) = link.start_request(&request, RequestOrigin::Internal).await {
            // The notification router of the connection handles the notifications.
            let mut was_active = false;
            while let Ok(event) = listening.next_event().await {
                match event {
                    // The server lacks the method, although it declares it.
                    RequestEvent::Response(Err(error))
                        if error.code == error_codes::METHOD_NOT_FOUND =>
                    {
                        return;
                    }
                    RequestEvent::Response(_) | RequestEvent::InvalidResponse(_) => break,
                    RequestEvent::Notification(_) => was_active = true,
                    RequestEvent::Progress(_)
                    | RequestEvent::InputRequested(_)
                    | RequestEvent::InputRequestCancelled(_) => {}
                }
            }
            if was_active {
                // Changes between two subscriptions are not reported.
                link.context.notifications.notify_list_changed();
            }
        }
        sleep(RESUBSCRIBE_DELAY).await;
    }
}

/// Params that subscribe to the changes which the server declares.
fn list_change_filter(can: ServerCapabilities) -> Option<Json> {
    let mut filter = Map::new();
    for (listed, name) in [
        (can.tools, "toolsListChanged"),
        (can.prompts, "promptsListChanged"),
        (can.resources, "resourcesListChanged"),
    ] {
        if listed.is_some_and(|ListCapability { notifies_changes: changes, .. }| changes) {
            filter.insert(name.to_owned(), Value::Bool(true));
        }
    }
    (!filter.is_empty()).then(|| Json::encode(&serde_json::json!({"notifications": filter})))
}
