//! The RPC methods of both services, for any implementation of the tool service.

use std::sync::Arc;
use std::time::Duration;

use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::call_events::{CallEventStream, call_event_stream};
use super::running_calls::{CallRegistration, RunningCalls};
use super::{ConnectionExtension, FunctionResult, IncomingCall, ProgressSender, ToolService};
use crate::node::node_server::Node;
use crate::node::{CancelRequest, CancelResponse, ListRequest, ListResponse};
use crate::toolrpc::tool_executor_server::ToolExecutor;
use crate::toolrpc::{CallFunctionRequest, CallFunctionResponse};
use crate::{TIMEOUT_HEADER, node};

/// Maximum number of progress messages that wait to be sent; further ones are dropped.
const PROGRESS_CAPACITY: usize = 16;

/// Implementation of both services.
#[derive(Clone)]
pub(super) struct CallService {
    tool_service: Arc<dyn ToolService>,
    running_calls: RunningCalls,
}

impl CallService {
    pub(super) fn new(tool_service: Arc<dyn ToolService>) -> Self {
        Self { tool_service, running_calls: RunningCalls::default() }
    }

    /// Registers a call under its caller. Without an id it cannot be cancelled and needs no caller.
    async fn register_call(
        &self,
        headers: &MetadataMap,
        id: &str,
    ) -> Result<CallRegistration, Status> {
        let caller_id = if id.is_empty() {
            String::new()
        } else {
            self.tool_service.caller_id(headers.clone()).await?
        };
        self.running_calls.register_call(caller_id, id)
    }
}

#[tonic::async_trait]
impl ToolExecutor for CallService {
    async fn call_function(
        &self,
        request: Request<CallFunctionRequest>,
    ) -> Result<Response<CallFunctionResponse>, Status> {
        let (headers, mut extensions, CallFunctionRequest { tool_name, input }) =
            request.into_parts();
        let connection = extensions.remove::<ConnectionExtension>();
        let call = IncomingCall {
            tool_name,
            input,
            timeout: parse_timeout(&headers),
            headers,
            progress: ProgressSender::default(),
            // It has no id by which it could be cancelled.
            cancel_token: None,
            connection,
        };
        let FunctionResult { success, output, error, metadata } =
            self.tool_service.call_tool(call).await?;
        Ok(Response::new(CallFunctionResponse { success, output, error, metadata }))
    }
}

#[tonic::async_trait]
impl Node for CallService {
    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let (headers, _, ListRequest {}) = request.into_parts();
        let (node_id, draining) = (self.tool_service.node_id(), self.tool_service.is_draining());
        let tools = self.tool_service.list_tools(headers).await?;
        Ok(Response::new(ListResponse { node_id, tools, draining }))
    }

    type CallStream = CallEventStream;

    async fn call(
        &self,
        request: Request<node::CallRequest>,
    ) -> Result<Response<CallEventStream>, Status> {
        let (headers, _, node::CallRequest { call_id, tool_name, input }) = request.into_parts();
        let registration = self.register_call(&headers, &call_id).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel(PROGRESS_CAPACITY);
        let call = IncomingCall {
            tool_name,
            input,
            timeout: parse_timeout(&headers),
            headers,
            progress: ProgressSender(Some(sender)),
            cancel_token: Some(registration.cancel_token()),
            connection: None,
        };
        Ok(Response::new(call_event_stream(
            self.tool_service.call_tool(call),
            receiver,
            registration,
        )))
    }

    async fn cancel(
        &self,
        request: Request<CancelRequest>,
    ) -> Result<Response<CancelResponse>, Status> {
        let (headers, _, CancelRequest { call_id }) = request.into_parts();
        let caller_id = self.tool_service.caller_id(headers).await?;
        Ok(Response::new(CancelResponse {
            found: self.running_calls.cancel_call(caller_id, call_id),
        }))
    }
}

/// Parses the `grpc-timeout` header: up to eight digits and a unit.
fn parse_timeout(headers: &MetadataMap) -> Option<Duration> {
    let text = headers.as_ref().get(TIMEOUT_HEADER)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(count.saturating_mul(3600)),
        "M" => Duration::from_secs(count.saturating_mul(60)),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::metadata::MetadataMap;

    use super::parse_timeout;

    #[test]
    fn the_callers_time_is_read_in_every_unit() {
        let read = |text: &str| {
            let mut headers = MetadataMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            parse_timeout(&headers)
        };
        assert_eq!(read("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(read("1500m"), Some(Duration::from_millis(1500)));
        assert_eq!(read("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for bad in ["", "m", "5", "123456789S", "5x", "-1S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
