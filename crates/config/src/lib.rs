//! The configuration: one YAML file, flags and environment variables, resolved into typed values.
//!
//! Loading has five steps: text, YAML tree with positions, variable expansion, sections (`section!`), and the effective
//! [`Config`]. Each step reports all its errors with their positions. An error in a source drops that source; any
//! other error makes the whole configuration unusable.
//!
//! To add a key, add a line to its section in `sections/`.

mod config;
mod config_display;
mod config_error;
mod config_file;
mod config_value;
mod environment;
mod error_collector;
mod file_context;
mod file_discovery;
mod file_text;
mod file_watcher;
mod json_schema;
mod module_services;
mod policy_text;
mod renamed_key;
mod section;
mod sections;
mod unit_parser;
mod value_parsers;
mod variable_expansion;
mod yaml_parser;
mod yaml_tree;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use config::Config;
pub use config_display::{REDACTED, render_config};
pub use config_error::{ConfigError, ConfigErrors, ConfigLocation, ConfigPosition};
pub use environment::Environment;
pub use file_discovery::{CommandOrigin, ConfigDiscovery, trust_file};
pub use file_watcher::{ConfigUpdate, spawn_watcher};
pub use json_schema::render_json_schema;
pub use policy_text::read_policy_text;
pub use sections::{
    AccessTokensConfig, ApprovalsConfig, BuiltinsConfig, CallerSecretsConfig, FileRootConfig,
    IssuerConfig, IssuerSignInConfig, LimitsConfig, McpCommandConfig, McpToolsConfig, NodesConfig,
    OAuthClientAuth, OAuthConfig, PluginsConfig, SearchEngineConfig, ServerConfig, SourceConfig,
    SourceKind, ToolListingConfig, ToolsetConfig, WebhookConfig,
};
pub use unit_parser::parse_call_timeout;

use config_value::ConfigValue;
use error_collector::ErrorCollector;
use file_context::FileContext;
use section::subsection;
use sections::SourceListParser;
use variable_expansion::VariableExpander;
use yaml_tree::{NodeKind, YamlNode};

/// The inputs of a configuration: its file, the flags and the environment.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The file; `None` for the defaults, the flags and the environment alone.
    pub file: Option<PathBuf>,
    /// `--listen`, which overrides the file.
    pub listen: Option<String>,
    /// `--allowed-host`, added to the hosts of the file.
    pub allowed_hosts: Vec<String>,
    /// `--behind-tls`, which the file can also set.
    pub behind_tls: bool,
    /// `--data`, which overrides the file.
    pub data_dir: Option<PathBuf>,
    /// The folder that relative paths of flags begin at, absolute.
    pub current_dir: PathBuf,
    /// The variables of the environment.
    pub environment: Arc<Environment>,
}

/// The result of a load: the usable configuration, and all errors.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// The configuration with all valid sources; `None` where an error lies outside of the sources.
    pub config: Option<Config>,
    /// All errors of the load.
    pub errors: ConfigErrors,
    /// The files that were read, or could not be read.
    pub files: Vec<FileFingerprint>,
}

/// The path of a file, and a hash of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFingerprint {
    /// The path of the file.
    pub path: PathBuf,
    /// The hash of its text, or of the error. It is only comparable within this process.
    pub hash: u64,
}

impl FileFingerprint {
    fn new(path: &Path, text: Result<&str, &ConfigError>) -> Self {
        let mut hasher = DefaultHasher::new();
        text.map_err(|error| &error.message).hash(&mut hasher);
        Self { path: path.to_owned(), hash: hasher.finish() }
    }
}

impl LoadReport {
    /// Lists the environment variables that the result depends on. Those are the ones that the files reference, and
    /// `PATH`, which finds programs. Reads the files again.
    pub fn variable_names(&self) -> BTreeSet<String> {
        let files = self.files.iter().filter_map(|file| file_text::read_text(&file.path).ok());
        let mut names: BTreeSet<_> =
            files.flat_map(|text| variable_expansion::find_variable_names(&text)).collect();
        names.insert("PATH".to_owned());
        names
    }

    /// Returns the configuration if it has no error at all.
    ///
    /// # Errors
    /// All errors of the load.
    pub fn into_valid_config(self) -> Result<Config, ConfigErrors> {
        match self.config {
            Some(config) if self.errors.0.is_empty() => Ok(config),
            _ => Err(self.errors),
        }
    }
}

/// The stack of the loading thread, in bytes. The YAML parser takes some 40 KiB a level, and a thread of the runtime
/// has 2 MiB.
const LOADER_STACK_BYTES: usize = 16 << 20;

/// Loads the configuration file and the files it includes. Blocks on the disk.
pub fn load_config(options: &LoadOptions) -> LoadReport {
    let file = options.file.as_deref().unwrap_or(Path::new(""));
    let report = parse_on_thread(file, || load_on_current_thread(options));
    report.unwrap_or_else(|error| failed_report(error, Vec::new()))
}

/// Parses a policy that stands alone: the value of the key `policy` of a configuration file, or a text with this key.
/// Variables are not expanded, and no file is read. Relative paths begin at the folder of `file`, the configuration
/// file that the policy is for.
///
/// # Errors
/// All errors of the text, with their positions in it.
pub fn parse_policy(file: &Path, text: &str) -> Result<policy::Policy, ConfigErrors> {
    parse_on_thread(file, || parse_policy_text(file, text))
        .unwrap_or_else(|error| Err(ConfigErrors::single(error)))
}

/// Runs a parser on a thread with a stack for nested YAML.
fn parse_on_thread<T: Send>(
    file: &Path,
    parse: impl FnOnce() -> T + Send,
) -> Result<T, ConfigError> {
    let parsed = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(LOADER_STACK_BYTES);
        thread.spawn_scoped(scope, parse).ok()?.join().ok()
    });
    parsed.ok_or_else(|| {
        let message = "the configuration parser failed on this file";
        ConfigError::new(file, ConfigPosition::START, message)
    })
}

fn parse_policy_text(file: &Path, text: &str) -> Result<policy::Policy, ConfigErrors> {
    let mut node = yaml_parser::parse_document(file, text).map_err(ConfigErrors::single)?;
    let environment = Arc::new(Environment::default());
    let errors = ErrorCollector::new(file, text);
    let context = FileContext::new(&errors, file.parent().unwrap_or(file), &environment);
    let node = match node.take_value("policy") {
        Some(policy) => policy,
        None if node.kind == NodeKind::Null => YamlNode { kind: NodeKind::Map(Vec::new()), ..node },
        None => node,
    };
    let value = ConfigValue { file: &context, node: &node };
    let keys = value.parse_with(&subsection::<sections::PolicyKeys>());
    let policy = keys.map(|keys| context.compile_policy(keys));
    let errors = errors.into_errors();
    match policy {
        Some(policy) if errors.is_empty() => Ok(policy),
        _ => Err(ConfigErrors(errors)),
    }
}

/// Loads this text as the content of the configuration file, which is not read. Files that it includes are. Blocks on
/// the disk.
pub fn load_config_text(options: &LoadOptions, text: &str) -> LoadReport {
    let file = options.file.as_deref().unwrap_or(Path::new(""));
    let path = options.current_dir.join(file);
    let fingerprint = FileFingerprint::new(&path, Ok(text));
    parse_on_thread(file, || load_text(&fingerprint, text, options))
        .unwrap_or_else(|error| failed_report(error, Vec::new()))
}

fn load_on_current_thread(options: &LoadOptions) -> LoadReport {
    let Some(file) = &options.file else {
        return load_without_file(options);
    };
    let file = options.current_dir.join(file);
    let text = file_text::read_text(&file);
    let fingerprint = FileFingerprint::new(&file, text.as_deref());
    match text {
        Ok(text) => load_text(&fingerprint, &text, options),
        Err(error) => failed_report(error, vec![fingerprint]),
    }
}

/// Loads the defaults, as a file that sets nothing.
fn load_without_file(options: &LoadOptions) -> LoadReport {
    let file = FileFingerprint { path: PathBuf::new(), hash: 0 };
    let report = load_text(&file, "version: 1", options);
    LoadReport { files: Vec::new(), ..report }
}

fn failed_report(error: ConfigError, files: Vec<FileFingerprint>) -> LoadReport {
    LoadReport { config: None, errors: ConfigErrors::single(error), files }
}

fn load_text(fingerprint: &FileFingerprint, text: &str, options: &LoadOptions) -> LoadReport {
    let file = &fingerprint.path;
    let mut files = vec![fingerprint.clone()];
    let mut node = match yaml_parser::parse_document(file, text) {
        Ok(node) => node,
        Err(error) => return failed_report(error, files),
    };
    let environment = &options.environment;
    let errors = ErrorCollector::new(file, text);
    let base_dir =
        if options.file.is_some() { file.parent() } else { Some(options.current_dir.as_path()) };
    let context = FileContext::new(&errors, base_dir.unwrap_or(file), environment);
    node.mark_secrets(false);
    let source_list = node.take_value("sources");
    let toolset_map = node.take_value("toolsets");
    VariableExpander::for_config_file(environment).expand_tree(&mut node, &errors);
    context.report_empty_policy_keys(&node);
    let config = parse_sections(&context, node, options);
    // An error so far makes the configuration unusable; one from here on drops its source or toolset.
    let is_list = source_list
        .as_ref()
        .is_none_or(|node| matches!(node.kind, NodeKind::List(_) | NodeKind::Null));
    let is_usable = errors.error_count() == 0 && is_list;
    let mut sources =
        source_list.and_then(|node| parse_sources(node, &context)).unwrap_or_default();
    let is_known = |service: &SourceConfig| sources.iter().any(|known| known.name == service.name);
    let services = context.module_services();
    let services: Vec<_> = services.into_iter().filter(|service| !is_known(service)).collect();
    sources.extend(services);
    let toolsets = toolset_map.and_then(|node| parse_toolsets(node, &context)).unwrap_or_default();
    sections::report_taken_names(&toolsets, &sources, &errors);
    let notes = ConfigErrors(errors.take_notes());
    let config =
        config.filter(|_| is_usable).map(|config| Config { sources, notes, toolsets, ..config });
    files.extend(context.included.take());
    LoadReport { config, errors: ConfigErrors(errors.into_errors()), files }
}

/// Parses every section but the sources and the toolsets.
fn parse_sections(
    context: &FileContext<'_>,
    mut node: YamlNode,
    options: &LoadOptions,
) -> Option<Config> {
    if node.kind == NodeKind::Null {
        node.kind = NodeKind::Map(Vec::new());
    }
    let value = ConfigValue { file: context, node: &node };
    let file = value.parse_with(&subsection::<config_file::ConfigFile>())?;
    if !value.has_member("version") {
        let help = "write `version: 1` as the first line";
        context.errors.report(ConfigPosition::START, "the key `version` is missing", help);
    }
    Some(context.resolve_config(file, options))
}

fn parse_sources(mut node: YamlNode, context: &FileContext<'_>) -> Option<Vec<SourceConfig>> {
    let expander = VariableExpander::for_config_file(context.environment);
    expander.expand_tree(&mut node, context.errors);
    ConfigValue { file: context, node: &node }.parse_with(&SourceListParser)
}

fn parse_toolsets(mut node: YamlNode, context: &FileContext<'_>) -> Option<Vec<ToolsetConfig>> {
    let expander = VariableExpander::for_config_file(context.environment);
    expander.expand_tree(&mut node, context.errors);
    ConfigValue { file: context, node: &node }.parse_with(&sections::toolsets())
}

#[cfg(test)]
mod tests;
