//! From a source's configuration to the source.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use builtins::{BuiltinSource, Cages, Endpoint, Endpoints, Engine, Ruff};
use builtins_llm::Language;
use egress::Egress;
use intake::Sourced;
use oauth_client::Means;
use programs::Programs;
use sandbox::process::{EnvValue, Launcher, Spec};
use source_layers::ToolSelection;
use source_layers::{Redacted, Retrying};
use source_mcp::{Bounds, Marks, McpSource, Stdio};
use source_modules::{Manifests, Module, ModuleOptions};
use source_tool_files::{Handlers, Host, Internals, OwnTools, ToolFile, Web};
use store::RejectedRow;
use tokio::sync::watch;
use tool::artefact::Artefacts;
use tool::ledger::Records;
use tool::{Clock, Problem, Secret, Source, SourceName, Store, Trust};

use super::cluster::Cluster;
use super::credentials::Held;
use super::endpoint;
use super::files::{self, Own};
use super::internals;
use super::plugged::Plugged;
use super::redaction;
use super::reports::{self, ConfigurationReport};
use super::unusable::Unusable;
use config::{
    BuiltinsConfig, Config, Environment, McpCommand, SearchConfig, SourceConfig, SourceKind, Tools,
};

/// How often a module is asked for its manifest: one that dies is a line in `source list` that soon.
const MODULE_POLL: Duration = Duration::from_secs(15);

/// What sources are made with.
pub(crate) struct Workshop {
    pub(crate) launcher: Launcher,
    pub(crate) egress: Egress,
    pub(crate) files: Own,
    pub(crate) cages: Arc<Cages>,
    /// The tools that compare texts, with the one worker of their model.
    pub(crate) language: Language,
    pub(crate) manifests: Arc<Manifests>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) environment: Arc<Environment>,
    /// What `internal` tools read.
    pub(crate) records: Arc<dyn Records>,
    /// What is wrong with the configuration.
    pub(crate) report: Arc<ConfigurationReport>,
    /// Rows of the store that do not count.
    pub(crate) rejected: watch::Receiver<Vec<RejectedRow>>,
    /// Where tokens are kept; it seals them.
    pub(crate) tokens: Arc<dyn Store>,
    /// Where large answers are kept.
    pub(crate) artefacts: Option<Arc<dyn Artefacts>>,
    /// The tools of nodes.
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) programs: Arc<Programs>,
    /// Folders of tools.
    pub(crate) plugged: Arc<Plugged>,
}

/// What tool files may name of this installation.
struct Installed {
    tools: OwnTools,
    categories: Arc<[String]>,
    /// Of the built-in tools.
    fingerprint: u64,
}

impl Workshop {
    /// All sources, in the order in which they have short names: what the operator wrote, the built-in tools, and
    /// nodes, which register themselves and must not come into the place of a tool that is here.
    pub(crate) fn build(&self, config: &Config) -> Vec<Sourced> {
        let means = builtins::Means {
            files: files::of(config, &self.files),
            egress: Some(self.egress.clone()),
            artefacts: self.artefacts.clone(),
            cages: Some(Arc::clone(&self.cages)),
            endpoints: endpoints(&config.builtins),
            ruff: Some(Ruff::among(&self.cages, self.programs())),
            narrowings: config.builtins.tools.clone(),
        };
        let computing = builtins_math::all(&self.clock, self.artefacts.clone());
        let solving = builtins_symbolic::all(&self.cages);
        let Language { tools, problem, .. } = &self.language;
        // Their descriptions say which model answers.
        let model = tools.first().map(|builtin| builtin.tool.description.clone());
        let builtins = BuiltinSource::new(&self.clock, &means).with(computing).with(tools.clone());
        let builtins = builtins.with_problems(problem.clone());
        let builtins = builtins.with_caged(solving).with_caged(programs::tools(&self.programs));
        let installed = Installed {
            tools: Arc::new(builtins.installed()),
            categories: config.policy.rules().own_categories.as_slice().into(),
            // A policy's folders are the tools' folders.
            fingerprint: hashed(&(
                format!("{:?}", config.builtins),
                format!("{:?}", config.policy.rules().scopes),
                model,
            )),
        };
        let builtins = Sourced {
            source: Arc::new(builtins),
            kind: tool::name::BUILTIN,
            trust: Trust::Full,
            durability: None,
            poll: None,
            fingerprint: installed.fingerprint,
        };
        let configured = config.sources.iter().map(|source| self.source(source, &installed));
        let reported = self.report.sourced();
        let rejected = reports::of_store(&self.rejected.borrow());
        let cache = reports::of_cache(self.manifests.outage().borrow().as_ref());
        let plugins = self.plugged.sourced(config);
        configured
            .chain(plugins)
            .chain(reported)
            .chain(rejected)
            .chain(cache)
            .chain(std::iter::once(builtins))
            .chain(self.cluster.sourced())
            .collect()
    }

    /// Folders with programs: our own first, then the environment's.
    fn programs(&self) -> impl Iterator<Item = PathBuf> {
        let own = self.files.data.join(builtins::RUFF);
        let path = self.environment.get("PATH").unwrap_or_default();
        std::iter::once(own).chain(std::env::split_paths(path).collect::<Vec<_>>())
    }

    fn source(&self, config: &SourceConfig, installed: &Installed) -> Sourced {
        let name = config.name.clone();
        let (source, kind): (Arc<dyn Source>, _) = match &config.kind {
            SourceKind::ToolFile(path) => {
                let host = self.plugged.beside(&name, path) as Arc<dyn Host>;
                let internals = internals::all(&self.records);
                let own = FileTools {
                    internals,
                    own: Arc::clone(&installed.tools),
                    categories: Arc::clone(&installed.categories),
                    host,
                };
                let handlers = handlers(&self.clock, &self.egress, &self.environment, own);
                (Arc::new(ToolFile::new(name, path, handlers)), "tool_file")
            }
            SourceKind::Module(url) => (self.module(url.as_str(), config), "module"),
            SourceKind::McpCommand(command) => {
                let dial = Arc::new(Stdio::new(self.launcher.clone(), spec(command)));
                (Arc::new(McpSource::pipes(name, mcp(config), dial)), "mcp")
            }
            SourceKind::McpUrl { .. } => (self.mcp(config), "mcp"),
        };
        let redaction = redaction::of(config);
        let source: Arc<dyn Source> =
            if redaction.is_empty() { source } else { Arc::new(Redacted::new(source, redaction)) };
        let source = if config.retry { Arc::new(Retrying::new(source)) } else { source };
        let (trust, durability, poll) =
            (config.trust, config.durability, poll_interval(&config.kind));
        let fingerprint = match &config.kind {
            // Its tools may be built-in ones.
            SourceKind::ToolFile(_) => {
                let categories = installed.categories.as_ref();
                hashed(&(config.fingerprint(), installed.fingerprint, categories))
            }
            _ => config.fingerprint(),
        };
        Sourced { source, kind, trust, durability, poll, fingerprint }
    }

    fn mcp(&self, config: &SourceConfig) -> Arc<dyn Source> {
        let means = Means {
            egress: self.egress.clone(),
            store: Some(Arc::clone(&self.tokens)),
            clock: Arc::clone(&self.clock),
        };
        match endpoint::of(config, means) {
            Ok(http) => {
                let http = http.with_redaction(redaction::of(config));
                Arc::new(McpSource::http(config.name.clone(), mcp(config), http))
            }
            Err(problem) => Arc::new(Unusable::new(config.name.clone(), problem)),
        }
    }

    /// A module whose address cannot be used is a source that says so, not a reason to stop.
    fn module(&self, url: &str, config: &SourceConfig) -> Arc<dyn Source> {
        match Module::new(module_options(url, config), self.egress.clone()) {
            Ok(module) => Arc::new(module.kept(Arc::clone(&self.manifests))),
            Err(error) => {
                // Without its query: a secret may stand there.
                let place = url.split(['?', '#']).next().unwrap_or_default();
                let problem =
                    Problem::new(place, error.to_string()).fix("mend it in the configuration");
                Arc::new(Unusable::new(config.name.clone(), problem))
            }
        }
    }
}

/// What a tool file may name beside what it writes itself.
pub(crate) struct FileTools {
    /// Handlers of `internal` tools.
    pub(crate) internals: Internals,
    /// The built-in tools.
    pub(crate) own: OwnTools,
    /// Categories of the policy.
    pub(crate) categories: Arc<[String]>,
    /// What runs the code beside the file.
    pub(crate) host: Arc<dyn Host>,
}

/// What the tools of a file may name, whoever reads it.
pub(crate) fn handlers(
    clock: &Arc<dyn Clock>,
    egress: &Egress,
    environment: &Arc<Environment>,
    tools: FileTools,
) -> Handlers {
    let FileTools { internals, own, categories, host } = tools;
    let environment = Arc::clone(environment);
    let secret = Arc::new(move |name: &str| environment.get(name).map(Secret::new));
    let web = Web { egress: egress.clone(), secret };
    let computing = builtins::all(clock).into();
    Handlers { computing, internals, web, host: Some(host), own, categories }
}

fn module_options(url: &str, config: &SourceConfig) -> ModuleOptions {
    ModuleOptions {
        slow: config.slow,
        token: config.credential.clone(),
        timeout: Some(config.timeout),
        read_only: marked(&config.read_only),
        idempotent: marked(&config.idempotent),
        chain: marked(&config.chain),
        ..ModuleOptions::new(config.name.clone(), url)
    }
}

/// Whom the tools of the net ask. Addresses were checked when the configuration was read.
fn endpoints(config: &BuiltinsConfig) -> Endpoints {
    let mut endpoints = Endpoints::default();
    let at = |url: &String| Endpoint::operators(url).ok();
    let search = match &config.search {
        Some(SearchConfig::SearXng(url)) => at(url).map(Engine::SearXng),
        Some(SearchConfig::DuckDuckGo(url)) => at(url).map(Engine::DuckDuckGo),
        None => None,
    };
    if let Some(search) = search {
        endpoints.search = search;
    }
    if let Some(wikipedia) = config.wikipedia.as_ref().and_then(at) {
        endpoints.wikipedia = wikipedia;
    }
    endpoints
}

pub(crate) fn hashed(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn mcp(config: &SourceConfig) -> source_mcp::Options {
    let marks = Marks {
        read_only: marked(&config.read_only),
        idempotent: marked(&config.idempotent),
        chain: marked(&config.chain),
        timeout: Some(config.timeout),
        trust_annotations: config.mcp_tools.trust_annotations,
        destructive: config.mcp_tools.destructive.as_ref().map(marked),
        disabled: config.mcp_tools.disabled.clone(),
        enabled: config.mcp_tools.enabled.clone(),
        ..Marks::default()
    };
    let bounds =
        Bounds { start: config.startup_timeout, message: config.max_message, ..Bounds::default() };
    source_mcp::Options { marks, bounds, ..source_mcp::Options::default() }
}

fn marked(tools: &Tools) -> ToolSelection {
    match tools {
        Tools::All => ToolSelection::All,
        Tools::Named(names) if names.is_empty() => ToolSelection::None,
        Tools::Named(names) => ToolSelection::Names(names.clone()),
    }
}

pub(crate) fn spec(command: &McpCommand) -> Spec {
    Spec {
        command: command.command.clone(),
        args: command.args.iter().map(|arg| arg.open().to_owned()).collect(),
        env: command.env.iter().map(|(k, v)| (k.clone(), EnvValue::Secret(v.clone()))).collect(),
        cwd: Some(command.cwd.clone()),
        clear_env: false,
        cage: None,
    }
}

/// What calls carry, by source.
pub(crate) fn secrets(config: &Config) -> HashMap<SourceName, Held> {
    let pair = |source: &SourceConfig| {
        let held = match &source.kind {
            SourceKind::McpUrl { per_caller: Some(each), .. } => Held::Each(each.values.clone()),
            _ => Held::All(source.credential.clone()?),
        };
        Some((source.name.clone(), held))
    };
    config.sources.iter().filter_map(pair).collect()
}

/// How often a source is listed although it says nothing; `None` for those that tell.
fn poll_interval(kind: &SourceKind) -> Option<Duration> {
    match kind {
        SourceKind::Module(_) => Some(MODULE_POLL),
        SourceKind::ToolFile(_) | SourceKind::McpCommand(_) | SourceKind::McpUrl { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{SourceKind, poll_interval};

    #[test]
    fn a_module_is_listed_as_often_as_the_guide_says() {
        let interval = poll_interval(&SourceKind::Module("http://127.0.0.1:1".parse().unwrap()));
        let seconds = interval.unwrap().as_secs();
        let guide = include_str!("../../../docs/guide/modules.md");
        assert!(guide.contains(&format!("every {seconds} seconds")), "{seconds}");
        // The control: a tool file is watched, and not listed again for nothing.
        assert_eq!(poll_interval(&SourceKind::ToolFile("tools.yaml".into())), None);
    }
}
