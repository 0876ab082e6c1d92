//! A mock source with scripted listings.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tool::source::Consent;
use tool::{Boxed, Listing, Problem, Revision, Source, SourceError, SourceName};

/// The next response of a mock source.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Returns this listing.
    Listing(Listing),
    /// Returns this error.
    Error(SourceError),
    /// Never returns.
    Hang,
    /// Panics, as a bug in a source would.
    Panic,
}

/// A source with a scripted response.
#[derive(Debug)]
pub struct Scripted {
    name: SourceName,
    answer: Mutex<Answer>,
    revision: watch::Sender<u64>,
}

impl Scripted {
    /// Creates a source named `name` with this response.
    ///
    /// # Panics
    /// Panics if the name is invalid.
    pub fn new(name: &str, answer: Answer) -> Self {
        let name = SourceName::new(name).expect("a name");
        Self { name, answer: Mutex::new(answer), revision: watch::Sender::new(1) }
    }

    /// Sets the response and reports a change.
    pub fn set(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
        self.revision.send_modify(|revision| *revision += 1);
    }
}

impl Source for Scripted {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let revision = Revision(*self.revision.borrow());
        Box::pin(async move {
            match answer {
                Answer::Listing(listing) => Ok(Listing { revision, ..listing }),
                Answer::Error(error) => Err(error),
                Answer::Hang => loop {
                    tokio::time::sleep(Duration::from_hours(1)).await;
                },
                Answer::Panic => panic!("a fault in the source"),
            }
        })
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        let mut revision = self.revision.subscribe();
        Box::pin(async move {
            let now = revision.wait_for(|now| *now != seen.0).await.map(|now| *now);
            match now {
                Ok(now) => Revision(now),
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }

    fn consent(&self) -> Option<&dyn Consent> {
        Some(self)
    }
}

/// Redirects to a fixed URL; any answer except `no` is consent.
impl Consent for Scripted {
    fn begin<'a>(&'a self, redirect: &'a str) -> Boxed<'a, Result<String, Problem>> {
        Box::pin(async move { Ok(format!("https://login.example/?to={redirect}")) })
    }

    fn finish<'a>(&'a self, query: &'a str) -> Boxed<'a, Result<(), Problem>> {
        let no = || Problem::new("it", "was not given consent").fix("ask again");
        Box::pin(async move { if query == "no" { Err(no()) } else { Ok(()) } })
    }

    fn forget(&self) -> Boxed<'_, Result<bool, Problem>> {
        Box::pin(async { Ok(true) })
    }
}
