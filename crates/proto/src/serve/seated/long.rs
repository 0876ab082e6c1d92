//! What is no short call: tonic's services answer it, and its parts go back and forth one by one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::Request;
use http::header::DATE;
use http_body::{Body as HttpBody, Frame};
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tower::Service as _;

use super::carried::Here;
use super::date::date;
use super::message_budget::{MESSAGE_TIME, MessageBudget, Reservation, too_slow};
use super::short::unless_gone;

/// Any error of a body.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The services that ask for a credential: what their paths begin with.
const KEYED: [&str; 2] = ["/toolrpc.ToolExecutor/", "/toolkeep.node.v1.Node/"];

/// Answers one request.
pub(super) async fn answer(
    here: Arc<Here>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let answer = unless_gone(&mut respond, answered(here, request)).await;
    let Some(Ok(answer)) = answer else { return };
    let (mut head, body) = answer.into_parts();
    head.headers.entry(DATE).or_insert_with(date);
    let ends = body.is_end_stream();
    let sent = match respond.send_response(http::Response::from_parts(head, ()), ends) {
        Ok(_) if ends => Ok(()),
        Ok(stream) => pumped(body, stream).await,
        Err(error) => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            Err(error)
        }
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "an answer was not sent");
    }
}

/// The credential first, where the service asks for one; nothing is read before.
async fn answered(
    here: Arc<Here>,
    request: Request<RecvStream>,
) -> Result<http::Response<Body>, Infallible> {
    let is_keyed = KEYED.iter().any(|service| request.uri().path().starts_with(service));
    if is_keyed {
        let headers = MetadataMap::from_headers(request.headers().clone());
        let admitted = here.ways.door.tools.admit(headers, here.connection.clone()).await;
        if let Err(status) = admitted {
            return Ok(status.into_http());
        }
    }
    let mut routes = here.ways.routes.clone();
    let request = request.map(|body| Body::new(Received::new(body, here, is_keyed)));
    routes.call(request).await
}

/// Sends a body. Its next part is asked for when the one before has begun to go out.
async fn pumped(mut body: Body, mut stream: SendStream<Bytes>) -> Result<(), h2::Error> {
    loop {
        let next = std::future::poll_fn(|cx| match stream.poll_reset(cx)? {
            Poll::Ready(reason) => Poll::Ready(Err(h2::Error::from(reason))),
            Poll::Pending => Pin::new(&mut body).poll_frame(cx).map(Ok),
        });
        let frame = match next.await? {
            None => return stream.send_data(Bytes::new(), true),
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                tracing::debug!(%error, "an answer broke off");
                stream.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
        };
        match frame.into_data() {
            Ok(data) => {
                if !data.is_empty() && !room(&mut stream).await? {
                    return Ok(());
                }
                stream.send_data(data, false)?;
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    return stream.send_trailers(trailers);
                }
            }
        }
    }
}

/// Waits until the client takes more on this stream: no more is claimed before, so that a stream that
/// waits takes nothing from others. What is sent then goes as the client takes it. Not where it is gone.
pub(super) async fn room(stream: &mut SendStream<Bytes>) -> Result<bool, h2::Error> {
    stream.reserve_capacity(1);
    while stream.capacity() == 0 {
        let more = std::future::poll_fn(|cx| match stream.poll_reset(cx)? {
            Poll::Ready(reason) => Poll::Ready(Err(h2::Error::from(reason))),
            Poll::Pending => stream.poll_capacity(cx).map(Option::transpose),
        });
        if more.await?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A body as it comes. The client may send more when a part was taken.
struct Received {
    body: RecvStream,
    here: Arc<Here>,
    reserved: Reservation<Unfinished>,
    /// Until when it must have come; nothing where it may go on, as with a stream of questions.
    limited: bool,
    until: Option<Pin<Box<Sleep>>>,
    /// No data come any more.
    done: bool,
}

/// The budget of a connection.
struct Unfinished(Arc<Here>);

impl std::ops::Deref for Unfinished {
    type Target = MessageBudget;

    fn deref(&self) -> &MessageBudget {
        &self.0.unfinished
    }
}

impl Received {
    fn new(body: RecvStream, here: Arc<Here>, limited: bool) -> Self {
        let reserved = Reservation::new(Unfinished(Arc::clone(&here)));
        Self { body, here, reserved, limited, until: None, done: false }
    }

    /// Ready where more was waited for too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        if !self.limited {
            return Poll::Pending;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(MESSAGE_TIME)));
        until.as_mut().poll(cx).map(|()| too_slow())
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let me = &mut *self;
        if !me.done {
            let Poll::Ready(data) = me.body.poll_data(cx) else {
                return me.poll_late(cx).map(|late| Some(Err(late.into())));
            };
            match data {
                Some(Ok(data)) => {
                    me.here.hears();
                    me.reserved.add(data.len())?;
                    me.body.flow_control().release_capacity(data.len())?;
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(broken(error)),
                None => me.done = true,
            }
        }
        match ready!(me.body.poll_trailers(cx)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) => Poll::Ready(broken(error)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// A client that wants to hear no more has not failed.
fn broken<T>(error: h2::Error) -> Option<Result<T, BoxError>> {
    let failed = Some(error).filter(|error| error.reason() != Some(Reason::NO_ERROR));
    failed.map(|error| Err(error.into()))
}
