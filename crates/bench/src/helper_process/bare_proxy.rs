//! A minimal HTTP proxy as baseline: forwards each request over a kept-alive connection and returns
//! the response. It checks, parses and records nothing.

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

use crate::http_loop;
use crate::timed_request::open_connection;

type IdlePool = Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>;

/// Forwards all requests to `upstream`.
pub(super) async fn serve_proxy(listener: TcpListener, upstream: SocketAddr) -> Result<(), String> {
    let idle = IdlePool::default();
    let service = service_fn(move |request| {
        let idle = Arc::clone(&idle);
        async move {
            Ok::<_, Infallible>(
                forward_request(request, upstream, &idle).await.unwrap_or_else(bad_gateway),
            )
        }
    });
    http_loop::serve_forever(listener, service).await
}

async fn forward_request(
    request: Request<Incoming>,
    to: SocketAddr,
    idle: &IdlePool,
) -> Result<Response<Full<Bytes>>, String> {
    let lost = |e: hyper::Error| e.to_string();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(lost)?.to_bytes();
    let request = Request::from_parts(head, Full::new(body));
    let idle_connection = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut connection = match idle_connection.filter(|kept| !kept.is_closed()) {
        Some(kept) => kept,
        None => open_connection(to).await?,
    };
    connection.ready().await.map_err(lost)?;
    let (head, body) = connection.send_request(request).await.map_err(lost)?.into_parts();
    let body = body.collect().await.map_err(lost)?.to_bytes();
    idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    Ok(Response::from_parts(head, Full::new(body)))
}

fn bad_gateway(message: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(message)));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
