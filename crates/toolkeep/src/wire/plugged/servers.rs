//! MCP servers that plugins are: the session is that of any server over pipes.

use std::sync::Arc;
use std::time::Duration;

use guard::process::{Launcher, Spec};
use plugins::{Server, Servers};
use tool::{Boxed, Json, Listing, Revision, Source, SourceError, SourceName};
use upstreams::mcp::{Bounds, McpSource, Options, Stdio};

/// Starts them as `upstreams` does.
#[derive(Debug)]
pub(crate) struct Caged;

#[derive(Debug)]
struct One(McpSource);

impl Servers for Caged {
    fn server(
        &self,
        name: SourceName,
        (launcher, spec): (Launcher, Spec),
        ready: Duration,
    ) -> Arc<dyn Server> {
        let bounds = Bounds { start: ready, list: ready, ..Bounds::default() };
        let options = Options { bounds, ..Options::default() };
        Arc::new(One(McpSource::pipes(
            name,
            options,
            Arc::new(Stdio::new(launcher, spec).with_plain_arguments()),
        )))
    }
}

impl Server for One {
    fn tried<'a>(
        &'a self,
        own: &'a str,
        args: &'a Json,
    ) -> Boxed<'a, Result<Result<Json, String>, String>> {
        Box::pin(self.0.tried(own, args))
    }
}

impl Source for One {
    fn name(&self) -> &SourceName {
        self.0.name()
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        self.0.list()
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        self.0.changed(seen)
    }

    fn refresh(&self) {
        self.0.refresh();
    }

    fn close(&self) -> Boxed<'_, ()> {
        self.0.close()
    }
}
