//! A transport to the background server, which finds or starts another one when it is gone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tool::Boxed;
use tool::executor::Sent;

use super::{Background, LOOK, WAIT, until_listed};
use crate::data::Server;
use crate::door::{ANSWER, Door, DoorError, HttpDoor, Parts, SourceNeed};
use crate::failure::Failure;

/// Maximum number of attempts for a request that was never sent.
const TRIES: usize = 3;

/// A transport that outlives the server it is connected to.
pub(crate) struct BackgroundDoor {
    background: Background,
    current: Mutex<Option<Arc<Joined>>>,
    /// Only one task at a time looks for a server.
    looking: Semaphore,
}

/// A server and the transport to it.
struct Joined {
    server: Server,
    door: Arc<HttpDoor>,
}

impl BackgroundDoor {
    /// Connects to the running server, or starts one.
    pub(crate) async fn connect(background: Background) -> Result<(Arc<Self>, Server), Failure> {
        let door = Self { background, current: Mutex::default(), looking: Semaphore::new(1) };
        let server = door.join().await?.server.clone();
        Ok((Arc::new(door), server))
    }

    /// Describes a server to the user.
    pub(crate) fn notes(&self, server: &Server) -> Vec<String> {
        self.background.notes(server)
    }

    fn current(&self) -> Option<Arc<Joined>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Another process may listen at the address of a server that ended; it must not receive a
        // key.
        current.filter(|joined| self.background.is_alive(&joined.server))
    }

    fn set(&self, joined: Option<Arc<Joined>>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = joined;
    }

    async fn join(&self) -> Result<Arc<Joined>, Failure> {
        if let Some(joined) = self.current() {
            return Ok(joined);
        }
        let _looking = self.looking.acquire().await;
        if let Some(joined) = self.current() {
            return Ok(joined);
        }
        let server = self.background.server().await?;
        let door = HttpDoor::new(&server.url());
        let door = door.map_err(|error| Failure::new(crate::failure::Exit::NoServer, error.0))?;
        let joined = Arc::new(Joined { server, door });
        self.set(Some(Arc::clone(&joined)));
        Ok(joined)
    }

    /// Forgets a server, so that the next request looks for one, unless another one was found
    /// meanwhile.
    fn leave(&self, joined: &Arc<Joined>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, joined)) {
            *current = None;
        }
    }

    async fn parts(&self, request: Request<Bytes>) -> Result<Response<Parts>, DoorError> {
        let mut last = None;
        for _ in 0..TRIES {
            let joined = self.join().await.map_err(|failure| DoorError(failure.to_string()))?;
            let error = match joined.door.stream(request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            self.leave(&joined);
            if error.sent() == Sent::Maybe {
                return Err(DoorError(format!(
                    "the server went away during the request, which may have been carried out: {error}"
                )));
            }
            last = Some(error);
            sleep(LOOK).await;
        }
        let last = last.map(|error| error.to_string()).unwrap_or_default();
        Err(DoorError(format!("no server takes the request: {last}")))
    }

    async fn whole(&self, request: Request<Bytes>) -> Result<Response<Bytes>, DoorError> {
        let (head, mut body) = self.parts(request).await?.into_parts();
        let mut whole = Vec::new();
        while let Some(part) = body.next().await {
            whole.extend_from_slice(&part?);
            if whole.len() > ANSWER {
                return Err(DoorError(format!("the answer has more than {ANSWER} bytes")));
            }
        }
        Ok(Response::from_parts(head, whole.into()))
    }

    /// Waits until the current server has listed its sources for the first time.
    async fn listed(&self) {
        while let Ok(joined) = self.join().await {
            if joined.server.listed {
                return;
            }
            match until_listed(self.background.data(), joined.server.pid).await {
                Some(server) => {
                    let door = Arc::clone(&joined.door);
                    return self.set(Some(Arc::new(Joined { server, door })));
                }
                None => self.leave(&joined),
            }
            sleep(LOOK).await;
        }
    }
}

impl Door for BackgroundDoor {
    fn send(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Bytes>, DoorError>> {
        Box::pin(self.whole(request))
    }

    fn open(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Parts>, DoorError>> {
        Box::pin(self.parts(request))
    }

    fn sources<'a>(&'a self, _need: SourceNeed<'a>, limit: Option<Duration>) -> Boxed<'a, ()> {
        // After a timeout, the sources listed so far are used.
        Box::pin(async move { drop(timeout(limit.unwrap_or(WAIT), self.listed()).await) })
    }
}
