//! Tool source of all built-in tools. Its listing never changes while the program runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tool::{
    Boxed, Clock, Item, Listing, Offer, Problem, Revision, Source, SourceError, SourceName,
};

use crate::{Cages, Means, caged, computing, reaching};
use builtin_manifests::Family;
use tool_manifest::{Builtin, Narrowing};

/// A source that offers every built-in tool whose dependencies are available.
#[derive(Debug)]
pub struct BuiltinSource {
    name: SourceName,
    builtins: Vec<Builtin>,
    /// Tools that need a sandbox.
    caged: Vec<Builtin>,
    cages: Option<Arc<Cages>>,
    narrowings: BTreeMap<String, Narrowing>,
    problems: Vec<Problem>,
}

impl BuiltinSource {
    /// Creates the source `builtin`; `clock` serves the date and time tools.
    pub fn new(clock: &Arc<dyn Clock>, means: &Means) -> Self {
        let registry = Family::General.registry().narrowed(&means.narrowings);
        let mut builtins = computing(&registry, clock);
        builtins.extend(reaching(&registry, means, clock));
        let (mut caged, cages) = (caged(&registry, means, clock), means.cages.clone());
        if let Some(base) = means.files.as_ref().and_then(|files| files.base()) {
            builtins.iter_mut().chain(&mut caged).for_each(|builtin| builtin.begin_in(&base));
        }
        let (narrowings, problems) = (means.narrowings.clone(), Vec::new());
        Self { name: name(), builtins, caged, cages, narrowings, problems }
    }

    /// Adds tools from other crates after its own. Operator restrictions apply to them too.
    #[must_use]
    pub fn with(mut self, more: Vec<Builtin>) -> Self {
        self.builtins.extend(narrowed(more, &self.narrowings));
        self
    }

    /// Adds tools from other crates that run in a sandbox.
    #[must_use]
    pub fn with_caged(mut self, more: Vec<Builtin>) -> Self {
        self.caged.extend(narrowed(more, &self.narrowings));
        self
    }

    /// Adds problems of tools from other crates that are offered nevertheless.
    #[must_use]
    pub fn with_problems(mut self, problems: impl IntoIterator<Item = Problem>) -> Self {
        self.problems.extend(problems);
        self
    }

    /// Returns all tools by name, including those without a usable sandbox: their calls return an
    /// error.
    pub fn installed(&self) -> HashMap<String, Builtin> {
        let all = self.builtins.iter().chain(self.caged.iter().filter(|_| self.cages.is_some()));
        all.map(|builtin| (builtin.tool.name.to_string(), builtin.clone())).collect()
    }

    async fn offers(&self) -> Listing {
        let mut all: Vec<&Builtin> = self.builtins.iter().collect();
        let mut problems = match &self.cages {
            Some(cages) => match cages.tier().await {
                Ok(tier) => {
                    let unfit = Cages::unfit_for_commands(tier);
                    let (fit, not): (Vec<_>, Vec<_>) = self
                        .caged
                        .iter()
                        .partition(|it| unfit.is_none() || it.tool.name.as_str() != "run_shell");
                    all.extend(fit);
                    let fix = "run Toolkeep as a user without rights";
                    withheld(&not, unfit.unwrap_or_default(), fix)
                }
                Err(why) => {
                    withheld(&self.caged.iter().collect::<Vec<_>>(), &why, cages.advice().await)
                }
            },
            None => Vec::new(),
        };
        problems.extend(self.problems.iter().cloned());
        // In the order of the manifest; tools of other crates follow.
        all.sort_by_cached_key(|builtin| Family::General.registry().place(builtin));
        let offer = |builtin: &Builtin| Offer {
            item: Item::Tool(Arc::clone(&builtin.tool)),
            executor: Arc::clone(&builtin.executor),
        };
        let offers = all.into_iter().map(offer).collect();
        Listing { revision: Revision(1), offers, problems, ..Listing::default() }
    }
}

/// Applies the operator's restrictions to tools from other crates.
fn narrowed(more: Vec<Builtin>, by: &BTreeMap<String, Narrowing>) -> impl Iterator<Item = Builtin> {
    more.into_iter().filter_map(|builtin| match by.get(builtin.tool.name.as_str()) {
        Some(by) => by.applied(builtin),
        None => Some(builtin),
    })
}

/// Reports tools that are not offered because no sandbox is available.
fn withheld(builtins: &[&Builtin], why: &str, fix: &str) -> Vec<Problem> {
    let told = |builtin: &&Builtin| Problem {
        place: format!("tool {}", builtin.tool.name),
        message: format!("is not offered: {why}"),
        fix: Some(fix.to_owned()),
    };
    builtins.iter().map(told).collect()
}

#[expect(clippy::expect_used, reason = "the name is a constant, and a test makes the source")]
fn name() -> SourceName {
    SourceName::new(tool::name::BUILTIN).expect("a valid name")
}

impl Source for BuiltinSource {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(async { Ok(self.offers().await) })
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        let now = Revision(1);
        if seen == now {
            Box::pin(std::future::pending())
        } else {
            Box::pin(std::future::ready(now))
        }
    }

    fn lists_at_once(&self) -> bool {
        true
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
