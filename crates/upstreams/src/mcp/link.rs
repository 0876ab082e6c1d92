//! One connection to a server: the handshake, requests on it, and its end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, GetExtensions as _, Implementation,
    ProtocolVersion, RequestId, ServerCapabilities,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, PeerRequestOptions, RequestHandle, RunningService,
    ServiceError, serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::IntoTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, Peer, RoleClient};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::Args;

use super::inflight::{Answer, Ends, Inflight, Lane, Refusal, Step};
use super::noise::Noise;

/// How long telling a server that a request is cancelled may take.
const CANCELLING: Duration = Duration::from_secs(5);

/// The two dialects of MCP, as far as a handshake goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// `initialize`: 2024-11-05 to 2025-11-25.
    Initialize,
    /// `server/discover`: 2026-07-28.
    Discover,
}

impl Era {
    fn mode(self) -> ClientLifecycleMode {
        match self {
            Self::Initialize => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

/// Hears what a server says unasked. Everything but changed lists is dealt with before it comes here.
#[derive(Debug)]
pub(super) struct Ears {
    pub(super) changed: Arc<Notify>,
}

impl ClientHandler for Ears {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        // No capability is declared: questions of a server to the client come with the MCP lane.
        let us = Implementation::new("toolkeep", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// What a connection shares with its transport.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    pub(super) inflight: Arc<Inflight>,
    pub(super) noise: Arc<Noise>,
    /// Fires when the connection is over.
    pub(super) over: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// Whether it goes over HTTP.
    pub(super) headers: bool,
}

/// A connection that answers.
#[derive(Debug)]
pub(super) struct Link {
    peer: Peer<RoleClient>,
    wire: Wire,
    slots: Arc<Semaphore>,
    era: Era,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Too many are in flight.
    Full,
    /// The connection was gone before it was sent.
    Closed,
    /// The connection went away with it.
    Lost,
    /// It could not be delivered.
    Undelivered(ServiceError),
}

/// What happens to a request.
#[derive(Debug)]
pub(super) enum Event {
    /// It goes on.
    Progressed(Step),
    /// It is over.
    Answered(Result<Answer, Unanswered>),
}

/// Shakes hands over `transport`. The task that serves the connection ends with `wire.over`.
pub(super) async fn shake<T, E, A>(
    transport: T,
    era: Era,
    (ears, wire, calls): (Ears, Wire, usize),
) -> Result<(RunningService<RoleClient, Ears>, Link), ClientInitializeError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let over = wire.over.clone();
    let running = serve_client_with_lifecycle_and_ct(ears, transport, era.mode(), over).await?;
    let peer = running.peer().clone();
    Ok((running, Link { peer, wire, slots: Arc::new(Semaphore::new(calls)), era }))
}

impl Link {
    /// What the server says it can do.
    pub(super) fn can(&self) -> ServerCapabilities {
        self.peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default()
    }

    /// How it was met.
    pub(super) fn era(&self) -> Era {
        self.era
    }

    /// Whether the transport reads arguments to mirror some of them in headers.
    pub(super) fn reads_arguments(&self) -> bool {
        self.wire.headers && self.era == Era::Discover
    }

    /// rmcp's side of it.
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// What it heard that is no message.
    pub(super) fn noise(&self) -> &Noise {
        &self.wire.noise
    }

    /// Resolves when it is over.
    pub(super) async fn over(&self) {
        self.wire.over.cancelled().await;
    }

    /// Asks for one page. `shared` where rmcp has to see the answer too.
    pub(super) async fn ask(
        &self,
        request: ClientRequest,
        shared: bool,
    ) -> Result<Answer, Unanswered> {
        let (lane, ends) = Lane::list(shared);
        let mut pending = self.send(request, (lane, ends)).await?;
        pending.answer().await
    }

    /// Takes a place for a call.
    pub(super) fn slot(&self) -> Result<OwnedSemaphorePermit, Unanswered> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| Unanswered::Full)
    }

    /// Sends a call.
    pub(super) async fn call(
        &self,
        request: ClientRequest,
        args: &Args,
        slot: OwnedSemaphorePermit,
    ) -> Result<Pending, Unanswered> {
        self.send(request, Lane::call(args.raw().clone(), slot)).await
    }

    async fn send(
        &self,
        mut request: ClientRequest,
        (lane, ends): (Arc<Lane>, Ends),
    ) -> Result<Pending, Unanswered> {
        if self.wire.over.is_cancelled() {
            return Err(Unanswered::Closed);
        }
        request.extensions_mut().insert(lane);
        let options = PeerRequestOptions::no_options();
        let handle = self.peer.send_request_with_option(request, options).await;
        let handle = handle.map_err(|_| Unanswered::Closed)?;
        Ok(Pending { id: handle.id.clone(), handle: Some(handle), ends, wire: self.wire.clone() })
    }
}

/// A request on its way. Dropped before its answer, it is cancelled at the server.
#[derive(Debug)]
pub(super) struct Pending {
    id: RequestId,
    handle: Option<RequestHandle<RoleClient>>,
    ends: Ends,
    wire: Wire,
}

impl Pending {
    /// What comes next: progress, in its order, and then the answer. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Event {
        // What was told before the answer is there before it.
        if let Ok(step) = self.ends.progress.try_recv() {
            return Event::Progressed(step);
        }
        let Self { handle, ends, wire, .. } = self;
        tokio::select! {
            biased;
            Some(step) = ends.progress.recv() => Event::Progressed(step),
            answer = settled(handle, &mut ends.answer, wire) => Event::Answered(answer),
        }
    }

    /// The answer.
    async fn answer(&mut self) -> Result<Answer, Unanswered> {
        settled(&mut self.handle, &mut self.ends.answer, &self.wire).await
    }
}

/// Resolves with the answer, or at once when there can be none any more. May be dropped and called
/// again.
async fn settled(
    handle: &mut Option<RequestHandle<RoleClient>>,
    answer: &mut oneshot::Receiver<Answer>,
    wire: &Wire,
) -> Result<Answer, Unanswered> {
    let Some(waiting) = handle.as_mut() else { return Err(Unanswered::Lost) };
    // The lane is settled before rmcp is told, so what is told last decides. A connection that is
    // over may still have answered with its last breath.
    let told = tokio::select! {
        biased;
        told = &mut waiting.rx => match told {
            Ok(Err(ServiceError::McpError(error))) => Ok(Answer::Refused(Refusal {
                code: error.code.0.into(),
                message: error.message.into_owned(),
            })),
            Ok(Ok(_) | Err(ServiceError::TransportClosed)) | Err(_) => Err(Unanswered::Lost),
            Ok(Err(error)) => Err(Unanswered::Undelivered(error)),
        },
        () = wire.over.cancelled() => Err(Unanswered::Lost),
    };
    *handle = None;
    answer.try_recv().or(told)
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.wire.inflight.leave(&self.id);
        let Some(handle) = self.handle.take() else { return };
        if self.wire.over.is_cancelled() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        drop(self.wire.tasks.spawn(async move {
            let reason = Some("the caller gave the call up".to_owned());
            let told = tokio::time::timeout(CANCELLING, handle.cancel(reason)).await;
            tracing::debug!(told = told.is_ok(), "cancelled a request at its server");
        }));
    }
}

/// The result of a settled request, or the refusal in words.
pub(super) fn result(answer: Answer) -> Result<Bytes, String> {
    match answer {
        Answer::Result(bytes) => Ok(bytes),
        Answer::Refused(refusal) => Err(refused(&refusal)),
    }
}

/// A refusal in words, bounded.
pub(super) fn refused(refusal: &Refusal) -> String {
    let message = super::wording::shown(&refusal.message, 500);
    match refusal.code {
        0 => message,
        code => format!("{message} (error {code})"),
    }
}
