//! A source that cannot be made as it is configured, and says so.

use tool::source::SourceFault;
use tool::{Boxed, Listing, Problem, Revision, Source, SourceError, SourceName};

#[derive(Debug)]
pub(crate) struct Unusable {
    name: SourceName,
    error: SourceError,
}

impl Unusable {
    pub(crate) fn new(name: SourceName, problem: Problem) -> Self {
        Self { name, error: SourceError { kind: SourceFault::Blocked, problem } }
    }
}

impl Source for Unusable {
    fn name(&self) -> &SourceName {
        &self.name
    }
    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(async { Err(self.error.clone()) })
    }
    fn changed(&self, _: Revision) -> Boxed<'_, Revision> {
        Box::pin(std::future::pending())
    }
    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}
