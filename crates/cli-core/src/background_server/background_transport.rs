//! A transport to the background server, which finds or starts another one when it is gone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tool::BoxFuture;
use tool::executor::DispatchState;

use super::{BackgroundServer, POLL_INTERVAL, START_TIMEOUT, wait_until_listed};
use crate::command_error::CommandError;
use crate::data_dir::ServerDescriptor;
use crate::server_transport::{
    BodyStream, HttpTransport, MAX_RESPONSE_BYTES, ServerTransport, SourceNeed, TransportError,
};

/// Maximum number of attempts for a request that was never sent.
const MAX_ATTEMPTS: usize = 3;

/// A transport that outlives the server it is connected to.
pub(crate) struct BackgroundTransport {
    background: BackgroundServer,
    joined_server: Mutex<Option<Arc<JoinedServer>>>,
    /// Only one task at a time looks for a server.
    search_permit: Semaphore,
}

/// A server and the transport to it.
struct JoinedServer {
    server: ServerDescriptor,
    transport: Arc<HttpTransport>,
}

impl BackgroundTransport {
    /// Connects to the running server, or starts one.
    pub(crate) async fn connect(
        background: BackgroundServer,
    ) -> Result<(Arc<Self>, ServerDescriptor), CommandError> {
        let door =
            Self { background, joined_server: Mutex::default(), search_permit: Semaphore::new(1) };
        let server = door.join_server().await?.server.clone();
        Ok((Arc::new(door), server))
    }

    /// Describes a server to the user.
    pub(crate) fn describe_server(&self, server: &ServerDescriptor) -> Vec<String> {
        self.background.describe_server(server)
    }

    fn alive_server(&self) -> Option<Arc<JoinedServer>> {
        let current = self.joined_server.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Another process may listen at the address of a server that ended; it must not receive a
        // key.
        current.filter(|joined| self.background.is_alive(&joined.server))
    }

    fn set_server(&self, joined: Option<Arc<JoinedServer>>) {
        *self.joined_server.lock().unwrap_or_else(PoisonError::into_inner) = joined;
    }

    async fn join_server(&self) -> Result<Arc<JoinedServer>, CommandError> {
        if let Some(joined) = self.alive_server() {
            return Ok(joined);
        }
        let _looking = self.search_permit.acquire().await;
        if let Some(joined) = self.alive_server() {
            return Ok(joined);
        }
        let server = self.background.find_server().await?;
        let door = HttpTransport::new(&server.local_url());
        let door = door.map_err(|error| {
            CommandError::new(crate::command_error::ExitStatus::ServerUnavailable, error.0)
        })?;
        let joined = Arc::new(JoinedServer { server, transport: door });
        self.set_server(Some(Arc::clone(&joined)));
        Ok(joined)
    }

    /// Forgets a server, so that the next request looks for one, unless another one was found
    /// meanwhile.
    fn forget_server(&self, joined: &Arc<JoinedServer>) {
        let mut current = self.joined_server.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, joined)) {
            *current = None;
        }
    }

    async fn stream_body(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<BodyStream>, TransportError> {
        let mut last = None;
        for _ in 0..MAX_ATTEMPTS {
            let joined =
                self.join_server().await.map_err(|failure| TransportError(failure.to_string()))?;
            let error = match joined.transport.open_stream(request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            self.forget_server(&joined);
            if error.dispatch() == DispatchState::MaybeSent {
                return Err(TransportError(format!(
                    "the connection to the server closed during the request, which may have been \
                     executed: {error}"
                )));
            }
            last = Some(error);
            sleep(POLL_INTERVAL).await;
        }
        let last = last.map(|error| error.to_string()).unwrap_or_default();
        Err(TransportError(format!("no server accepts the request: {last}")))
    }

    async fn send_and_collect(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, TransportError> {
        let (head, mut body) = self.stream_body(request).await?.into_parts();
        let mut whole = Vec::new();
        while let Some(part) = body.next().await {
            whole.extend_from_slice(&part?);
            if whole.len() > MAX_RESPONSE_BYTES {
                return Err(TransportError(format!(
                    "the response is larger than {MAX_RESPONSE_BYTES} bytes"
                )));
            }
        }
        Ok(Response::from_parts(head, whole.into()))
    }

    /// Waits until the current server has listed its sources for the first time.
    async fn wait_until_listed(&self) {
        while let Ok(joined) = self.join_server().await {
            if joined.server.has_listed_sources {
                return;
            }
            match wait_until_listed(self.background.data(), joined.server.pid).await {
                Some(server) => {
                    let door = Arc::clone(&joined.transport);
                    return self
                        .set_server(Some(Arc::new(JoinedServer { server, transport: door })));
                }
                None => self.forget_server(&joined),
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

impl ServerTransport for BackgroundTransport {
    fn send_request(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Bytes>, TransportError>> {
        Box::pin(self.send_and_collect(request))
    }

    fn send_streaming(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<BodyStream>, TransportError>> {
        Box::pin(self.stream_body(request))
    }

    fn wait_for_sources<'a>(
        &'a self,
        _need: SourceNeed<'a>,
        limit: Option<Duration>,
    ) -> BoxFuture<'a, ()> {
        // After a timeout, the sources listed so far are used.
        Box::pin(async move {
            drop(timeout(limit.unwrap_or(START_TIMEOUT), self.wait_until_listed()).await);
        })
    }
}
