//! Tool source of all built-in tools. Its listing never changes while the program runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tool::{
    BoxFuture, CatalogItem, Clock, Offer, Problem, Source, SourceError, SourceListing, SourceName,
    SourceRevision,
};

use crate::guide_skills::{Guide, guide_capabilities, guide_offers};
use crate::{
    SandboxProvider, ToolDependencies, build_io_tools, build_pure_tools, build_sandboxed_tools,
};
use builtin_manifests::ToolFamily;
use tool_manifest::{BuiltinTool, ToolRestriction};

/// A source that offers every built-in tool whose dependencies are available.
#[derive(Debug)]
pub struct BuiltinSource {
    name: SourceName,
    plain_tools: Vec<BuiltinTool>,
    /// Tools that need a sandbox.
    sandboxed_tools: Vec<BuiltinTool>,
    sandboxes: Option<Arc<SandboxProvider>>,
    restrictions: BTreeMap<String, ToolRestriction>,
    problems: Vec<Problem>,
    guides: Vec<Guide>,
}

impl BuiltinSource {
    /// Creates the source `builtin`; `clock` serves the date and time tools.
    pub fn new(clock: &Arc<dyn Clock>, dependencies: &ToolDependencies) -> Self {
        let registry = ToolFamily::General.registry().with_restrictions(&dependencies.restrictions);
        let mut builtins = build_pure_tools(&registry, clock);
        builtins.extend(build_io_tools(&registry, dependencies, clock));
        let (mut sandboxed, sandboxes) =
            (build_sandboxed_tools(&registry, dependencies, clock), dependencies.sandboxes.clone());
        if let Some(base) =
            dependencies.file_roots.as_ref().and_then(|files| files.default_folder())
        {
            builtins
                .iter_mut()
                .chain(&mut sandboxed)
                .for_each(|builtin| builtin.set_base_folder(&base));
        }
        let (narrowings, problems) = (dependencies.restrictions.clone(), Vec::new());
        Self {
            name: source_name(),
            plain_tools: builtins,
            sandboxed_tools: sandboxed,
            sandboxes,
            restrictions: narrowings,
            problems,
            guides: Vec::new(),
        }
    }

    /// Adds guides for agents, which are offered as skills.
    #[must_use]
    pub fn with_guides(mut self, guides: &[Guide]) -> Self {
        self.guides.extend_from_slice(guides);
        self
    }

    /// Adds tools from other crates after its own. Operator restrictions apply to them too.
    #[must_use]
    pub fn with_tools(mut self, tools: Vec<BuiltinTool>) -> Self {
        self.plain_tools.extend(restrict_tools(tools, &self.restrictions));
        self
    }

    /// Adds tools from other crates that run in a sandbox.
    #[must_use]
    pub fn with_sandboxed_tools(mut self, tools: Vec<BuiltinTool>) -> Self {
        self.sandboxed_tools.extend(restrict_tools(tools, &self.restrictions));
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
    pub fn tools_by_name(&self) -> HashMap<String, BuiltinTool> {
        let all = self
            .plain_tools
            .iter()
            .chain(self.sandboxed_tools.iter().filter(|_| self.sandboxes.is_some()));
        all.map(|builtin| (builtin.tool.name.to_string(), builtin.clone())).collect()
    }

    async fn list_offers(&self) -> SourceListing {
        let mut all: Vec<&BuiltinTool> = self.plain_tools.iter().collect();
        let mut problems = match &self.sandboxes {
            Some(sandboxes) => match sandboxes.usable_level().await {
                Ok(tier) => {
                    let unfit = SandboxProvider::command_limitation(tier);
                    let (fit, not): (Vec<_>, Vec<_>) = self
                        .sandboxed_tools
                        .iter()
                        .partition(|it| unfit.is_none() || it.tool.name.as_str() != "run_shell");
                    all.extend(fit);
                    let fix = "run Toolkeep as an unprivileged user";
                    unavailable_tools(&not, unfit.unwrap_or_default(), fix)
                }
                Err(why) => unavailable_tools(
                    &self.sandboxed_tools.iter().collect::<Vec<_>>(),
                    &why,
                    sandboxes.fix_hint().await,
                ),
            },
            None => Vec::new(),
        };
        problems.extend(self.problems.iter().cloned());
        // In the order of the manifest; tools of other crates follow.
        all.sort_by_cached_key(|builtin| ToolFamily::General.registry().position_of(builtin));
        let offer = |builtin: &BuiltinTool| Offer {
            item: CatalogItem::Tool(Arc::clone(&builtin.tool)),
            executor: Arc::clone(&builtin.executor),
        };
        let mut offers: Vec<Offer> = all.into_iter().map(offer).collect();
        let initialize_result = (!self.guides.is_empty()).then(guide_capabilities);
        if initialize_result.is_some() {
            offers.extend(guide_offers(&self.guides));
        }
        let revision = SourceRevision(1);
        SourceListing { revision, offers, problems, initialize_result, ..SourceListing::default() }
    }
}

/// Applies the operator's restrictions to tools from other crates.
fn restrict_tools(
    more: Vec<BuiltinTool>,
    by: &BTreeMap<String, ToolRestriction>,
) -> impl Iterator<Item = BuiltinTool> {
    more.into_iter().filter_map(|builtin| match by.get(builtin.tool.name.as_str()) {
        Some(by) => by.restrict_tool(builtin),
        None => Some(builtin),
    })
}

/// Reports tools that are not offered because no sandbox is available.
fn unavailable_tools(builtins: &[&BuiltinTool], why: &str, fix: &str) -> Vec<Problem> {
    let told = |builtin: &&BuiltinTool| Problem {
        location: format!("tool {}", builtin.tool.name),
        message: format!("is not offered: {why}"),
        help: Some(fix.to_owned()),
    };
    builtins.iter().map(told).collect()
}

#[expect(clippy::expect_used, reason = "the name is a constant, and a test makes the source")]
fn source_name() -> SourceName {
    SourceName::new(tool::names::BUILTIN_SOURCE).expect("a valid name")
}

impl Source for BuiltinSource {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(async { Ok(self.list_offers().await) })
    }

    fn wait_for_change(&self, seen: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        let now = SourceRevision(1);
        if seen == now {
            Box::pin(std::future::pending())
        } else {
            Box::pin(std::future::ready(now))
        }
    }

    fn is_listed_locally(&self) -> bool {
        true
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
