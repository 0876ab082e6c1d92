//! The client's side of a stream of events: notifications with the id of the subscription.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp::{encode, sse};
use tokio::time::sleep;
use tool::Json;

use crate::event_sink::EventSink;
use crate::request_context::RequestContext;
use crate::resource_subscriptions::{id_to_json, with_subscription_id};

/// Delay before what a slow client could not take is sent again.
const SLOW_CLIENT_DELAY: Duration = Duration::from_millis(200);

/// A stream that a client opened.
#[derive(Debug)]
pub(super) struct ClientStream {
    pub(super) sink: Arc<EventSink>,
    /// The id of the request, which each notification names.
    pub(super) id: Json,
}

impl ClientStream {
    /// Begins the stream that a request opens. Returns it with the response that ends it.
    pub(super) fn begin(request: &RequestContext<'_>) -> (Self, Bytes) {
        let id = id_to_json(request.request_id);
        let result = with_subscription_id(&Json::empty_object(), &id);
        let final_event = request.result_encoder().encode_result(&result).into_event();
        (Self { sink: Arc::new(EventSink::default()), id }, final_event)
    }

    /// Sends what the next message replaces. Returns false if the client reads too slowly for it.
    pub(super) fn try_send(&self, method: &str, params: &Json) -> bool {
        let params = with_subscription_id(params, &self.id);
        self.sink.send_required(sse::encode_event(&encode::encode_notification(method, &params)))
    }

    /// Sends what must not be lost: waits for a client that reads slowly, until it is gone.
    pub(super) async fn send(&self, method: &str, params: &Json) {
        while !self.try_send(method, params) && !self.sink.is_closed() {
            sleep(SLOW_CLIENT_DELAY).await;
        }
    }
}
