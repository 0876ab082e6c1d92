//! The HTTP/1.1 accept loop that all helper processes share.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// Opens a free port on loopback and prints it on standard output for the parent.
pub(crate) async fn listen_announced() -> Result<TcpListener, String> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|e| format!("no port: {e}"))?;
    let address = listener.local_addr().map_err(|e| format!("no address: {e}"))?;
    println!("listening {address}");
    Ok(listener)
}

/// Serves each connection with a clone of `service`; never returns.
pub(crate) async fn serve_forever<S, B>(listener: TcpListener, service: S) -> Result<(), String>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    loop {
        let (stream, _) = listener.accept().await.map_err(|e| format!("cannot accept: {e}"))?;
        stream.set_nodelay(true).map_err(|e| format!("no such option: {e}"))?;
        let service = service.clone();
        tokio::spawn(async move {
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            // A client that disconnects is not an error.
            drop(served.await);
        });
    }
}
