//! The System Function Network Forwarder of the cluster tools, which protects a node's privileged
//! runtime.
//!
//! It runs without rights of its own. A call that the local registry contains and allows is
//! forwarded to the runtime over a local socket; any other is rejected with a reason and never
//! reaches the runtime. It executes nothing, and that file is its only list.

mod registry;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use egress::local;
use proto::connect::{Duplex, Line};
use proto::node::call_event::Event;
use proto::node::{CallRequest, Tool as Listed};
use proto::serve::{Asked, Boxed, Said, Told, Tools, unless_cancelled};
use proto::toolrpc::CallFunctionRequest;
use proto::{Code, MetadataMap, Status};
use tonic::Request;

pub(crate) use registry::Registry;

/// Maximum duration of a call, also without a deadline of its caller.
const LONGEST: Duration = Duration::from_mins(10);

/// Checks calls against a registry and forwards the allowed ones. Clones share their state.
#[derive(Clone)]
pub(crate) struct Forwarder(Arc<Shared>);

struct Shared {
    registry: ArcSwap<Registry>,
    runtime: Line,
    socket: PathBuf,
}

impl std::fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarder").field("socket", &self.0.socket).finish_non_exhaustive()
    }
}

impl Forwarder {
    /// Creates a forwarder to the runtime on `socket`, which may start later. Must be called within
    /// an async runtime.
    pub(crate) fn new(registry: Registry, socket: PathBuf) -> Self {
        let path = socket.clone();
        let runtime = Line::new(move || {
            let path = path.clone();
            Box::pin(async move {
                let stream = local(&path).await;
                let named = |error: io::Error| {
                    tracing::warn!(socket = %path.display(), %error, "runtime not reached");
                    error
                };
                Ok(Box::new(stream.map_err(named)?) as Box<dyn Duplex>)
            })
        });
        Self(Arc::new(Shared { registry: ArcSwap::from_pointee(registry), runtime, socket }))
    }

    /// Replaces the registry from the next call on.
    pub(crate) fn set(&self, registry: Registry) {
        self.0.registry.store(Arc::new(registry));
    }

    async fn forward(self, asked: Asked) -> Result<Said, Status> {
        let refused = self.0.registry.load().check(&asked.tool_name, &asked.input).err();
        if let Some(error) = refused {
            let shown: String = asked.tool_name.chars().take(128).collect();
            tracing::info!(tool = shown.escape_debug().to_string(), why = error, "call refused");
            return Ok(Said { error, ..Said::default() });
        }
        let within = asked.within.unwrap_or(LONGEST).min(LONGEST);
        let cancelled = asked.cancelled.clone();
        // On cancellation the runtime is notified: its stream is reset.
        match unless_cancelled(cancelled, self.hand_on(asked, within)).await {
            Some(said) => said.map_err(told),
            None => Ok(Said { error: "the call was cancelled".to_owned(), ..Said::default() }),
        }
    }

    /// Sends a call to the runtime and returns its response unchanged.
    async fn hand_on(&self, asked: Asked, within: Duration) -> Result<Said, Status> {
        let Asked { tool_name, input, progress, .. } = asked;
        let line = &self.0.runtime;
        if progress.wanted() {
            let call_id = String::new();
            let mut request = Request::new(CallRequest {
                call_id,
                tool_name: tool_name.clone(),
                input: input.clone(),
            });
            request.set_timeout(within);
            match line.node().call(request).await {
                Ok(events) => return followed(events.into_inner(), &progress).await,
                // A runtime of the original protocol: nothing has run.
                Err(status) if status.code() == Code::Unimplemented => {}
                Err(status) => return Err(status),
            }
        }
        let mut request = Request::new(CallFunctionRequest { tool_name, input });
        request.set_timeout(within);
        let said = line.executor().call_function(request).await?.into_inner();
        let (success, output) = (said.success, said.output);
        Ok(Said { success, output, error: said.error, metadata: said.metadata })
    }
}

async fn followed(
    mut events: tonic::Streaming<proto::node::CallEvent>,
    progress: &Told,
) -> Result<Said, Status> {
    while let Some(event) = events.message().await? {
        match event.event {
            Some(Event::Progress(told)) => progress.tell(told.done, told.total, &told.message),
            Some(Event::Result(said)) => {
                let (success, output) = (said.success, said.output);
                return Ok(Said { success, output, error: said.error, metadata: said.metadata });
            }
            None => {}
        }
    }
    Err(Status::unavailable("the runtime's answer broke off before the result"))
}

/// Converts a runtime error for the caller, without revealing where the runtime is.
#[expect(clippy::needless_pass_by_value, reason = "maps an error into another")]
fn told(status: Status) -> Status {
    tracing::warn!(%status, "the runtime gave no answer");
    match status.code() {
        Code::DeadlineExceeded => Status::deadline_exceeded("the node's runtime took too long"),
        Code::Unavailable => Status::unavailable("the node's runtime gave no answer"),
        code => Status::new(code, "the node's runtime gave no answer"),
    }
}

impl Tools for Forwarder {
    /// TLS authenticates callers; calls can be cancelled by any caller with the same credential.
    fn who(&self, headers: MetadataMap) -> Boxed<Result<String, Status>> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        let given = given.unwrap_or_default().to_owned();
        Box::pin(async move { Ok(given) })
    }

    fn list(&self, _: MetadataMap) -> Boxed<Result<Vec<Listed>, Status>> {
        let listed = |tool: sdk::Described| Listed {
            name: tool.name,
            description: tool.description,
            input_spec: tool.input_spec.to_string().into(),
            metadata: tool.metadata.to_string().into(),
        };
        let all = self.0.registry.load().described().into_iter().map(listed).collect();
        Box::pin(async move { Ok(all) })
    }

    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>> {
        Box::pin(self.clone().forward(asked))
    }

    fn node_id(&self) -> String {
        String::new()
    }

    fn draining(&self) -> bool {
        false
    }
}
