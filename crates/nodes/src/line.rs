//! The lines to nodes: one for each address, made when it is first needed.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use guard::egress::{Egress, Origin};
use proto::connect::{Duplex, Line};
use tokio::runtime::Handle;
use tool::node::Unresolved;

use crate::Addresses;

/// Time for one connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Where nodes are and the lines to them.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) addresses: ArcSwap<Addresses>,
    egress: Egress,
    open: Mutex<HashMap<String, (Origin, Line)>>,
    /// Where the lines' tasks live, whoever needs one first.
    runtime: Handle,
}

impl Lines {
    /// Must be called on a runtime that outlives all calls.
    pub(crate) fn new(egress: Egress) -> Self {
        let (addresses, open) = (ArcSwap::default(), Mutex::default());
        Self { addresses, egress, open, runtime: Handle::current() }
    }

    /// The line to a node, as its address is now. One to an address that it no longer has is dropped.
    pub(crate) fn to(&self, node: &str) -> Result<Line, Unresolved> {
        let origin = self.addresses.load().of(node)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, line)) = open.get(node)
            && *at == origin
        {
            return Ok(line.clone());
        }
        let line = self.line(&origin);
        open.insert(node.to_owned(), (origin, line.clone()));
        Ok(line)
    }

    fn line(&self, origin: &Origin) -> Line {
        let (egress, origin) = (self.egress.clone(), Arc::new(origin.clone()));
        let _on = self.runtime.enter();
        Line::new(move || {
            let (egress, origin) = (egress.clone(), Arc::clone(&origin));
            Box::pin(async move {
                let stream = egress.stream(&origin, CONNECT).await.map_err(io::Error::other)?;
                Ok(Box::new(stream) as Box<dyn Duplex>)
            })
        })
    }
}
