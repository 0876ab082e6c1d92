//! The executor for the tools of one node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::node::CallRequest;
use proto::node::call_event::Event;
use proto::toolrpc::CallFunctionRequest;
use tonic::{Request, Status};
use tool::node_registry::{HeartbeatState, WHOLE_INPUT_ARGUMENT};
use tool::{
    BoxFuture, CallArguments, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor,
    Outcome, RecordedCall,
};

use crate::multi_node_executor::{MultiNodeExecutor, not_on_node, requested_node};
use crate::outcome_mapping::{to_execute_error, to_outcome};
use crate::registry::RegistryContext;

/// Runs the tools of one node.
#[derive(Debug)]
pub(crate) struct NodeExecutor {
    pub(crate) node: String,
    pub(crate) context: Arc<RegistryContext>,
}

impl NodeExecutor {
    pub(crate) async fn run_call(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let not_sent_error =
            |message: String| ExecuteError::not_sent(ErrorCode::UpstreamLost, message);
        if self.context.heartbeat_state(&self.node) == Some(HeartbeatState::Draining) {
            return Err(not_sent_error(format!(
                "the node `{}` is draining and receives no calls",
                self.node
            )));
        }
        let channel = self
            .context
            .channels
            .channel_for(&self.node)
            .map_err(|error| not_sent_error(error.to_string()))?;
        let remaining = ctx.deadline.saturating_duration_since(self.context.clock.monotonic_now());
        tokio::select! {
            answer = self.call_node(&channel, call, ctx, remaining) => match answer {
                Ok(outcome) => {
                    ctx.record_node(&self.node);
                    Ok(ExecutionState::Completed(outcome))
                }
                Err(status) => Err(to_execute_error(&self.node, &status)),
            },
            // Dropping the request resets its stream, which tells the node.
            () = ctx.cancel.cancelled() => {
                Err(ExecuteError::maybe_sent(ErrorCode::Cancelled, "the call was cancelled"))
            }
        }
    }

    /// Calls the node, with progress if the caller wants it and the node supports it, else as spec
    /// 4 has it.
    async fn call_node(
        &self,
        channel: &proto::client::GrpcChannel,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
        remaining: Duration,
    ) -> Result<Outcome, Status> {
        let call = call.call();
        let (tool_name, input) = (call.tool.name.to_string(), call_input(&call.arguments));
        if ctx.progress.has_listener() && self.context.supports_progress(&self.node) {
            let call_id = call.id.to_string();
            let (tool_name, input) = (tool_name.clone(), input.clone());
            // Boxed because it is rare and large: other calls do not carry it.
            let call_future = Box::pin(self.call_with_progress(
                channel,
                CallRequest { call_id, tool_name, input },
                ctx,
                remaining,
            ));
            if let Some(outcome) = call_future.await? {
                return Ok(outcome);
            }
        }
        let reply =
            channel.call_function(CallFunctionRequest { tool_name, input }, remaining).await?;
        Ok(to_outcome(reply.success, &reply.output, &reply.error))
    }

    /// Calls with progress. Returns `None` if the node does not support it; then nothing has run.
    async fn call_with_progress(
        &self,
        channel: &proto::client::GrpcChannel,
        message: CallRequest,
        ctx: &CallContext<'_>,
        remaining: Duration,
    ) -> Result<Option<Outcome>, Status> {
        let mut request = Request::new(message);
        request.set_timeout(remaining);
        match channel.node_client().call(request).await {
            Ok(events) => read_call_events(events.into_inner(), ctx).await.map(Some),
            // An older node has no `Node` service.
            Err(status) if status.code() == tonic::Code::Unimplemented => {
                self.context.mark_progress_unsupported(&self.node);
                Ok(None)
            }
            Err(status) => Err(status),
        }
    }
}

/// Returns the input of a call: the arguments, or the one value that stands for all of them.
fn call_input(args: &CallArguments) -> Bytes {
    let raw = args.as_json();
    // Most calls have no such argument, and their arguments are not walked.
    let first = raw.bytes().trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    let first = first.and_then(|rest| rest.strip_prefix(b"\""));
    if first.is_some_and(|rest| rest.starts_with(WHOLE_INPUT_ARGUMENT.as_bytes())) {
        let mut members = raw.iter_members();
        if let (Some((name, value)), None) = (members.next(), members.next())
            && name == WHOLE_INPUT_ARGUMENT
        {
            return value.bytes().clone();
        }
    }
    raw.bytes().clone()
}

async fn read_call_events(
    mut events: tonic::Streaming<proto::node::CallEvent>,
    ctx: &CallContext<'_>,
) -> Result<Outcome, Status> {
    while let Some(event) = events.message().await? {
        match event.event {
            Some(Event::Progress(progress)) => {
                let message = Some(progress.message.as_str()).filter(|message| !message.is_empty());
                ctx.progress.report_progress(progress.done, progress.total, message);
            }
            Some(Event::Result(reply)) => {
                return Ok(to_outcome(reply.success, &reply.output, &reply.error));
            }
            None => {}
        }
    }
    Err(Status::unavailable("its response ended before the result"))
}

impl Executor for NodeExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(async move {
            match requested_node(ctx) {
                Some(node) if node != self.node => Err(not_on_node(&node)),
                _ => self.run_call(call, ctx).await,
            }
        })
    }

    fn node_ids(&self) -> Vec<String> {
        vec![self.node.clone()]
    }

    fn merge_with(&self, others: &[Arc<dyn Executor>]) -> Option<Arc<dyn Executor>> {
        let mut nodes = self.node_ids();
        nodes.extend(others.iter().flat_map(|other| other.node_ids()));
        Some(Arc::new(MultiNodeExecutor::new(nodes, &self.context)))
    }
}
