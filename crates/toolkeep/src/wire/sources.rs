//! From a source's configuration to the source.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use builtins::BuiltinSource;
use guard::egress::{Egress, EgressError, EgressSettings};
use guard::process::{EnvValue, Launcher, Spec};
use intake::Sourced;
use tool::{Clock, Secret, Source, SourceName, Trust};
use upstreams::mcp::{HttpEndpoint, Marked, Marks, McpSource, Stdio};
use upstreams::module::{Module, ModuleOptions};
use upstreams::tool_file::{Handlers, ToolFile};

use super::unusable::Unusable;
use crate::config::{Config, McpCommand, SourceConfig, SourceKind, Tools};

/// How often a module is asked for its manifest: one that dies is a line in `source list` that soon.
const MODULE_POLL: Duration = Duration::from_secs(15);

/// What sources are made with.
#[derive(Debug)]
pub(super) struct Workshop {
    launcher: Launcher,
    egress: Egress,
    clock: Arc<dyn Clock>,
}

impl Workshop {
    pub(super) fn new(launcher: Launcher, clock: Arc<dyn Clock>) -> Result<Self, EgressError> {
        Ok(Self { launcher, egress: Egress::new(EgressSettings::default())?, clock })
    }

    /// All sources. The built-ins come first, so that nothing can take their names.
    pub(super) fn build(&self, config: &Config) -> Vec<Sourced> {
        let builtins = Sourced {
            source: Arc::new(BuiltinSource::new(Arc::clone(&self.clock))),
            kind: "builtin",
            trust: Trust::Full,
            poll: None,
            fingerprint: 0,
        };
        let configured = config.sources.iter().map(|source| self.source(source));
        std::iter::once(builtins).chain(configured).collect()
    }

    fn source(&self, config: &SourceConfig) -> Sourced {
        let name = config.name.clone();
        let (source, kind, poll): (Arc<dyn Source>, _, _) = match &config.kind {
            SourceKind::ToolFile(path) => {
                let internals = Arc::new(HashMap::new());
                let handlers = Handlers { clock: Arc::clone(&self.clock), internals };
                (Arc::new(ToolFile::new(name, path, handlers)), "tool_file", None)
            }
            SourceKind::Module(url) => {
                (self.module(url.as_str(), config), "module", Some(MODULE_POLL))
            }
            SourceKind::McpCommand(command) => {
                let dial = Arc::new(Stdio::new(self.launcher.clone(), spec(command)));
                (Arc::new(McpSource::pipes(name, mcp(config), dial)), "mcp", None)
            }
            SourceKind::McpUrl { url, headers } => {
                let endpoint = HttpEndpoint::new(url, headers.clone(), self.egress.clone());
                (Arc::new(McpSource::http(name, mcp(config), endpoint)), "mcp", None)
            }
        };
        Sourced { source, kind, trust: config.trust, poll, fingerprint: fingerprint(config) }
    }

    /// A module whose address cannot be used is a source that says so, not a reason to stop.
    fn module(&self, url: &str, config: &SourceConfig) -> Arc<dyn Source> {
        match Module::new(module_options(url, config), self.egress.clone()) {
            Ok(module) => Arc::new(module),
            Err(error) => Arc::new(Unusable::new(config.name.clone(), url, &error.to_string())),
        }
    }
}

fn module_options(url: &str, config: &SourceConfig) -> ModuleOptions {
    ModuleOptions {
        slow: config.slow,
        token: config.credential.clone(),
        timeout: Some(config.timeout),
        read_only: config.read_only == Tools::All,
        idempotent: config.idempotent == Tools::All,
        ..ModuleOptions::new(config.name.clone(), url)
    }
}

fn mcp(config: &SourceConfig) -> upstreams::mcp::Options {
    let marks = Marks {
        read_only: marked(&config.read_only),
        idempotent: marked(&config.idempotent),
        timeout: Some(config.timeout),
        ..Marks::default()
    };
    upstreams::mcp::Options { marks, ..upstreams::mcp::Options::default() }
}

fn marked(tools: &Tools) -> Marked {
    match tools {
        Tools::All => Marked::All,
        Tools::Named(names) if names.is_empty() => Marked::None,
        Tools::Named(names) => Marked::Names(names.clone()),
    }
}

fn spec(command: &McpCommand) -> Spec {
    Spec {
        command: command.command.clone(),
        args: command.args.iter().map(|arg| arg.open().to_owned()).collect(),
        env: command.env.iter().map(|(k, v)| (k.clone(), EnvValue::Secret(v.clone()))).collect(),
        cwd: Some(command.cwd.clone()),
        clear_env: false,
    }
}

/// The bearer tokens, by source.
pub(super) fn secrets(config: &Config) -> HashMap<SourceName, Secret> {
    let pair = |s: &SourceConfig| Some((s.name.clone(), s.credential.clone()?));
    config.sources.iter().filter_map(pair).collect()
}

/// Changes with anything that the source is made of, its secrets included.
fn fingerprint(config: &SourceConfig) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Everything but secrets shows in Debug; where it is written does not make it another source.
    let SourceConfig { kind, slow, trust, durability, read_only, idempotent, timeout, .. } = config;
    format!("{kind:?}{slow}{trust:?}{durability:?}{read_only:?}{idempotent:?}{timeout:?}").hash(&mut hasher);
    config.credential.as_ref().map(Secret::open).hash(&mut hasher);
    match &config.kind {
        SourceKind::McpCommand(command) => {
            command.args.iter().for_each(|arg| arg.open().hash(&mut hasher));
            command.env.iter().for_each(|(_, value)| value.open().hash(&mut hasher));
        }
        SourceKind::McpUrl { headers, .. } => {
            headers.iter().for_each(|(_, value)| value.open().hash(&mut hasher));
        }
        SourceKind::ToolFile(_) | SourceKind::Module(_) => {}
    }
    hasher.finish()
}
