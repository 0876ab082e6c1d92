//! What is wrong with the configuration, shown where all that is wrong is shown: among the sources.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use intake::Sourced;
use tool::{Boxed, Listing, Problem, Revision, Source, SourceError, SourceName, Trust};

use crate::config::{Config, Faults};

#[derive(Debug)]
struct Configuration {
    name: SourceName,
    problems: Vec<Problem>,
}

/// Faults as a source that offers nothing; `None` where there are none.
pub(super) fn told(faults: &Faults) -> Option<Sourced> {
    let name = SourceName::new("configuration").ok().filter(|_| !faults.0.is_empty())?;
    let mut hasher = DefaultHasher::new();
    faults.to_string().hash(&mut hasher);
    let problems = faults.0.iter().map(Problem::from).collect();
    Some(Sourced {
        source: Arc::new(Configuration { name, problems }),
        kind: "configuration",
        trust: Trust::Full,
        durability: None,
        poll: None,
        fingerprint: hasher.finish(),
    })
}

/// Says what of a new configuration counts only after a restart: what differs from that of the start.
pub(super) fn told_of_restart(first: Option<&Config>, now: &Config) {
    let Some(first) = first else { return };
    let mongodb = |config: &Config| config.nodes.mongodb.as_ref().map(|url| url.open().to_owned());
    for (key, stays) in [
        ("listen", first.listen == now.listen),
        ("data", first.data == now.data),
        ("server", first.server == now.server),
        ("limits", first.limits == now.limits),
        ("nodes.mongodb", mongodb(first) == mongodb(now)),
        ("nodes.kubernetes", first.nodes.kubernetes == now.nodes.kubernetes),
        ("records.file", first.record_file == now.record_file),
        ("tool_packages", first.tool_packages == now.tool_packages),
    ] {
        if !stays {
            tracing::warn!(key, "this change counts after a restart of the server");
        }
    }
}

impl Source for Configuration {
    fn name(&self) -> &SourceName {
        &self.name
    }
    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        let problems = self.problems.clone();
        Box::pin(async { Ok(Listing { problems, ..Listing::default() }) })
    }
    fn changed(&self, _: Revision) -> Boxed<'_, Revision> {
        Box::pin(std::future::pending())
    }
    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}
