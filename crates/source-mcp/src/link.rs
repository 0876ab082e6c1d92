//! One connection to a server, in one era: a child's pipes or one HTTP endpoint.
//!
//! A request begins here and comes out as an [`Exchange`]; whatever the server says of it comes out of
//! that one place.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::mcp::{Era, Id, Revision, RpcError, write};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tool::{Boxed, Json};

use super::audience::Audience;
use super::ears::Ears;
use super::exchange::{Event, Exchange, Kind, Spoiled};
use super::fail::HttpFault;
use super::greeting::{self, Greeted, Ungreeted};
use super::http::Endpoint;
use super::noise::Noise;
use super::options::Bounds;
use super::pipe::{Broken, End, Pipe};
use super::request::Outgoing;

/// Why a request has no answer.
#[derive(Debug, Clone)]
pub(super) enum Unanswered {
    /// Too many are in flight.
    Full,
    /// The connection was gone before it was sent.
    Closed,
    /// The connection went away with it.
    Lost,
    /// It could not be delivered, or its answer not be had.
    Undelivered(HttpFault),
}

/// What carries messages.
#[derive(Debug)]
pub(super) enum Wire {
    Pipe(Pipe),
    Http(Endpoint),
}

/// What a connection shares with its transport.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) ears: Arc<Ears>,
    pub(super) noise: Arc<Noise>,
    pub(super) end: Arc<End>,
    pub(super) audience: Arc<Audience>,
    pub(super) tasks: TaskTracker,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) wire: Wire,
    pub(super) shared: Shared,
    era: Era,
    greeted: Mutex<Arc<Greeted>>,
    slots: Arc<Semaphore>,
    /// Calls in flight at most.
    calls: usize,
    next: AtomicI64,
    /// Time for a greeting.
    start: Duration,
}

impl Link {
    /// Nothing is said yet.
    pub(super) fn new(wire: Wire, era: Era, shared: Shared, bounds: &Bounds) -> Arc<Self> {
        let silent = Greeted {
            about: Json::empty(),
            revision: match era {
                Era::Handshake => Revision::LAST_HANDSHAKE,
                Era::Stateless => Revision::LATEST,
            },
            can: greeting::Can::default(),
            both: false,
        };
        Arc::new(Self {
            wire,
            shared,
            era,
            greeted: Mutex::new(Arc::new(silent)),
            slots: Arc::new(Semaphore::new(bounds.calls)),
            calls: bounds.calls,
            next: AtomicI64::new(1),
            start: bounds.start,
        })
    }

    /// How it was met.
    pub(super) fn era(&self) -> Era {
        self.era
    }

    /// What the server said of itself.
    pub(super) fn greeted(&self) -> Arc<Greeted> {
        Arc::clone(&self.greeted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether headers say again what a request says.
    pub(super) fn mirrors(&self) -> bool {
        self.era == Era::Stateless && matches!(self.wire, Wire::Http(_))
    }

    /// Resolves when it is over.
    pub(super) async fn over(&self) {
        self.shared.end.over.cancelled().await;
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.shared.end.over.is_cancelled()
    }

    /// A number for a request.
    pub(super) fn number(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether no call is in flight on it and nobody listens to a resource.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.available_permits() == self.calls && !self.shared.ears.is_heard()
    }

    /// Takes a place for a call.
    pub(super) fn slot(&self) -> Result<OwnedSemaphorePermit, Unanswered> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| Unanswered::Full)
    }

    /// Sends a request, and waits for nothing more than that it is on its way.
    pub(super) async fn begin(
        self: &Arc<Self>,
        request: &Outgoing<'_>,
        kind: Kind<'_>,
    ) -> Result<Exchange, Unanswered> {
        let mut exchange = Exchange::new(Arc::clone(self), self.number());
        exchange.send(request, kind).await?;
        Ok(exchange)
    }

    /// Asks something on nobody's behalf. What comes beside the answer is of no interest.
    pub(super) async fn ask(
        self: &Arc<Self>,
        method: &str,
        params: &Json,
    ) -> Result<Result<Json, RpcError>, Unanswered> {
        let answer = self.page(method, params).await?;
        Ok(answer.and_then(|answer| answer.map_err(RpcError::from)))
    }

    /// The same, for a request with more in it.
    pub(super) async fn ask_for(
        self: &Arc<Self>,
        request: &Outgoing<'_>,
    ) -> Result<Result<Json, RpcError>, Unanswered> {
        let mut exchange = self.begin(request, Kind::Own).await?;
        let answer = answered(&mut exchange).await?;
        Ok(answer.and_then(|answer| answer.map_err(RpcError::from)))
    }

    /// Asks for a page of a list, whose parts may be bad.
    pub(super) async fn page(
        self: &Arc<Self>,
        method: &str,
        params: &Json,
    ) -> Result<Result<Result<Json, Spoiled>, RpcError>, Unanswered> {
        let mut exchange = self.begin(&Outgoing::own(method, params), Kind::Own).await?;
        answered(&mut exchange).await
    }

    /// Tells the server something.
    pub(super) async fn tell(&self, method: &str, params: &Json) -> Result<(), Unanswered> {
        self.put(write::notification(method, params)).await
    }

    /// Answers a question of the server.
    pub(super) async fn reply(
        &self,
        id: &Id,
        answer: &Result<Json, RpcError>,
    ) -> Result<(), Unanswered> {
        self.put(match answer {
            Ok(result) => write::result(id, result),
            Err(error) => write::error(Some(id), error),
        })
        .await
    }

    /// Sends what wants no answer.
    async fn put(&self, message: Bytes) -> Result<(), Unanswered> {
        match &self.wire {
            Wire::Pipe(pipe) => pipe.send(message).await,
            Wire::Http(endpoint) => endpoint.put(message).await.map_err(Unanswered::Undelivered),
        }
    }

    /// Shakes hands, or asks what the server is.
    pub(super) async fn greet(self: &Arc<Self>) -> Result<(), Ungreeted> {
        let params = greeting::params(self.era);
        let request = Outgoing::own(greeting::method(self.era), &params);
        let mut answer = self.say_first(&request).await?;
        if let (_, Err(error)) = &answer
            && greeting::is_spoken_after_all(self.era, error)
        {
            answer = self.say_first(&request).await?;
        }
        let (exchange, answer) = answer;
        let about = answer.map_err(Ungreeted::Refused)?;
        let about = about.map_err(|spoiled| Ungreeted::Unreadable(spoiled.why))?;
        let greeted = greeting::read(self.era, about)?;
        if let Wire::Http(endpoint) = &self.wire {
            endpoint.sit(greeted.revision, exchange.session());
        }
        if self.era == Era::Handshake {
            let told = self.tell("notifications/initialized", &Json::empty()).await;
            told.map_err(Ungreeted::Unanswered)?;
        }
        *self.greeted.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(greeted);
        Ok(())
    }

    async fn say_first(
        self: &Arc<Self>,
        request: &Outgoing<'_>,
    ) -> Result<(Exchange, Result<Result<Json, Spoiled>, RpcError>), Ungreeted> {
        let mut exchange = Exchange::new(Arc::clone(self), self.number());
        exchange.send(request, Kind::Greeting).await.map_err(Ungreeted::Unanswered)?;
        let answer = answered(&mut exchange).await.map_err(Ungreeted::Unanswered)?;
        Ok((exchange, answer))
    }

    /// Opens a new session in place of the one of this number, which the server has forgotten. It may
    /// have restarted, with other tools.
    pub(super) fn renew(self: &Arc<Self>, seen: u64) -> Boxed<'_, Result<(), Unanswered>> {
        // Boxed: a greeting is a request too.
        Box::pin(self.renewed(seen))
    }

    async fn renewed(self: &Arc<Self>, seen: u64) -> Result<(), Unanswered> {
        let Wire::Http(endpoint) = &self.wire else { return Err(Unanswered::Closed) };
        let Ok(_turn) = endpoint.renewing.acquire().await else { return Err(Unanswered::Closed) };
        if endpoint.seat().number != seen {
            return Ok(());
        }
        let again = |why: String| HttpFault::failed(format!("opens no new session: {why}"));
        let Ok(greeted) = timeout(self.start, self.greet()).await else {
            return Err(Unanswered::Undelivered(HttpFault::late(self.start)));
        };
        let fault = match greeted {
            Ok(()) => {
                self.shared.ears.changed();
                return Ok(());
            }
            Err(Ungreeted::Unanswered(why)) => return Err(why),
            Err(Ungreeted::Unreadable(why)) => again(why),
            Err(Ungreeted::Refused(error)) => again(super::fail::refused(&error)),
            Err(Ungreeted::Versions(theirs)) => again(greeting::versions(&theirs)),
        };
        // Another server than the one that was met: it is to be met anew.
        self.shared.end.broken(Broken::Session(fault.to_string()));
        Err(Unanswered::Undelivered(fault))
    }
}

/// Reads on until the answer.
async fn answered(
    exchange: &mut Exchange,
) -> Result<Result<Result<Json, Spoiled>, RpcError>, Unanswered> {
    let link = Arc::clone(exchange.link());
    loop {
        match exchange.next().await? {
            Event::Answered(answer) => return Ok(answer.map(Ok)),
            Event::Spoiled(spoiled) => return Ok(Ok(Err(spoiled))),
            Event::Asked(question) => {
                let refusal = super::exchange::not_answered(&question.method);
                link.reply(&question.id, &Err(refusal)).await?;
            }
            Event::Progressed(_) | Event::Noticed(_) | Event::Withdrawn(_) => {}
        }
    }
}
