//! Spec 4's call on a short way: its message is one, and so is its answer, so that nothing of a stream's
//! machinery is needed. What does not look like that goes the long way, unread.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::FutureExt as _;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::header::{CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::carried::Here;
use super::date::date;
use super::long::room;
use super::message_budget::{MESSAGE_TIME, Reservation, too_slow};
use crate::message::{HEAD, Pieces};
use crate::toolrpc::CallFunctionRequest;
use crate::{CALL, MAX_MESSAGE};

/// What gRPC's bodies are.
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// Bytes of an answer that are handed over whether or not the client takes them now.
const SMALL: usize = 16 << 10;
const OK: HeaderValue = HeaderValue::from_static("0");

/// A call that is not packed.
pub(super) fn is_short<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    request.uri().path() == CALL
        && request.method() == Method::POST
        && headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes()))
        && !headers.contains_key(ENCODING)
}

/// Answers one.
pub(super) async fn answer(
    here: Arc<Here>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let sent = match unless_gone(&mut respond, called(&here, request)).await {
        None => return,
        Some(Ok(message)) => said(&mut respond, message).await,
        Some(Err(status)) => {
            let mut response = status.into_http::<()>();
            response.headers_mut().insert(DATE, date());
            respond.send_response(response, true).map(drop)
        }
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "an answer was not sent");
        respond.send_reset(Reason::INTERNAL_ERROR);
    }
}

/// What comes of it; nothing where the client resets the stream before.
pub(super) async fn unless_gone<T>(
    respond: &mut SendResponse<Bytes>,
    call: impl Future<Output = T>,
) -> Option<T> {
    let mut call = pin!(call);
    std::future::poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => respond.poll_reset(cx).map(|_| None),
    })
    .await
}

async fn called(here: &Here, request: Request<RecvStream>) -> Result<Bytes, Status> {
    let (parts, body) = request.into_parts();
    let (headers, connection) = (MetadataMap::from_headers(parts.headers), here.connection.clone());
    let call: CallFunctionRequest = message(here, &headers, body).await?;
    let said = here.ways.door.called(headers, call, connection).await?;
    let length = said.encoded_len();
    if length > MAX_MESSAGE {
        return Err(Status::out_of_range(format!("the answer has {length} bytes")));
    }
    let mut bytes = BytesMut::with_capacity(HEAD + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    said.encode(&mut bytes).map_err(|error| Status::internal(error.to_string()))?;
    Ok(bytes.freeze())
}

/// The one message of a body. Where it has arrived with its headers, the call itself checks the
/// credential. Where it has not, the credential comes first: nobody is waited for who may not call.
async fn message<M: Message + Default>(
    here: &Here,
    headers: &MetadataMap,
    body: RecvStream,
) -> Result<M, Status> {
    let mut arriving = pin!(whole(here, body));
    let whole = match arriving.as_mut().now_or_never() {
        Some(whole) => whole?,
        None => {
            here.ways.door.tools.admit(headers.clone(), here.connection.clone()).await?;
            let arrived = tokio::time::timeout(MESSAGE_TIME, arriving).await;
            arrived.map_err(|_| too_slow())??
        }
    };
    M::decode(whole).map_err(|error| Status::new(Code::Internal, error.to_string()))
}

/// The bytes of the one message of a body.
async fn whole(here: &Here, mut body: RecvStream) -> Result<Bytes, Status> {
    let (mut pieces, mut reserved) = (Pieces::default(), Reservation::new(&here.unfinished));
    while let Some(data) = body.data().await {
        here.hears();
        let gone = |error: h2::Error| Status::cancelled(error.to_string());
        let data = data.map_err(gone)?;
        reserved.add(data.len())?;
        body.flow_control().release_capacity(data.len()).map_err(gone)?;
        if pieces.add(data)? {
            return Err(Status::invalid_argument("there is more than one message"));
        }
        if body.is_end_stream() {
            break;
        }
    }
    pieces.whole()?.ok_or_else(|| Status::internal("the message is not whole"))
}

/// Head, message and trailers at once, which go out together where they are small. What is large waits
/// until the client takes something on its stream, and goes on as it takes more.
async fn said(respond: &mut SendResponse<Bytes>, message: Bytes) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response.headers_mut().insert(DATE, date());
    let mut stream = respond.send_response(response, false)?;
    if message.len() > SMALL && !room(&mut stream).await? {
        return Ok(());
    }
    stream.send_data(message, false)?;
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(Status::GRPC_STATUS, OK);
    stream.send_trailers(trailers)
}
