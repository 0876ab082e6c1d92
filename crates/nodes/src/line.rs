//! The lines to nodes: one for each address, made when it is first needed.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use egress::{Egress, EgressError, Origin};
use proto::connect::{Duplex, Line};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::runtime::Handle;
use tool::node::Unresolved;
use tool::{Clock, Map};

use crate::certificates::Certificates;
use crate::dialled::Dialled;
use crate::revocable::{RevocableStream, Revocation};
use crate::{Addresses, NodeLocator};

/// Time for one connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Where nodes are and the lines to them.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) addresses: ArcSwap<Addresses>,
    /// Who knows where the nodes are that the operator did not write down.
    pub(crate) locator: OnceLock<Arc<dyn NodeLocator>>,
    /// Nodes that dial.
    pub(crate) dialled: Arc<Dialled>,
    certificates: Arc<Certificates>,
    egress: Egress,
    /// What is shown to nodes over TLS, and whom to believe; `None` where there is no authority.
    tls: OnceLock<Arc<ClientConfig>>,
    open: Mutex<Map<String, Open>>,
    /// Where the lines' tasks live, whoever needs one first.
    runtime: Handle,
}

/// A line, and what it was made of.
#[derive(Debug)]
struct Open {
    /// The operator's words, where the address is one of them: as long as they are these, it is.
    written: Option<Arc<Addresses>>,
    origin: Origin,
    line: Line,
    revocation: Revocation,
}

impl Lines {
    /// Must be called on a runtime that outlives all calls.
    pub(crate) fn new(
        egress: Egress,
        certificates: Arc<Certificates>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let (addresses, open) = (ArcSwap::default(), Mutex::default());
        let (locator, tls) = (OnceLock::new(), OnceLock::new());
        let dialled = Arc::new(Dialled::new(Arc::clone(&certificates), Arc::clone(clock)));
        let runtime = Handle::current();
        Self { addresses, locator, dialled, certificates, egress, tls, open, runtime }
    }

    /// Cuts the connections to a node and of it, calls and all.
    pub(crate) fn cut(&self, node: &str) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
        if let Some(open) = open {
            open.revocation.revoke();
        }
        self.dialled.cut(node);
    }

    /// Where a node is: the operator's word first, then the locator's.
    pub(crate) fn origin(&self, node: &str) -> Result<Origin, Unresolved> {
        let addresses = self.addresses.load();
        match (addresses.of(node), self.locator.get()) {
            (Err(Unresolved::Unknown(_)), Some(locator)) => {
                addresses.judged(node, &locator.url(node)?, false)
            }
            (said, _) => said,
        }
    }

    /// What is shown to nodes over TLS.
    pub(crate) fn tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.get().cloned()
    }

    /// The line over a connection that the node made, unless the operator wrote down where it is.
    pub(crate) fn dialled(&self, node: &str) -> Option<Line> {
        let written = self.addresses.load().nodes.contains_key(node);
        if written { None } else { self.dialled.to(node) }
    }

    /// From here on nodes are called over TLS as well; the first time alone.
    pub(crate) fn over_tls(&self, tls: Arc<ClientConfig>) {
        drop(self.tls.set(tls));
    }

    /// The line to a node, as its address is now. One to an address that it no longer has is dropped.
    pub(crate) fn to(&self, node: &str) -> Result<Line, Unresolved> {
        let addresses = self.addresses.load();
        let written = addresses.nodes.contains_key(node);
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if written {
            let is =
                |open: &&Open| open.written.as_ref().is_some_and(|of| Arc::ptr_eq(of, &addresses));
            if let Some(found) = open().get(node).filter(is) {
                return Ok(found.line.clone());
            }
        } else if let Some(line) = self.dialled.to(node) {
            return Ok(line);
        }
        let origin = self.origin(node)?;
        let written = written.then(|| Arc::clone(&addresses));
        let mut open = open();
        if let Some(found) = open.get_mut(node)
            && found.origin == origin
        {
            found.written = written;
            return Ok(found.line.clone());
        }
        // Under the lock: who revokes it after this cuts the line.
        let unusable = |why: String| Unresolved::Unusable { node: node.to_owned(), why };
        self.certificates.check_node(node).map_err(unusable)?;
        // Calls may still run at the address before: they are cut with those of this one.
        let revocation = open.get(node).map(|old| old.revocation.clone()).unwrap_or_default();
        let line = self.line(node, &origin, &revocation)?;
        open.insert(node.to_owned(), Open { written, origin, line: line.clone(), revocation });
        Ok(line)
    }

    fn line(
        &self,
        node: &str,
        origin: &Origin,
        revocation: &Revocation,
    ) -> Result<Line, Unresolved> {
        let revocation = revocation.clone();
        let (egress, origin) = (self.egress.clone(), Arc::new(origin.clone()));
        let tls = origin.is_https().then(|| self.shown(node)).transpose()?;
        let node: Arc<str> = node.into();
        let _on = self.runtime.enter();
        Ok(Line::spread(move || {
            let (egress, origin, tls) = (egress.clone(), Arc::clone(&origin), tls.clone());
            let (node, revocation) = (Arc::clone(&node), revocation.clone());
            Box::pin(async move {
                let dialled = dial(&egress, &origin, tls, &revocation).await;
                // A caller is told no more than that it cannot be reached.
                let told = |error: &EgressError| tracing::warn!(%node, %error, "node not reached");
                dialled.inspect_err(told).map_err(io::Error::other)
            })
        }))
    }

    /// What is shown to a node, and the name that it must show.
    fn shown(&self, node: &str) -> Result<(Arc<ClientConfig>, ServerName<'static>), Unresolved> {
        let unusable = |why: String| Unresolved::Unusable { node: node.to_owned(), why };
        let none = || unusable("this server has no authority for nodes; use `http`".to_owned());
        let tls = self.tls.get().ok_or_else(none)?;
        let name = proto::tls::node_server_name(node);
        Ok((Arc::clone(tls), name.map_err(|error| unusable(error.to_string()))?))
    }
}

async fn dial(
    egress: &Egress,
    origin: &Origin,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    revocation: &Revocation,
) -> Result<Box<dyn Duplex>, EgressError> {
    Ok(match tls {
        Some(tls) => {
            let stream = egress.stream_of(origin, tls, CONNECT).await?;
            Box::new(RevocableStream::new(stream, revocation))
        }
        None => Box::new(RevocableStream::new(egress.stream(origin, CONNECT).await?, revocation)),
    })
}
