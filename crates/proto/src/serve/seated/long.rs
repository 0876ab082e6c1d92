//! What is no short call: tonic's services answer it, and its parts go back and forth one by one.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::Request;
use http::header::DATE;
use http_body::{Body as HttpBody, Frame};
use tonic::body::Body;
use tower::Service as _;

use super::carried::Here;
use super::date::date;
use super::short::unless_gone;

/// Answers one request.
pub(super) async fn answer(
    here: Arc<Here>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let mut routes = here.ways.routes.clone();
    let request = request.map(|body| Body::new(Received { body, here, done: false }));
    let answer = unless_gone(&mut respond, routes.call(request)).await;
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
    /// No data come any more.
    done: bool,
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let me = &mut *self;
        if !me.done {
            match ready!(me.body.poll_data(cx)) {
                Some(Ok(data)) => {
                    me.here.hears();
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
fn broken<T>(error: h2::Error) -> Option<Result<T, h2::Error>> {
    Some(error).filter(|error| error.reason() != Some(Reason::NO_ERROR)).map(Err)
}
