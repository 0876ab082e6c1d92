//! MCP servers that are plugins, and how long one lives.
//!
//! The session is that of any server over pipes; folder and cage are this crate's.

use std::sync::Arc;

use source_mcp::McpSource;
use tokio_util::sync::DropGuard;
use tool::{Boxed, Context, ExecuteError, Executor, Granted, Source as _, Step};

use crate::folder::Copied;
use crate::version::Maker;

/// A server that belongs to one version. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) server: Arc<McpSource>,
    _end: DropGuard,
}

impl Session {
    /// Keeps `copy`, from which it runs, until it is gone.
    pub(crate) fn new(maker: &Maker, server: Arc<McpSource>, copy: Copied) -> Self {
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
