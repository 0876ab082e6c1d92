//! Nodes that dial: a connection that the node made, over which it is called.
//!
//! Which node it is says its certificate. What is kept is the newest connection of each: one that died
//! without a word, as behind a NAT, does not stand in the way of the next.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proto::connect::{Dialled as Dialling, Duplex, Line};
use proto::node::ListRequest;
use proto::tls::greeted;
use rustls::ClientConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::Request;

use crate::registry::MOST_NODES;

/// Time for a node to say who it is, and to show it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that shake hands at once; more wait to be accepted.
const SHAKING: usize = 64;
/// How long nothing is accepted after it failed, as where files ran out.
const PAUSE: Duration = Duration::from_millis(100);

/// The lines over connections that nodes made.
#[derive(Debug, Default)]
pub(crate) struct Dialled(Mutex<HashMap<String, Line>>);

impl Dialled {
    /// The line to a node that is connected.
    pub(crate) fn to(&self, node: &str) -> Option<Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }

    /// Takes a connection; true where there is room for it.
    fn put(&self, node: &str, line: Line) -> bool {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= MOST_NODES && !lines.contains_key(node) {
            return false;
        }
        lines.insert(node.to_owned(), line);
        true
    }

    /// Accepts nodes, for ever.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener, tls: Arc<ClientConfig>) {
        let shaking = Arc::new(Semaphore::new(SHAKING));
        let mut tasks = JoinSet::new();
        loop {
            let Ok(permit) = Arc::clone(&shaking).acquire_owned().await else { return };
            while tasks.try_join_next().is_some() {}
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (dialled, tls) = (Arc::clone(&self), Arc::clone(&tls));
            tasks.spawn(async move {
                let _permit = permit;
                match tokio::time::timeout(PATIENCE, dialled.take(stream, tls)).await {
                    Ok(Ok(node)) => tracing::info!(%peer, node, "node connected"),
                    Ok(Err(error)) => tracing::warn!(%peer, %error, "a node is not let in"),
                    Err(_) => tracing::warn!(%peer, "a node said for too long who it is"),
                }
            });
        }
    }

    async fn take(&self, stream: TcpStream, tls: Arc<ClientConfig>) -> io::Result<String> {
        stream.set_nodelay(true)?;
        let (node, stream) = greeted(stream, tls).await?;
        let line = once(Box::new(stream));
        // The connection is used from here on, and so kept alive and noticed where it dies.
        let asked = line.node().list(Request::new(ListRequest {})).await;
        asked.map_err(|status| io::Error::other(status.to_string()))?;
        if self.put(&node, line) {
            Ok(node)
        } else {
            Err(io::Error::other(format!("{MOST_NODES} nodes are connected already")))
        }
    }
}

/// A line over one connection. Once that is gone, nothing was sent: the node dials again.
fn once(stream: Box<dyn Duplex>) -> Line {
    let stream = Mutex::new(Some(stream));
    Line::new(move || -> Dialling {
        let taken = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        let gone = || io::Error::new(io::ErrorKind::NotConnected, "the node is not connected");
        Box::pin(async move { taken.ok_or_else(gone) })
    })
}
