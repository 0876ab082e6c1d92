//! A mock source with scripted listings.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tool::source::ConsentFlow;
use tool::{BoxFuture, Problem, Source, SourceError, SourceListing, SourceName, SourceRevision};

/// The next response of a mock source.
#[derive(Debug, Clone)]
pub enum MockListing {
    /// Returns this listing.
    Listing(SourceListing),
    /// Returns this error.
    Error(SourceError),
    /// Never returns.
    Hang,
    /// Panics, as a bug in a source would.
    Panic,
}

/// A source with a scripted response.
#[derive(Debug)]
pub struct MockSource {
    name: SourceName,
    answer: Mutex<MockListing>,
    revision: watch::Sender<u64>,
}

impl MockSource {
    /// Creates a source named `name` with this response.
    ///
    /// # Panics
    /// Panics if the name is invalid.
    pub fn new(name: &str, answer: MockListing) -> Self {
        let name = SourceName::new(name).expect("a name");
        Self { name, answer: Mutex::new(answer), revision: watch::Sender::new(1) }
    }

    /// Sets the response and reports a change.
    pub fn set_answer(&self, answer: MockListing) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
        self.revision.send_modify(|revision| *revision += 1);
    }
}

impl Source for MockSource {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let revision = SourceRevision(*self.revision.borrow());
        Box::pin(async move {
            match answer {
                MockListing::Listing(listing) => Ok(SourceListing { revision, ..listing }),
                MockListing::Error(error) => Err(error),
                MockListing::Hang => loop {
                    tokio::time::sleep(Duration::from_hours(1)).await;
                },
                MockListing::Panic => panic!("a fault in the source"),
            }
        })
    }

    fn wait_for_change(&self, seen: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        let mut revision = self.revision.subscribe();
        Box::pin(async move {
            let now = revision.wait_for(|now| *now != seen.0).await.map(|now| *now);
            match now {
                Ok(now) => SourceRevision(now),
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn consent_flow(&self) -> Option<&dyn ConsentFlow> {
        Some(self)
    }
}

/// Redirects to a fixed URL; any answer except `no` is consent.
impl ConsentFlow for MockSource {
    fn begin_consent<'a>(&'a self, redirect: &'a str) -> BoxFuture<'a, Result<String, Problem>> {
        Box::pin(async move { Ok(format!("https://login.example/?to={redirect}")) })
    }

    fn finish_consent<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<(), Problem>> {
        let no = || Problem::new("it", "was not given consent").with_help("ask again");
        Box::pin(async move { if query == "no" { Err(no()) } else { Ok(()) } })
    }

    fn revoke_consent(&self) -> BoxFuture<'_, Result<bool, Problem>> {
        Box::pin(async { Ok(true) })
    }
}
