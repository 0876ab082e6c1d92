//! The port to MCP servers that plugins are, and how long one lives.
//!
//! What is said to a server, and how it is started anew, is the port's; folder and cage are this crate's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use guard::process::{Launcher, Spec};
use tokio_util::sync::DropGuard;
use tool::{Boxed, Context, ExecuteError, Executor, Granted, Json, Source, SourceName, Step};

use crate::folder::Copied;
use crate::version::Maker;

/// Has MCP servers as sources.
pub trait Servers: Send + Sync + fmt::Debug {
    /// The server that `spec` starts, which may take `ready` to be there. Its tools are listed as
    /// `name.TOOL`, and it is started when it is first listed.
    fn server(
        &self,
        name: SourceName,
        started: (Launcher, Spec),
        ready: Duration,
    ) -> Arc<dyn Server>;
}

/// An MCP server.
pub trait Server: Source {
    /// Calls the tool that the server knows as `own` with nobody behind it: for who writes a plugin.
    /// Answers the tool's answer, or the text of its failure.
    ///
    /// # Errors
    /// Where the server cannot be asked, in words.
    fn tried<'a>(
        &'a self,
        own: &'a str,
        args: &'a Json,
    ) -> Boxed<'a, Result<Result<Json, String>, String>>;
}

/// A server that belongs to one version. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) server: Arc<dyn Server>,
    _end: DropGuard,
}

impl Session {
    /// Keeps `copy`, from which it runs, until it is gone.
    pub(crate) fn new(maker: &Maker, server: Arc<dyn Server>, copy: Copied) -> Self {
        let end = maker.end.child_token();
        let (over, of) = (end.clone(), Arc::clone(&server));
        let closing = async move {
            over.cancelled().await;
            of.close().await;
            drop(copy);
        };
        drop(maker.tasks.spawn_on(closing, &maker.runtime));
        Self { server, _end: end.drop_guard() }
    }
}

/// Runs a call at a server, and holds its version while it does.
#[derive(Debug)]
pub(crate) struct Through {
    inner: Arc<dyn Executor>,
    _session: Arc<Session>,
}

impl Through {
    pub(crate) fn new(inner: Arc<dyn Executor>, session: Arc<Session>) -> Self {
        Self { inner, _session: session }
    }
}

impl Executor for Through {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        self.inner.execute(call, ctx)
    }
}
