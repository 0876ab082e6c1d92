//! How long somebody waits for the sources of a server that has just started.
//!
//! Nobody waits for a source that it does not need. Where it is not known which one that is, those count that come
//! without a long pause.

use std::time::Duration;

use catalog::{Catalog, State};
use intake::Intake;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cli::door::SourceNeed;

/// The longest that somebody waits for a source that is needed.
const NEEDED: Duration = Duration::from_secs(35);
/// The longest that somebody waits for an overview.
const OVERVIEW: Duration = Duration::from_secs(5);
/// Sources after such a pause are late.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits for what is needed.
pub(super) async fn wait(intake: &Intake, need: SourceNeed<'_>) {
    match need {
        SourceNeed::All => drop(timeout(NEEDED, intake.settled()).await),
        SourceNeed::Overview => overview(intake, |_| false).await,
        SourceNeed::Source(name) => named(intake, |source| source == name, |_| false).await,
        SourceNeed::Tool(name) => {
            let has_it = |catalog: &Catalog| catalog.find(name).is_some();
            let is_of = |source: &str| {
                let rest = name.strip_prefix(source);
                rest.is_some_and(|rest| rest.starts_with(['.', '_']))
            };
            named(intake, is_of, has_it).await;
            // It may be a tool by its short name.
            overview(intake, has_it).await;
        }
    }
}

/// Until no source that fits is starting.
async fn named(intake: &Intake, fits: impl Fn(&str) -> bool, enough: impl Fn(&Catalog) -> bool) {
    let mut numbers = intake.numbers();
    let listed = async {
        loop {
            let catalog = intake.catalog();
            if enough(&catalog) || !starting(&catalog).any(&fits) {
                return;
            }
            if numbers.changed().await.is_err() {
                return;
            }
        }
    };
    drop(timeout(NEEDED, listed).await);
}

/// Until all were listed once, or none came for a while.
async fn overview(intake: &Intake, enough: impl Fn(&Catalog) -> bool) {
    let mut numbers = intake.numbers();
    let end = Instant::now() + OVERVIEW;
    loop {
        let catalog = intake.catalog();
        if enough(&catalog) || starting(&catalog).next().is_none() {
            return;
        }
        let next = end.min(Instant::now() + PAUSE);
        if !matches!(timeout_at(next, numbers.changed()).await, Ok(Ok(()))) {
            return;
        }
    }
}

fn starting(catalog: &Catalog) -> impl Iterator<Item = &str> {
    let starting = catalog.shelves().filter(|shelf| shelf.state == State::Starting);
    starting.map(|shelf| shelf.source.as_str())
}
