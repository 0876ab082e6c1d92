//! Spec 4's call on a short way: its message is one, and so is its answer, so that nothing of a stream's
//! machinery is needed. What does not look like that goes the long way, unread.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use prost::Message;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::Service as _;

use super::Door;
use crate::message::{HEAD, Pieces};
use crate::toolrpc::CallFunctionRequest;
use crate::{CALL, MAX_MESSAGE};

/// What gRPC's bodies are.
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Answers one request.
pub(super) async fn answer(
    door: Door,
    mut routes: Routes,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if is_short(&request) {
        return Ok(called(&door, request).await.unwrap_or_else(Status::into_http));
    }
    routes.call(request.map(Body::new)).await
}

/// A call that is not packed.
fn is_short<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    request.uri().path() == CALL
        && request.method() == Method::POST
        && headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes()))
        && !headers.contains_key("grpc-encoding")
}

async fn called(door: &Door, request: Request<Incoming>) -> Result<Response<Body>, Status> {
    let (parts, body) = request.into_parts();
    let call: CallFunctionRequest = message(body).await?;
    let said = door.called(MetadataMap::from_headers(parts.headers), call).await?;
    let mut bytes = BytesMut::with_capacity(HEAD + said.encoded_len());
    bytes.put_u8(0);
    let length = u32::try_from(said.encoded_len()).unwrap_or(u32::MAX);
    if usize::try_from(length).is_ok_and(|length| length > MAX_MESSAGE) {
        return Err(Status::out_of_range(format!("the answer has {length} bytes")));
    }
    bytes.put_u32(length);
    said.encode(&mut bytes).map_err(|error| Status::internal(error.to_string()))?;
    let mut response = Response::new(Body::new(One(Some(bytes.freeze()))));
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    Ok(response)
}

/// The one message of a body.
async fn message<M: Message + Default>(mut body: Incoming) -> Result<M, Status> {
    let mut pieces = Pieces::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::cancelled(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if pieces.add(data)? {
            return Err(Status::invalid_argument("there is more than one message"));
        }
    }
    let whole = pieces.whole()?.ok_or_else(|| Status::internal("the message is not whole"))?;
    M::decode(whole).map_err(|error| Status::new(Code::Internal, error.to_string()))
}

/// One message, and that all went well.
struct One(Option<Bytes>);

impl HttpBody for One {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        // The message, the trailers, the end.
        let frame = match self.0.take() {
            None => return Poll::Ready(None),
            Some(bytes) if bytes.is_empty() => {
                let status = HeaderValue::from_static("0");
                Frame::trailers(HeaderMap::from_iter([(Status::GRPC_STATUS, status)]))
            }
            Some(bytes) => {
                self.0 = Some(Bytes::new());
                Frame::data(bytes)
            }
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
