//! The System Function Network Forwarder of the cluster tools, which protects a node's privileged
//! runtime.
//!
//! It runs without rights of its own. A call that the local registry contains and allows is
//! forwarded to the runtime over a local socket; any other is rejected with a reason and never
//! reaches the runtime. It executes nothing, and that file is its only list.

mod function_registry;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use egress::connect_unix_socket;
use proto::client::{GrpcChannel, IoStream};
use proto::node::call_event::Event;
use proto::node::{CallRequest, Tool as Listed};
use proto::server::{
    FunctionResult, IncomingCall, ProgressSender, ServiceFuture, ToolService, run_until_cancelled,
};
use proto::toolrpc::CallFunctionRequest;
use proto::{Code, MetadataMap, Status};
use tonic::Request;

pub(crate) use function_registry::FunctionRegistry;

/// Maximum duration of a call, also without a deadline of its caller.
const MAX_CALL_DURATION: Duration = Duration::from_mins(10);

/// Checks calls against a registry and forwards the allowed ones. Clones share their state.
#[derive(Clone)]
pub(crate) struct CallForwarder(Arc<ForwarderState>);

struct ForwarderState {
    registry: ArcSwap<FunctionRegistry>,
    runtime: GrpcChannel,
    socket: PathBuf,
}

impl std::fmt::Debug for CallForwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarder").field("socket", &self.0.socket).finish_non_exhaustive()
    }
}

impl CallForwarder {
    /// Creates a forwarder to the runtime on `socket`, which may start later. Must be called within
    /// an async runtime.
    pub(crate) fn new(registry: FunctionRegistry, socket: PathBuf) -> Self {
        let path = socket.clone();
        let runtime = GrpcChannel::new(move || {
            let path = path.clone();
            Box::pin(async move {
                let stream = connect_unix_socket(&path).await;
                let named = |error: io::Error| {
                    tracing::warn!(socket = %path.display(), %error, "cannot connect to the \
                                                                      runtime");
                    error
                };
                Ok(Box::new(stream.map_err(named)?) as Box<dyn IoStream>)
            })
        });
        Self(Arc::new(ForwarderState {
            registry: ArcSwap::from_pointee(registry),
            runtime,
            socket,
        }))
    }

    /// Replaces the registry from the next call on.
    pub(crate) fn set_registry(&self, registry: FunctionRegistry) {
        self.0.registry.store(Arc::new(registry));
    }

    async fn forward_call(self, asked: IncomingCall) -> Result<FunctionResult, Status> {
        let rejection = self.0.registry.load().check_call(&asked.tool_name, &asked.input).err();
        if let Some(error) = rejection {
            let shown: String = asked.tool_name.chars().take(128).collect();
            tracing::info!(tool = shown.escape_debug().to_string(), why = error, "call rejected");
            return Ok(FunctionResult { error, ..FunctionResult::default() });
        }
        let within = asked.timeout.unwrap_or(MAX_CALL_DURATION).min(MAX_CALL_DURATION);
        let cancelled = asked.cancel_token.clone();
        // On cancellation the runtime is notified: its stream is reset.
        match run_until_cancelled(cancelled, self.send_to_runtime(asked, within)).await {
            Some(said) => said.map_err(runtime_error),
            None => Ok(FunctionResult {
                error: "the call was cancelled".to_owned(),
                ..FunctionResult::default()
            }),
        }
    }

    /// Sends a call to the runtime and returns its response unchanged.
    async fn send_to_runtime(
        &self,
        call: IncomingCall,
        within: Duration,
    ) -> Result<FunctionResult, Status> {
        let IncomingCall { tool_name, input, progress, .. } = call;
        let line = &self.0.runtime;
        if progress.has_receiver() {
            let call_id = String::new();
            let mut request = Request::new(CallRequest {
                call_id,
                tool_name: tool_name.clone(),
                input: input.clone(),
            });
            request.set_timeout(within);
            match line.node_client().call(request).await {
                Ok(events) => return forward_events(events.into_inner(), &progress).await,
                // A runtime of the original protocol: nothing has run.
                Err(status) if status.code() == Code::Unimplemented => {}
                Err(status) => return Err(status),
            }
        }
        let mut request = Request::new(CallFunctionRequest { tool_name, input });
        request.set_timeout(within);
        let said = line.executor_client().call_function(request).await?.into_inner();
        let (success, output) = (said.success, said.output);
        Ok(FunctionResult { success, output, error: said.error, metadata: said.metadata })
    }
}

async fn forward_events(
    mut events: tonic::Streaming<proto::node::CallEvent>,
    progress: &ProgressSender,
) -> Result<FunctionResult, Status> {
    while let Some(event) = events.message().await? {
        match event.event {
            Some(Event::Progress(told)) => {
                progress.send_progress(told.done, told.total, &told.message);
            }
            Some(Event::Result(said)) => {
                let (success, output) = (said.success, said.output);
                return Ok(FunctionResult {
                    success,
                    output,
                    error: said.error,
                    metadata: said.metadata,
                });
            }
            None => {}
        }
    }
    Err(Status::unavailable("the runtime closed the stream before the result"))
}

/// Converts a runtime error for the caller, without revealing where the runtime is.
#[expect(clippy::needless_pass_by_value, reason = "maps an error into another")]
fn runtime_error(status: Status) -> Status {
    tracing::warn!(%status, "the runtime did not respond");
    match status.code() {
        Code::DeadlineExceeded => Status::deadline_exceeded(
            "the node's runtime did not respond in \
            time",
        ),
        Code::Unavailable => Status::unavailable("the node's runtime returned no response"),
        code => Status::new(code, "the node's runtime returned no response"),
    }
}

impl ToolService for CallForwarder {
    /// TLS authenticates callers; calls can be cancelled by any caller with the same credential.
    fn caller_id(&self, headers: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        let given = given.unwrap_or_default().to_owned();
        Box::pin(async move { Ok(given) })
    }

    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<Listed>, Status>> {
        let listed = |tool: sdk::ToolDefinition| Listed {
            name: tool.name,
            description: tool.description,
            input_spec: tool.input_spec.to_string().into(),
            metadata: tool.metadata.to_string().into(),
        };
        let all = self.0.registry.load().allowed_tools().into_iter().map(listed).collect();
        Box::pin(async move { Ok(all) })
    }

    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        Box::pin(self.clone().forward_call(asked))
    }

    fn node_id(&self) -> String {
        String::new()
    }

    fn is_draining(&self) -> bool {
        false
    }
}
