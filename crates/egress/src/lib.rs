//! The one way out: every HTTP request of Toolkeep is judged and sent here.
//!
//! A URL belongs to a [`Class`] by where it came from, never by what it says. The order is fixed:
//! parse, scheme, user, port, host, look-up, every address, dial exactly a checked address, look who
//! answered, TLS. Proxies named in the environment are not used. HTTP/1.1 only; nothing is
//! decompressed, so what is counted is what came.

mod address;
mod body;
mod connection;
mod dial;
mod error;
mod follow;
mod local;
mod pool;
mod prepared;
mod received;
mod resolve;
mod service_address;
mod settings;
mod target;
mod tls;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tool::executor::Sent;

pub use body::Body;
pub use connection::HttpStack;
pub use dial::{Dial, Tcp};
pub use error::{EgressError, Phase, Shown};
pub use follow::Follow;
pub use http1::ResponseHead;
pub use local::local;
pub use pool::Keep;
pub use prepared::Prepared;
pub use received::Received;
pub use resolve::{MOST_ANSWERS, Resolve, SystemResolver};
pub use rustls::pki_types::CertificateDer;
pub use service_address::ServiceAddress;
pub use settings::{EgressSettings, HttpLimits};
pub use target::{Origin, PlaintextKey, Rules};
pub use tls::Roots;

use body::Open;
use connection::{Connection, Outgoing};
use dial::Connector;
use follow::Hop;
use http1::ResponseStart;
use pool::{Key, Pool};
use target::blocked;

/// Where a URL came from, which says what it may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// The operator's configuration: this origin and no other, in any network.
    Operator {
        /// As configured.
        origin: Origin,
    },
    /// An argument of a call: public addresses only.
    Caller,
    /// An answer of somebody else, such as a redirect or metadata: public addresses only.
    Upstream,
}

/// The way out. Clones share connections and limits.
#[derive(Clone)]
pub struct Egress(Arc<Shared>);

struct Shared {
    rules: Arc<Rules>,
    connector: Arc<Connector>,
    pool: Arc<Pool>,
    places: Arc<Semaphore>,
    keep: Keep,
    http: HttpStack,
}

impl Egress {
    /// Reads the certificate authorities; dials nothing.
    ///
    /// # Errors
    /// [`EgressError::Settings`].
    pub fn new(settings: EgressSettings) -> Result<Self, EgressError> {
        let EgressSettings { rules, roots, open, keep, resolver, dialer, http } = settings;
        let connector = Arc::new(Connector { resolver, dialer, tls: roots.config()?, name: None });
        let places = Arc::new(Semaphore::new(open.min(Semaphore::MAX_PERMITS)));
        let (rules, pool) = (Arc::new(rules), Arc::new(Pool::new(keep)));
        Ok(Self(Arc::new(Shared { rules, connector, pool, places, keep, http })))
    }

    /// The same way out with connections of its own: what goes out with one credential never shares a
    /// connection with another. The limits stay shared.
    #[must_use]
    pub fn apart(&self) -> Self {
        let Shared { rules, connector, places, keep, http, .. } = &*self.0;
        Self(Arc::new(Shared {
            rules: Arc::clone(rules),
            connector: Arc::clone(connector),
            pool: Arc::new(Pool::new(*keep)),
            places: Arc::clone(places),
            keep: *keep,
            http: *http,
        }))
    }

    /// Returns the implementation of HTTP/1.1 that requests go out with.
    pub fn http_stack(&self) -> HttpStack {
        self.0.http
    }

    /// All that can be said of `url` without looking its name up: for an early, clear answer. Sending
    /// checks again. Answers the URL in its one standard writing.
    ///
    /// # Errors
    /// [`EgressError::Blocked`].
    pub fn check(&self, class: &Class, url: &str) -> Result<Uri, EgressError> {
        let origin = self.0.rules.check(class, url)?;
        let unfit = || blocked(&Shown::of(url), "it cannot be written as a request");
        let parsed = url::Url::parse(url).map_err(|_| unfit())?;
        let tail = &parsed[url::Position::BeforePath..url::Position::AfterQuery];
        format!("{origin}{tail}").parse().map_err(|_| unfit())
    }

    /// Sends one request, whose URI is absolute; resolves with the head of the response, whatever its
    /// status. Redirects are answers like others. Tries again by itself only on a kept connection
    /// that turned out closed before a byte was sent.
    ///
    /// # Errors
    /// [`EgressError`]; its `sent()` tells whether the other side may have seen the request.
    pub async fn send(
        &self,
        class: &Class,
        request: Request<Bytes>,
        limits: HttpLimits,
    ) -> Result<Received, EgressError> {
        let origin = self.origin(class, request.uri())?;
        let url = Shown::uri(request.uri());
        let request = prepared::encode(&origin, request, self.0.http);
        self.exchange((class, &origin, &url), request, limits).await
    }

    /// Judges and makes fit, once, what many requests to one place have in common.
    ///
    /// # Errors
    /// [`EgressError::Blocked`].
    pub fn prepare(
        &self,
        class: &Class,
        uri: &Uri,
        headers: HeaderMap,
    ) -> Result<Prepared, EgressError> {
        let origin = self.origin(class, uri)?;
        Ok(Prepared::new(class, origin, uri, headers))
    }

    /// Like [`send`](Self::send), of what was prepared, with `more` headers: none that belong to a
    /// connection, and none that all requests have.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_prepared(
        &self,
        prepared: &Prepared,
        (method, more): (Method, impl IntoIterator<Item = (HeaderName, HeaderValue)>),
        body: Bytes,
        limits: HttpLimits,
    ) -> impl Future<Output = Result<Received, EgressError>> {
        let request = prepared.encode(&method, more, body, self.0.http);
        let Prepared { class, origin, url, .. } = prepared;
        self.exchange((class, origin, url), request, limits)
    }

    /// Like [`send`](Self::send), but goes where redirects lead: to public addresses, or within the
    /// same origin. Each hop has its own time.
    ///
    /// # Errors
    /// [`EgressError`]; [`EgressError::Blocked`] also where there are more than `follow.max` hops.
    pub async fn send_following(
        &self,
        class: &Class,
        request: Request<Bytes>,
        limits: HttpLimits,
        follow: Follow,
    ) -> Result<Received, EgressError> {
        let (parts, body) = request.into_parts();
        let class = class.clone();
        let mut hop =
            Hop { class, method: parts.method, uri: parts.uri, headers: parts.headers, body };
        for count in 0..=follow.max {
            let hopped = |error: EgressError| if count > 0 { error.after_a_hop() } else { error };
            let origin = self.origin(&hop.class, &hop.uri).map_err(hopped)?;
            let url = Shown::uri(&hop.uri);
            let request = prepared::encode(&origin, hop.request(), self.0.http);
            let sent = self.exchange((&hop.class, &origin, &url), request, limits).await;
            let response = sent.map_err(hopped)?;
            match hop.next(&origin, &response)? {
                Some(next) => hop = next,
                None => return Ok(response),
            }
        }
        let why = format!("there are over {} redirects on the way there", follow.max);
        Err(blocked(&Shown::uri(&hop.uri), why).after_a_hop())
    }

    /// A connection for a protocol that is none of HTTP's, such as a cache's: to the operator's own
    /// origin, by the same steps as any other. It is the caller's, and in no pool.
    ///
    /// # Errors
    /// [`EgressError`]: nothing was sent.
    pub async fn stream(
        &self,
        origin: &Origin,
        limit: Duration,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug + use<>, EgressError> {
        let class = Class::Operator { origin: origin.clone() };
        self.0.connector.without_alpn().connect(&class, origin, limit).await
    }

    /// The same over TLS where the caller says whom to believe, under which name, and what to show: such
    /// as a node, which no authority of the web knows.
    ///
    /// # Errors
    /// [`EgressError`]: nothing was sent. [`EgressError::Settings`] where the origin is not `https`.
    pub async fn stream_of(
        &self,
        origin: &Origin,
        (tls, name): (Arc<ClientConfig>, ServerName<'static>),
        limit: Duration,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug + use<>, EgressError> {
        if !origin.is_https() {
            let told = format!("`{origin}` is to be reached over TLS and is no `https`");
            return Err(EgressError::Settings(told));
        }
        let class = Class::Operator { origin: origin.clone() };
        self.0.connector.with_tls(tls, Some(name)).connect(&class, origin, limit).await
    }

    /// Closes connections that nobody came for, for ever. Spawn it where shutdown ends it; without
    /// it they stay, bounded in number, until the next request.
    pub async fn tend(&self) {
        let mut ticks = tokio::time::interval(self.0.pool.idle().max(Duration::from_millis(100)));
        loop {
            ticks.tick().await;
            self.0.pool.sweep();
        }
    }

    fn origin(&self, class: &Class, uri: &Uri) -> Result<Origin, EgressError> {
        if let Class::Operator { origin } = class
            && origin.is_written_as(uri)
        {
            return Ok(origin.clone());
        }
        self.0.rules.check(class, &uri.to_string())
    }

    async fn exchange(
        &self,
        (class, origin, url): (&Class, &Origin, &Shown),
        request: Outgoing,
        limits: HttpLimits,
    ) -> Result<Received, EgressError> {
        // What few requests need is boxed, here and below, so that the others do not carry it.
        let place = match Arc::clone(&self.0.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => Box::pin(self.place(url, limits.connect)).await?,
        };
        let key = Key::of(class, origin);
        loop {
            let kept = self.0.pool.take(&key);
            let reused = kept.is_some();
            let mut conn = match kept {
                Some(conn) => conn,
                None => Box::pin(self.connect(class, origin, limits.connect)).await?,
            };
            let late = || EgressError::TimedOut {
                url: url.clone(),
                phase: Phase::Headers,
                after: limits.headers,
                sent: Sent::Maybe,
            };
            match within(limits.headers, conn.send(&request)).await.ok_or_else(late)? {
                Ok(start) => {
                    let open = Open { conn, key, pool: Arc::clone(&self.0.pool), _place: place };
                    return bounded(start, open, url.clone(), limits);
                }
                Err(failed) if failed.is_unsent && reused => {}
                Err(failed) => {
                    let sent = if failed.is_unsent { Sent::No } else { Sent::Maybe };
                    let what = format!("no response: {}", failed.error);
                    return Err(EgressError::Protocol { url: url.clone(), what, sent });
                }
            }
        }
    }

    /// Waits for one that is free.
    async fn place(
        &self,
        url: &Shown,
        limit: Duration,
    ) -> Result<OwnedSemaphorePermit, EgressError> {
        match timeout(limit, Arc::clone(&self.0.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(EgressError::TimedOut {
                url: url.clone(),
                phase: Phase::Queue,
                after: limit,
                sent: Sent::No,
            }),
        }
    }

    async fn connect(
        &self,
        class: &Class,
        origin: &Origin,
        limit: Duration,
    ) -> Result<Connection, EgressError> {
        let stream = self.0.connector.connect(class, origin, limit).await?;
        Connection::over(stream, self.0.http).await.map_err(|error| EgressError::Unreachable {
            url: Shown::of(&origin.to_string()),
            what: error.to_string(),
            sent: Sent::No,
        })
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("rules", &self.0.rules).finish_non_exhaustive()
    }
}

/// What comes in time. No timer is set where there is no limit.
async fn within<T>(limit: Duration, what: impl Future<Output = T>) -> Option<T> {
    if limit == Duration::MAX {
        return Some(what.await);
    }
    // Boxed, for a timer takes room in what holds it.
    Box::pin(timeout(limit, what)).await.ok()
}

fn bounded(
    start: ResponseStart,
    open: Open,
    url: Shown,
    limits: HttpLimits,
) -> Result<Received, EgressError> {
    if start.head.status == StatusCode::SWITCHING_PROTOCOLS {
        let what = "it switched to another protocol, which nobody asked for".to_owned();
        return Err(EgressError::Protocol { url, what, sent: Sent::Maybe });
    }
    let announced = start.content_length.unwrap_or_default();
    if usize::try_from(announced).is_ok_and(|length| length > limits.body) {
        return Err(EgressError::TooLarge { url, limit: limits.body });
    }
    let ResponseStart { head, framing, content_length, .. } = start;
    let body = Body::new(framing, open, url, limits.idle, limits.body);
    Ok(Received::new(head, content_length, body))
}
