//! HTTP modules of spec 0: `GET /manifest` tells their tools, `POST /execute` runs one.
//!
//! A module speaks only for itself: its tools stand under the name the operator gave it, whatever its
//! manifest says, and whose call it is comes from the caller's credential alone. Every request goes
//! through guard, to the configured origin and no other.

mod execute;
mod line;
mod manifest;
mod schema;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use guard::egress::{Egress, EgressError};
use tool::source::SourceFault;
use tool::{Boxed, Listing, Problem, Revision, Secret, Source, SourceError, SourceName};

use execute::Execute;
use line::Line;

/// Time to answer with a manifest.
pub const MANIFEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to run a tool.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// The same for a slow module.
pub const SLOW_TIMEOUT: Duration = Duration::from_mins(2);
/// Largest manifest and largest answer: 10 MiB.
pub const MAX_BYTES: usize = 10 << 20;
/// Bytes shown of a body that came with another status than 200.
pub const SHOWN_BYTES: usize = 2 << 10;

/// What the operator says of a module.
#[derive(Debug, Clone)]
pub struct ModuleOptions {
    /// Its name: all its tools begin with it and a dot.
    pub name: SourceName,
    /// Where it listens, such as `http://research:8000`.
    pub url: String,
    /// Sent as a bearer token.
    pub token: Option<Secret>,
    /// Its tools may run for [`SLOW_TIMEOUT`].
    pub slow: bool,
    /// Another time limit than either.
    pub timeout: Option<Duration>,
    /// None of its tools changes anything. A manifest cannot say so.
    pub read_only: bool,
    /// All its tools may run twice with the effect of once.
    pub idempotent: bool,
}

impl ModuleOptions {
    /// A module at `url` of which nothing is known.
    pub fn new(name: SourceName, url: impl Into<String>) -> Self {
        let url = url.into();
        Self {
            name,
            url,
            token: None,
            slow: false,
            timeout: None,
            read_only: false,
            idempotent: false,
        }
    }

    /// How long one of its tools may run.
    pub fn limit(&self) -> Duration {
        self.timeout.unwrap_or(if self.slow { SLOW_TIMEOUT } else { TIMEOUT })
    }
}

/// A module as a source.
#[derive(Debug)]
pub struct Module {
    line: Arc<Line>,
    last: Mutex<(Revision, Bytes)>,
}

impl Module {
    /// Dials nothing yet.
    ///
    /// # Errors
    /// [`EgressError`] where the URL cannot be used.
    pub fn new(options: ModuleOptions, egress: Egress) -> Result<Self, EgressError> {
        let line = Arc::new(Line::new(options, egress)?);
        Ok(Self { line, last: Mutex::default() })
    }

    async fn read(&self) -> Result<Listing, SourceError> {
        let line = &self.line;
        let fetched = tokio::time::timeout(MANIFEST_TIMEOUT, line.manifest()).await;
        let body = fetched.unwrap_or_else(|_| {
            let seconds = MANIFEST_TIMEOUT.as_secs();
            Err(line.fault(SourceFault::TimedOut, format!("no manifest came within {seconds} s")))
        })?;
        let revision = self.revision(&body);
        let execute = Arc::new(Execute::new(Arc::clone(line)));
        let read = manifest::read(&body, &line.options, execute);
        let (offers, problems) =
            read.map_err(|message| line.fault(SourceFault::Malformed, message))?;
        let place = |problem: Problem| Problem {
            place: format!("{} {}", line.manifest, problem.place).trim_end().to_owned(),
            ..problem
        };
        let problems = problems.into_iter().map(place).collect();
        Ok(Listing { revision, offers, problems, ..Listing::default() })
    }

    /// Grows with each manifest that is another than the last.
    fn revision(&self, body: &Bytes) -> Revision {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 == Revision(0) || last.1 != *body {
            *last = (Revision(last.0.0 + 1), body.clone());
        }
        last.0
    }
}

impl Source for Module {
    fn name(&self) -> &SourceName {
        &self.line.options.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(self.read())
    }

    /// A module cannot tell; it is asked again.
    fn changed(&self, _seen: Revision) -> Boxed<'_, Revision> {
        Box::pin(std::future::pending())
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
