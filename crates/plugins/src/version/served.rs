//! Versions whose tools are those that an MCP server lists. The manifest says what holds for them.

use std::sync::Arc;

use sandbox::process::{EnvValue, Spec};
use serde_json::Value;
use source_mcp::{Bounds, McpSource, Options, Stdio};
use tool::{Item, Listing, Offer, Problem, Revision, Source as _, SourceName, Tool};

use super::plan::Plan;
use super::{Maker, Runs, Version};
use crate::folder::Copied;
use crate::grant::Allowed;
use crate::manifest::{Declared, MOST_TOOLS, Manifest, shown};
use crate::parameters;
use crate::process::Told;
use crate::server::{Session, Through};

/// Most bytes of settings, which a server gets in its environment.
const MOST_SETTINGS: usize = 64 << 10;

/// A server that runs, and what it listed last.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) session: Arc<Session>,
    /// What is known without its list.
    seed: Plan,
    listing: Listing,
}

impl Maker {
    /// Starts the server, and has it list.
    pub(super) async fn serve(
        &self,
        plan: &mut Plan,
        (copy, spec): (Copied, Spec),
    ) -> Result<Served, String> {
        let name = SourceName::new(&plan.manifest.name).map_err(|error| error.to_string())?;
        let ready = self.means.ready;
        let bounds = Bounds { start: ready, list: ready, ..Bounds::default() };
        let options = Options { bounds, ..Options::default() };
        let dial = Stdio::new(self.means.launcher.clone(), spec).with_plain_arguments();
        let server = Arc::new(McpSource::pipes(name, options, Arc::new(dial)));
        let session = Arc::new(Session::new(self, server, copy));
        let listing = listed(&session, self.means.ready).await?;
        let served = Served { session, seed: plan.clone(), listing };
        plan.listed(&served.listing);
        Ok(served)
    }
}

/// What a server lists now.
pub(crate) async fn listed(
    session: &Session,
    limit: std::time::Duration,
) -> Result<Listing, String> {
    match tokio::time::timeout(limit, session.server.list()).await {
        Ok(listing) => listing.map_err(|error| error.problem.message),
        Err(_) => Err(format!("it lists nothing within {} s", limit.as_secs())),
    }
}

impl Version {
    /// The server of it, and which list of it is known.
    pub(crate) fn follows(&self) -> Option<(Arc<Session>, Revision)> {
        let served = self.served.as_ref()?;
        Some((Arc::clone(&served.session), served.listing.revision))
    }

    /// The same version with another list; with the old one and a word where there is none.
    pub(crate) fn again(&self, listing: Result<Listing, String>, now: Revision) -> Option<Self> {
        let served = self.served.as_ref()?;
        let mut plan = served.seed.clone();
        let listing = listing.unwrap_or_else(|why| {
            let place = plan.place.clone();
            plan.problems.push(Problem::new(place, format!("its server does not list: {why}")));
            Listing { revision: now, ..served.listing.clone() }
        });
        plan.listed(&listing);
        let (session, seed) = (Arc::clone(&served.session), served.seed.clone());
        let served = Served { session, seed, listing };
        Some(Maker::finish(plan, self.digest, &self.grant, Some(Runs::Server(Box::new(served)))))
    }
}

impl Served {
    fn tools(listing: &Listing) -> impl Iterator<Item = (&Tool, &Offer)> {
        listing.offers.iter().filter_map(|offer| match &offer.item {
            Item::Tool(tool) => Some((tool.as_ref(), offer)),
            _ => None,
        })
    }

    /// The server's own offer of a tool.
    pub(super) fn offer(&self, manifest: &Manifest, own: &str) -> Option<(&Tool, &Offer)> {
        Self::tools(&self.listing).find(|(tool, _)| of_own(manifest, tool) == own)
    }

    /// An offer that keeps the server as long as it is there.
    pub(super) fn through(&self, offer: &Offer, item: Item) -> Offer {
        let through = Through::new(Arc::clone(&offer.executor), Arc::clone(&self.session));
        Offer { item, executor: Arc::new(through) }
    }

    /// Prompts and resources, as they came.
    pub(super) fn beside(&self) -> Vec<Offer> {
        let others = self.listing.offers.iter();
        let others = others.filter(|offer| !matches!(offer.item, Item::Tool(_)));
        others.map(|offer| self.through(offer, offer.item.clone())).collect()
    }

    pub(super) fn about(&self) -> Option<tool::Json> {
        self.listing.about.clone()
    }
}

/// The name that the server knows.
fn of_own<'a>(manifest: &Manifest, tool: &'a Tool) -> &'a str {
    let name = tool.name.as_str();
    name.get(manifest.name.len() + 1..).unwrap_or(name)
}

impl Plan {
    /// Takes what the server lists: tools that the manifest names must be there and fit, and the others
    /// are offered as tools are of which nothing is said.
    fn listed(&mut self, listing: &Listing) {
        self.problems.extend(listing.problems.iter().cloned());
        let tools: Vec<(String, &Tool)> = Served::tools(listing)
            .map(|(tool, _)| (of_own(&self.manifest, tool).to_owned(), tool))
            .collect();
        let mut told = Vec::new();
        for declared in &mut self.manifest.tools {
            let found = tools.iter().find(|(own, _)| *own == declared.name);
            let wrong = match found {
                None => Some(format!("the server lists no tool `{}`", shown(&declared.name))),
                Some((_, tool)) => taken(declared, tool),
            };
            told.extend(wrong.map(|message| (declared.name.clone(), message)));
        }
        for (name, message) in told {
            self.tell(&Told { tool: Some(name), missing: false, message });
        }
        for (own, tool) in &tools {
            if self.manifest.tools.iter().any(|declared| declared.name == *own) {
                continue;
            }
            if self.manifest.tools.len() >= MOST_TOOLS {
                let told = format!("the server lists more than {MOST_TOOLS} tools");
                self.problems.push(Problem::new(self.place.as_str(), told));
                break;
            }
            let mut declared = Declared::listed(own);
            // Nothing is declared that could not fit.
            let _fits = taken(&mut declared, tool);
            let on = self.settings.overrides.get(own).copied().unwrap_or(true);
            self.off.push((!on).then(|| "it is switched off".to_owned()));
            self.manifest.tools.push(declared);
        }
        self.overridden();
    }
}

/// Fills in what the manifest leaves to the server; what does not fit is told.
fn taken(declared: &mut Declared, tool: &Tool) -> Option<String> {
    if declared.description.is_empty() {
        declared.description.clone_from(&tool.description);
    }
    let server = tool.input.value();
    if declared.parameters.as_str() == "{}" {
        declared.input = server;
        declared.parameters = tool.input.clone();
        return None;
    }
    let (named, required, _) = parameters::names(&declared.input);
    let (takes, wants, open) = parameters::names(&server);
    let extra = named.iter().filter(|name| !open && !takes.contains(name));
    let extra = extra.map(|name| format!("the server's tool has no parameter `{}`", shown(name)));
    let lacking = wants.iter().filter(|name| !required.contains(name));
    let lacking = lacking.map(|name| {
        let verb = if named.contains(name) { "require" } else { "declare" };
        format!("the server's tool wants `{}`, which the manifest does not {verb}", shown(name))
    });
    let told: Vec<_> = extra.chain(lacking).collect();
    (!told.is_empty()).then(|| format!("the manifest does not fit the tool: {}", told.join("; ")))
}

/// What a server is told, which hears no first line: in its environment.
pub(super) fn environment(
    values: &Value,
    allowed: &Allowed,
) -> Result<Vec<(String, EnvValue)>, String> {
    let settings = values.to_string();
    if settings.len() > MOST_SETTINGS {
        return Err(format!("its settings are longer than {MOST_SETTINGS} bytes"));
    }
    let read: Vec<_> = allowed.read.iter().map(|path| path.display().to_string()).collect();
    let write = allowed.write.as_ref().map(|path| path.display().to_string());
    let all = [
        ("TOOLKEEP_SETTINGS", settings),
        ("TOOLKEEP_READ", read.join(":")),
        ("TOOLKEEP_WRITE", write.unwrap_or_default()),
    ];
    Ok(all.map(|(name, value)| (name.to_owned(), value.into())).into())
}
