//! A source that cannot be built from its configuration; it lists nothing and reports why.

use tool::source::SourceErrorKind;
use tool::{BoxFuture, Problem, Source, SourceError, SourceListing, SourceName, SourceRevision};

#[derive(Debug)]
pub(crate) struct UnavailableSource {
    name: SourceName,
    error: SourceError,
}

impl UnavailableSource {
    pub(crate) fn new(name: SourceName, problem: Problem) -> Self {
        Self { name, error: SourceError { kind: SourceErrorKind::Blocked, problem } }
    }
}

impl Source for UnavailableSource {
    fn name(&self) -> &SourceName {
        &self.name
    }
    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(async { Err(self.error.clone()) })
    }
    fn wait_for_change(&self, _: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        Box::pin(std::future::pending())
    }
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
