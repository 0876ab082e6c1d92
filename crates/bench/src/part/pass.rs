//! The least a proxy can do over HTTP: pass a request on over a kept connection, and its answer back.
//! It checks nothing, reads nothing and records nothing.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use tokio::net::TcpListener;

use crate::message::connect;
use crate::serve;

type Idle = Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>;

/// Passes everything on to `to`.
pub(super) async fn run(listener: TcpListener, to: SocketAddr) -> Result<(), String> {
    let idle = Idle::default();
    let service = service_fn(move |request| {
        let idle = Arc::clone(&idle);
        async move { Ok::<_, Infallible>(pass(request, to, &idle).await.unwrap_or_else(failed)) }
    });
    serve::forever(listener, service).await
}

async fn pass(
    request: Request<Incoming>,
    to: SocketAddr,
    idle: &Idle,
) -> Result<Response<Full<Bytes>>, String> {
    let lost = |e: hyper::Error| e.to_string();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(lost)?.to_bytes();
    let request = Request::from_parts(head, Full::new(body));
    let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut connection = match kept.filter(|kept| !kept.is_closed()) {
        Some(kept) => kept,
        None => connect(to).await?,
    };
    connection.ready().await.map_err(lost)?;
    let (head, body) = connection.send_request(request).await.map_err(lost)?.into_parts();
    let body = body.collect().await.map_err(lost)?.to_bytes();
    idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    Ok(Response::from_parts(head, Full::new(body)))
}

fn failed(message: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(message)));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
