//! Requests to one endpoint, in one session after another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::mcp::{Era, Revision};
use bytes::Bytes;
use egress::{EgressError, HttpLimits, Prepared, Received};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tokio::sync::{Semaphore, watch};

use super::{Answer, Http, reply};
use crate::fail::HttpFault;
use crate::link::{Link, Unanswered};
use crate::mirror::Header;
use oauth_client::Token;

/// What all requests of one session have in common.
#[derive(Debug)]
pub(crate) struct Seat {
    headers: HeaderMap,
    /// Of requests with a message.
    posts: Result<Prepared, EgressError>,
    /// Of all others.
    others: Result<Prepared, EgressError>,
    /// Whether the server named a session.
    pub(super) session: bool,
    /// Which one it is, from 0: before the greeting.
    pub(crate) number: u64,
}

impl Seat {
    fn new(http: &Http, headers: HeaderMap, (session, number): (bool, u64)) -> Arc<Self> {
        let Http { egress, class, uri, .. } = http;
        let mut with_type = headers.clone();
        let json = HeaderValue::from_static("application/json");
        with_type.insert(header::CONTENT_TYPE, json);
        let posts = egress.prepare(class, uri, with_type);
        let others = egress.prepare(class, uri, headers.clone());
        Arc::new(Self { headers, posts, others, session, number })
    }
}

/// One endpoint, as one connection sees it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    http: Arc<Http>,
    /// Bytes of one message.
    pub(super) most: usize,
    bare: Arc<Seat>,
    seat: Mutex<Arc<Seat>>,
    /// Numbers the sessions; told to who has to begin again in each.
    pub(crate) sessions: watch::Sender<u64>,
    /// One at a time opens a new session.
    pub(crate) renewing: Semaphore,
    /// Whether the server leaves streams open whose answer has come.
    pub(super) lingers: AtomicBool,
}

impl Endpoint {
    /// Nothing is sent yet. `most` bounds one message, in bytes.
    pub(crate) fn new(http: Arc<Http>, era: Era, most: usize) -> Self {
        let mut headers = http.headers.clone();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
        if era == Era::Stateless {
            headers.insert(VERSION, HeaderValue::from_static(Revision::LATEST.as_str()));
        }
        let bare = Seat::new(&http, headers, (false, 0));
        Self {
            http,
            most,
            seat: Mutex::new(Arc::clone(&bare)),
            bare,
            sessions: watch::Sender::new(0),
            renewing: Semaphore::new(1),
            lingers: AtomicBool::new(false),
        }
    }

    /// The session now.
    pub(crate) fn seat(&self) -> Arc<Seat> {
        Arc::clone(&self.seat.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A session begins.
    pub(crate) fn sit(&self, revision: Revision, session: Option<HeaderValue>) {
        let mut headers = self.bare.headers.clone();
        headers.insert(VERSION, HeaderValue::from_static(revision.as_str()));
        let named = session.is_some();
        if let Some(session) = session {
            headers.insert(SESSION, session);
        }
        let number = *self.sessions.borrow() + 1;
        let seat = Seat::new(&self.http, headers, (named, number));
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = seat;
        self.sessions.send_replace(number);
    }

    /// Sends a request and resolves with the beginning of its answer.
    pub(crate) async fn post(
        &self,
        (link, id): (&Arc<Link>, i64),
        (text, headers): (Bytes, Vec<Header>),
        greets: bool,
    ) -> Result<Answer, Unanswered> {
        let mut again = false;
        loop {
            let seat = if greets { Arc::clone(&self.bare) } else { self.seat() };
            let sent = self.send(&seat, (Method::POST, &headers), text.clone()).await;
            let response = sent.map_err(Unanswered::Undelivered)?;
            if response.status() == StatusCode::NOT_FOUND && seat.session && !again {
                // The server knows nothing of the session, so it did nothing in it.
                reply::rest(response.into_body()).await;
                // Boxed: few have to begin a session again.
                Box::pin(link.renew(seat.number)).await?;
                again = true;
                continue;
            }
            let refused = response.status() == StatusCode::BAD_REQUEST;
            let answer = Answer::of(self, response, (id, greets)).await;
            let answer = answer.map_err(Unanswered::Undelivered)?;
            if refused && seat.session && answer.forgot_session() {
                // Said in words only, so nobody knows that nothing was done: this call fails, and the
                // next one has a session again.
                drop(Box::pin(link.renew(seat.number)).await);
            }
            return Ok(answer);
        }
    }

    /// Sends what wants no answer.
    pub(crate) async fn put(&self, text: Bytes) -> Result<(), HttpFault> {
        let seat = self.seat();
        let response = self.send(&seat, (Method::POST, &[]), text).await?;
        if response.status().is_success() {
            reply::rest(response.into_body()).await;
            return Ok(());
        }
        Err(reply::failed(response).await.0)
    }

    /// Opens a stream: for what the server says unasked, or for the rest of one that broke off.
    pub(super) async fn get(
        &self,
        seat: &Seat,
        last: Option<&HeaderValue>,
    ) -> Result<Received, HttpFault> {
        let last = last.map(|last| (HeaderName::from_static("last-event-id"), last.clone()));
        let last: Vec<_> = last.into_iter().collect();
        self.send(seat, (Method::GET, &last), Bytes::new()).await
    }

    /// Ends the session, where there is one.
    pub(crate) async fn close(&self) {
        let seat = self.seat();
        if !seat.session {
            return;
        }
        match self.send(&seat, (Method::DELETE, &[]), Bytes::new()).await {
            // 405: the server ends it in its own time.
            Ok(response) => reply::rest(response.into_body()).await,
            Err(error) => tracing::debug!(%error, "a session was not closed"),
        }
    }

    /// With the credential of the endpoint, where that is a token: once one was ever wanted.
    async fn send(
        &self,
        seat: &Seat,
        (method, more): (Method, &[Header]),
        body: Bytes,
    ) -> Result<Received, HttpFault> {
        let account = self.http.account();
        // Boxed: not to be carried by those that need no token.
        if let Some(awake) = account.filter(|account| account.is_awake()) {
            return Box::pin(self.authorized((awake, None), seat, (method, more), body)).await;
        }
        let first = self.send_as(seat, (method.clone(), more), body.clone(), None).await?;
        let wants = matches!(first.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let Some(account) = account.filter(|_| wants) else { return Ok(first) };
        Box::pin(self.authorized((account, Some(first)), seat, (method, more), body)).await
    }

    /// With this token.
    pub(super) async fn send_as(
        &self,
        seat: &Seat,
        (method, more): (Method, &[Header]),
        body: Bytes,
        token: Option<&Token>,
    ) -> Result<Received, HttpFault> {
        let prepared = if body.is_empty() { &seat.others } else { &seat.posts };
        let prepared = prepared.as_ref().map_err(EgressError::clone)?;
        let token = token.map(|token| (header::AUTHORIZATION, token.header()));
        let more = more.iter().cloned().chain(token);
        // Sizes are counted where a reply is read; how long one may take is its call's business.
        let limits = HttpLimits {
            headers: Duration::MAX,
            idle: Duration::MAX,
            body: usize::MAX,
            ..HttpLimits::default()
        };
        let sending = self.http.egress.send_prepared(prepared, (method, more), body, limits);
        let response = sending.await?;
        if response.status().is_redirection() {
            let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            return Err(HttpFault::redirected(to.unwrap_or("nowhere")));
        }
        Ok(response)
    }

    /// Notes that this server leaves its streams open.
    pub(super) fn lingering(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }
}

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
