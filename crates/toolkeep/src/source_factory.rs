//! Builds the sources of a configuration.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::stored_listings::StoredListing;
use builtins::{
    BuiltinSource, RuffLinter, SandboxProvider, SearchEngine, WebEndpoint, WebEndpoints,
};
use builtins_llm::LanguageTools;
use egress::EgressClient;
use intake::ConfiguredSource;
use mcp::extensions::AllowedExtensions;
use oauth_client::OAuthDependencies;
use programs::Programs;
use sandbox::process::{CommandSpec, EnvValue, ProcessLauncher};
use source_layers::{RedactedSource, RetrySource};
use source_mcp::{McpSource, ServerLimits, StartMode, StdioConnector, TraitOverrides};
use source_modules::{HttpModuleOptions, HttpModuleSource, ManifestCache};
use source_tool_files::{
    CodeHost, HttpToolDependencies, ImplementationRegistry, InstalledBuiltins, InternalHandlers,
    ToolFileSource,
};
use store::RejectedRow;
use tokio::sync::watch;
use tool::artifact::ArtifactStore;
use tool::ledger::RecordReader;
use tool::{Clock, Problem, Secret, Source, SourceName, SourceTrust, Store};

use super::agent_guides::AGENT_GUIDES;
use super::build_facts::{MCP_KIND, MODULE_KIND, TOOL_FILE_KIND};
use super::file_roots::{self, ServerPaths};
use super::internal_tools;
use super::mcp_endpoint;
use super::node_cluster::NodeCluster;
use super::plugin_sources::PluginSources;
use super::problem_reports::{self, ConfigReport, ProblemSource};
use super::source_redaction;
use super::upstream_credentials::SourceCredential;
use config::{
    BuiltinsConfig, Config, Environment, McpCommandConfig, SearchEngineConfig, SourceConfig,
    SourceKind,
};

/// Interval at which a module's manifest is polled; `source list` shows a failed module after this
/// time.
const MODULE_POLL_INTERVAL: Duration = Duration::from_secs(15);

/// The components that sources are built with.
pub(crate) struct SourceFactory {
    pub(crate) launcher: ProcessLauncher,
    pub(crate) egress: EgressClient,
    pub(crate) server_dirs: ServerPaths,
    pub(crate) sandboxes: Arc<SandboxProvider>,
    /// The tools that compare texts, with the worker of their model.
    pub(crate) language_tools: LanguageTools,
    pub(crate) manifest_cache: Arc<ManifestCache>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) environment: Arc<Environment>,
    /// Records that `internal` tools read.
    pub(crate) records: Arc<dyn RecordReader>,
    /// Problems of the configuration.
    pub(crate) config_report: Arc<ConfigReport>,
    /// Rejected rows of the store.
    pub(crate) rejected_rows: watch::Receiver<Vec<RejectedRow>>,
    /// Encrypted store of upstream tokens.
    pub(crate) token_store: Arc<dyn Store>,
    /// Store of large results.
    pub(crate) artifacts: Option<Arc<dyn ArtifactStore>>,
    /// The tools of nodes.
    pub(crate) node_cluster: Arc<NodeCluster>,
    pub(crate) programs: Arc<Programs>,
    /// Plugin folders as sources.
    pub(crate) plugin_sources: Arc<PluginSources>,
}

/// Tools and categories of this installation that tool files may name.
struct InstalledTools {
    tools: InstalledBuiltins,
    categories: Arc<[String]>,
    /// Fingerprint of the built-in tools.
    fingerprint: u64,
}

impl SourceFactory {
    /// Builds all sources in the order of precedence for short names: configured sources, plugins,
    /// built-in tools, nodes. Nodes register themselves and must not shadow an existing tool.
    pub(crate) fn build_sources(&self, config: &Config) -> Vec<ConfiguredSource> {
        let (builtins, installed) = self.build_builtins(config);
        let builtins = ConfiguredSource::new(
            Arc::new(builtins),
            tool::names::BUILTIN_SOURCE,
            SourceTrust::Full,
            installed.fingerprint,
        );
        let configured = config.sources.iter().map(|source| self.build_source(source, &installed));
        let config_problems = self.config_report.to_source();
        let rejected_rows = problem_reports::store_problems(&self.rejected_rows.borrow());
        let cache_problems =
            problem_reports::cache_problems(self.manifest_cache.watch_outage().borrow().as_ref());
        let plugins = self.plugin_sources.configured_sources(config);
        configured
            .chain(plugins)
            .chain(config_problems)
            .chain(rejected_rows)
            .chain(cache_problems)
            .chain(std::iter::once(builtins))
            .chain(self.node_cluster.node_sources())
            .collect()
    }

    /// Builds one source of a configuration that is not active; `None` if it has none of this name.
    pub(crate) fn build_single_source(
        &self,
        config: &Config,
        name: &SourceName,
    ) -> Option<Arc<dyn Source>> {
        let source = config.sources.iter().find(|source| source.name == *name)?;
        let (_, installed) = self.build_builtins(config);
        Some(self.build_source(source, &installed).source)
    }

    fn build_builtins(&self, config: &Config) -> (BuiltinSource, InstalledTools) {
        let dependencies = builtins::ToolDependencies {
            file_roots: file_roots::open_file_roots(config, &self.server_dirs),
            egress: Some(self.egress.clone()),
            artifacts: self.artifacts.clone(),
            sandboxes: Some(Arc::clone(&self.sandboxes)),
            endpoints: builtin_endpoints(&config.builtins),
            ruff: Some(RuffLinter::in_folders(&self.sandboxes, self.program_dirs())),
            restrictions: config.builtins.tools.clone(),
        };
        let math_tools = builtins_math::math_tools(&self.clock, self.artifacts.clone());
        let symbolic_tools = builtins_symbolic::symbolic_tools(&self.sandboxes);
        let LanguageTools { tools, problem, .. } = &self.language_tools;
        // The description names the model, so a new model changes the fingerprint.
        let model = tools.first().map(|builtin| builtin.tool.description.clone());
        let builtins = BuiltinSource::new(&self.clock, &dependencies)
            .with_tools(math_tools)
            .with_tools(tools.clone());
        let builtins = builtins.with_problems(problem.clone()).with_guides(&AGENT_GUIDES);
        let builtins = builtins
            .with_sandboxed_tools(symbolic_tools)
            .with_sandboxed_tools(programs::program_tools(&self.programs));
        let installed = InstalledTools {
            tools: Arc::new(builtins.tools_by_name()),
            categories: config.policy.document().own_categories.as_slice().into(),
            // The file tools may use the folders of the policy.
            fingerprint: hash_value(&(
                format!("{:?}", config.builtins),
                format!("{:?}", config.policy.document().scopes),
                model,
            )),
        };
        (builtins, installed)
    }

    /// Returns the folders to search for programs: the data directory's first, then those of
    /// `PATH`.
    fn program_dirs(&self) -> impl Iterator<Item = PathBuf> {
        let own = self.server_dirs.data_dir.join(builtins::RUFF_DIR);
        let path = self.environment.get("PATH").unwrap_or_default();
        std::iter::once(own).chain(std::env::split_paths(path).collect::<Vec<_>>())
    }

    fn build_source(&self, config: &SourceConfig, installed: &InstalledTools) -> ConfiguredSource {
        let name = config.name.clone();
        let (source, kind): (Arc<dyn Source>, _) = match &config.kind {
            SourceKind::ToolFile(path) => {
                let code_host =
                    self.plugin_sources.tool_file_code(&name, path) as Arc<dyn CodeHost>;
                let internal_handlers = internal_tools::internal_tools(&self.records);
                let file_tools = ToolFileDependencies {
                    internal_handlers,
                    installed_tools: Arc::clone(&installed.tools),
                    categories: Arc::clone(&installed.categories),
                    code_host,
                };
                let handlers =
                    tool_file_handlers(&self.clock, &self.egress, &self.environment, file_tools);
                (Arc::new(ToolFileSource::new(name, path, handlers)), TOOL_FILE_KIND)
            }
            SourceKind::Module(url) => {
                (self.build_module_source(url.as_str(), config), MODULE_KIND)
            }
            SourceKind::McpCommand(command) => {
                let connector =
                    Arc::new(StdioConnector::new(self.launcher.clone(), process_spec(command)));
                let source = McpSource::with_pipes(name, mcp_options(config), connector);
                (self.with_stored_listing(source, config), MCP_KIND)
            }
            SourceKind::McpUrl { .. } => (self.build_http_mcp_source(config), MCP_KIND),
        };
        let redaction = source_redaction::source_redaction(config);
        let source: Arc<dyn Source> = if redaction.is_empty() {
            source
        } else {
            Arc::new(RedactedSource::new(source, redaction))
        };
        let source = if config.retries_once { Arc::new(RetrySource::new(source)) } else { source };
        let fingerprint = match &config.kind {
            // A tool file may refer to built-in tools.
            SourceKind::ToolFile(_) => {
                let categories = installed.categories.as_ref();
                hash_value(&(config.fingerprint(), installed.fingerprint, categories))
            }
            _ => config.fingerprint(),
        };
        ConfiguredSource {
            source,
            kind,
            trust: config.trust,
            durability: config.durability,
            defer_mode: config.defer_mode,
            poll_interval: poll_interval(&config.kind),
            fingerprint,
        }
    }

    /// Adds the store for the listing of a server that starts with its first call.
    fn with_stored_listing(&self, source: McpSource, config: &SourceConfig) -> Arc<dyn Source> {
        if config.idle_stop.is_none() {
            return Arc::new(source);
        }
        let (store, fingerprint) = (Arc::clone(&self.token_store), config.fingerprint());
        let listing = StoredListing::new(store, config.name.clone(), fingerprint);
        Arc::new(source.with_listing_store(Arc::new(listing)))
    }

    fn build_http_mcp_source(&self, config: &SourceConfig) -> Arc<dyn Source> {
        let dependencies = OAuthDependencies {
            egress: self.egress.clone(),
            store: Some(Arc::clone(&self.token_store)),
            clock: Arc::clone(&self.clock),
        };
        match mcp_endpoint::build_mcp_endpoint(config, dependencies) {
            Ok(http) => {
                let http = http.with_redaction(source_redaction::source_redaction(config));
                let source = McpSource::with_http(config.name.clone(), mcp_options(config), http);
                self.with_stored_listing(source, config)
            }
            Err(problem) => Arc::new(ProblemSource::unavailable(config.name.clone(), problem)),
        }
    }

    /// Builds a module source. An unusable address yields a source that reports the problem.
    fn build_module_source(&self, url: &str, config: &SourceConfig) -> Arc<dyn Source> {
        match HttpModuleSource::new(module_options(url, config), self.egress.clone()) {
            Ok(module) => Arc::new(module.with_manifest_cache(Arc::clone(&self.manifest_cache))),
            Err(error) => {
                // Without the query, which may contain a secret.
                let place = url.split(['?', '#']).next().unwrap_or_default();
                let problem = Problem::new(place, error.to_string())
                    .with_help("correct the URL of the module in the configuration");
                Arc::new(ProblemSource::unavailable(config.name.clone(), problem))
            }
        }
    }
}

/// The implementations that a tool file may refer to.
pub(crate) struct ToolFileDependencies {
    /// Handlers of `internal` tools.
    pub(crate) internal_handlers: InternalHandlers,
    /// The built-in tools.
    pub(crate) installed_tools: InstalledBuiltins,
    /// Categories of the policy.
    pub(crate) categories: Arc<[String]>,
    /// Host of the code in the file's folder.
    pub(crate) code_host: Arc<dyn CodeHost>,
}

/// Builds the registry of implementations for the tools of one file.
pub(crate) fn tool_file_handlers(
    clock: &Arc<dyn Clock>,
    egress: &EgressClient,
    environment: &Arc<Environment>,
    tools: ToolFileDependencies,
) -> ImplementationRegistry {
    let ToolFileDependencies {
        internal_handlers: internals,
        installed_tools: own,
        categories,
        code_host: host,
    } = tools;
    let environment = Arc::clone(environment);
    let secret = Arc::new(move |name: &str| environment.get(name).map(Secret::new));
    let web = HttpToolDependencies { egress: egress.clone(), resolve_secret: secret };
    let builtin_tools = builtins::pure_tools(clock).into();
    ImplementationRegistry {
        computing_builtins: builtin_tools,
        internal_handlers: internals,
        http: web,
        code_host: Some(host),
        installed_builtins: own,
        own_categories: categories,
    }
}

fn module_options(url: &str, config: &SourceConfig) -> HttpModuleOptions {
    HttpModuleOptions {
        is_slow: config.is_slow,
        bearer_token: config.credential.clone(),
        timeout: Some(config.timeout),
        read_only: config.read_only.clone(),
        idempotent: config.idempotent.clone(),
        callable_by_programs: config.callable_by_programs.clone(),
        ..HttpModuleOptions::new(config.name.clone(), url)
    }
}

/// Returns the endpoints of the built-in web tools. The configuration already validated the URLs.
fn builtin_endpoints(config: &BuiltinsConfig) -> WebEndpoints {
    let mut endpoints = WebEndpoints::default();
    let parse_endpoint = |url: &String| WebEndpoint::operator_site(url).ok();
    let search = match &config.search_engine {
        Some(SearchEngineConfig::SearXng(url)) => parse_endpoint(url).map(SearchEngine::SearXng),
        Some(SearchEngineConfig::DuckDuckGo(url)) => {
            parse_endpoint(url).map(SearchEngine::DuckDuckGo)
        }
        None => None,
    };
    if let Some(search) = search {
        endpoints.search_engine = search;
    }
    if let Some(wikipedia) = config.wikipedia_url.as_ref().and_then(parse_endpoint) {
        endpoints.wikipedia = wikipedia;
    }
    endpoints
}

pub(crate) fn hash_value(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn mcp_options(config: &SourceConfig) -> source_mcp::McpOptions {
    let overrides = TraitOverrides {
        read_only: config.read_only.clone(),
        idempotent: config.idempotent.clone(),
        callable_by_programs: config.callable_by_programs.clone(),
        timeout: Some(config.timeout),
        trusts_annotations: config.mcp_tools.trust_annotations,
        destructive: config.mcp_tools.destructive.clone(),
        disabled_tools: config.mcp_tools.disabled_tools.clone(),
        enabled_tools: config.mcp_tools.enabled_tools.clone(),
        ..TraitOverrides::default()
    };
    let limits = ServerLimits {
        start_timeout: config.startup_timeout,
        max_message_bytes: config.max_message_bytes,
        ..ServerLimits::default()
    };
    let start_mode = config
        .idle_stop
        .map_or(StartMode::AtStartup, |idle_stop| StartMode::OnFirstCall { idle_stop });
    let configured = config.mcp_tools.extensions.clone();
    let extensions =
        configured.map_or_else(AllowedExtensions::default, AllowedExtensions::from_methods);
    let defaults = source_mcp::McpOptions::default();
    source_mcp::McpOptions { overrides, limits, start_mode, extensions, ..defaults }
}

pub(crate) fn process_spec(command: &McpCommandConfig) -> CommandSpec {
    CommandSpec {
        command: command.command.clone(),
        args: command.args.iter().map(|arg| arg.expose().to_owned()).collect(),
        env: command.env.iter().map(|(k, v)| (k.clone(), EnvValue::Secret(v.clone()))).collect(),
        cwd: Some(command.working_dir.clone()),
        clear_env: false,
        sandbox: None,
    }
}

/// Returns the credentials for calls, by source.
pub(crate) fn source_credentials(config: &Config) -> HashMap<SourceName, SourceCredential> {
    let pair = |source: &SourceConfig| {
        let credential = match &source.kind {
            SourceKind::McpUrl { per_caller: Some(each), .. } => {
                SourceCredential::PerSubject(each.header_values.clone())
            }
            _ => SourceCredential::Shared(source.credential.clone()?),
        };
        Some((source.name.clone(), credential))
    };
    config.sources.iter().filter_map(pair).collect()
}

/// Returns the poll interval of a source; `None` if the source announces its changes.
fn poll_interval(kind: &SourceKind) -> Option<Duration> {
    match kind {
        SourceKind::Module(_) => Some(MODULE_POLL_INTERVAL),
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
        // The control: a tool file is watched and needs no polling.
        assert_eq!(poll_interval(&SourceKind::ToolFile("tools.yaml".into())), None);
    }
}
