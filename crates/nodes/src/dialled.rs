//! Nodes that dial: a connection that the node made, over which it is called.
//!
//! Which node it is says its certificate, the newest that it got. What is kept is the newest connection of
//! each: one that died without a word, as behind a NAT, does not stand in the way of the next.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::connect::{Dialled as Dialling, Duplex, Line};
use proto::node::ListRequest;
use proto::tls::greeted;
use rustls::ClientConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::Request;
use tool::{Clock, Wall};

use crate::certificates::{Certificates, fingerprint};
use crate::registry::MOST_NODES;
use crate::revocable::{RevocableStream, Revocation};

/// Time for a node to say who it is, and to show it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that shake hands at once; more wait to be accepted.
const SHAKING: usize = 64;
/// Earlier connections of a node that are left open for the calls on them; the oldest are cut first.
const EARLIER: usize = 4;
/// How long nothing is accepted after it failed, as where files ran out.
const PAUSE: Duration = Duration::from_millis(100);

/// The lines over connections that nodes made.
#[derive(Debug)]
pub(crate) struct Dialled {
    lines: Mutex<HashMap<String, Connected>>,
    certificates: Arc<Certificates>,
    clock: Arc<dyn Clock>,
}

/// The newest connection of a node.
#[derive(Debug)]
struct Connected {
    line: Line,
    revocation: Revocation,
    /// Of the connections before it on which calls may still run.
    earlier: Vec<Revocation>,
    /// SHA-256 of the certificate that was shown.
    fingerprint: String,
    /// When one of them last took the place of one that was still open.
    replaced: Option<Wall>,
}

impl Dialled {
    pub(crate) fn new(certificates: Arc<Certificates>, clock: Arc<dyn Clock>) -> Self {
        Self { lines: Mutex::default(), certificates, clock }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Connected>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line to a node that is connected.
    pub(crate) fn to(&self, node: &str) -> Option<Line> {
        self.lock().get(node).map(|connected| connected.line.clone())
    }

    /// When a connection of a node last took the place of one that was still open.
    pub(crate) fn replaced(&self, node: &str) -> Option<Wall> {
        self.lock().get(node)?.replaced
    }

    /// Cuts the connection of a node.
    pub(crate) fn cut(&self, node: &str) {
        if let Some(connected) = self.lock().remove(node) {
            connected.revocation.revoke();
            connected.earlier.iter().for_each(Revocation::revoke);
        }
    }

    /// Takes a connection, where there is room for it and its certificate still counts. One that is
    /// still open loses its place to it, which is told: it may be that somebody else has the node's key.
    fn put(&self, node: &str, mut new: Connected, certificate: &[u8]) -> Result<(), String> {
        let mut lines = self.lock();
        // Under the lock: who revokes it after this cuts the connection.
        self.certificates.check(node, certificate)?;
        if lines.len() >= MOST_NODES && !lines.contains_key(node) {
            return Err(format!("{MOST_NODES} nodes are connected already"));
        }
        if let Some(old) = lines.remove(node) {
            self.take_over(node, &mut new, old);
        }
        lines.insert(node.to_owned(), new);
        Ok(())
    }

    /// Calls of an earlier connection with the same certificate go on until they end; those of another
    /// certificate are cut.
    fn take_over(&self, node: &str, new: &mut Connected, old: Connected) {
        new.replaced = old.replaced;
        let same_certificate = old.fingerprint == new.fingerprint;
        if old.revocation.has_open() {
            new.replaced = Some(self.clock.wall());
            let told = "a newer connection of the node takes the place of one that is still open";
            tracing::warn!(node, same_certificate, "{told}");
        }
        let earlier = old.earlier.into_iter().chain([old.revocation]);
        let mut open: Vec<_> = earlier.filter(Revocation::has_open).collect();
        let kept = if same_certificate { EARLIER } else { 0 };
        let surplus = open.len().saturating_sub(kept);
        open.drain(..surplus).for_each(|revocation| revocation.revoke());
        new.earlier = open;
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
        let shown = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
        let shown = shown.ok_or_else(|| io::Error::other("it showed no certificate"))?;
        let certificate = shown.as_ref().to_vec();
        let revocation = Revocation::default();
        let line = once(Box::new(RevocableStream::new(stream, &revocation)));
        // The connection is used from here on, and so kept alive and noticed where it dies.
        let asked = line.node().list(Request::new(ListRequest {})).await;
        asked.map_err(|status| io::Error::other(status.to_string()))?;
        let fingerprint = fingerprint(&certificate);
        let earlier = Vec::new();
        let connected = Connected { line, revocation, earlier, fingerprint, replaced: None };
        self.put(&node, connected, &certificate).map_err(io::Error::other)?;
        Ok(node)
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
