//! The configuration: one YAML file, the flags and the environment, resolved into typed values.
//!
//! It is read in steps: text, tree with places, variables filled in, sections ([`section`]), and with the flags and the
//! environment the [`Config`]. Every step reports all the faults it finds, each with its place. A fault
//! in a source leaves that source out; a fault anywhere else leaves nothing to be used.
//!
//! To add a key, add a line to its section in `sections/`.

mod config;
mod context;
mod environment;
mod fault;
mod file;
mod location;
mod module_services;
mod node;
mod parsers;
mod schema;
mod section;
mod sections;
mod shown;
mod sink;
mod text;
mod units;
mod value;
mod vars;
mod watch;
mod yaml;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use config::Config;
pub use environment::Environment;
pub use fault::{Fault, Faults, Place};
pub use location::{Folder, Location, trust};
pub use schema::schema;
pub use sections::{
    ApprovalsConfig, BuiltinsConfig, FolderConfig, IssuerConfig, KubernetesConfig, LimitsConfig,
    McpCommand, McpTools, NodesConfig, OAuthConfig, OAuthProof, PerCallerConfig, PluginsConfig,
    SearchConfig, ServerConfig, SourceConfig, SourceKind, TokensConfig, Tools, WebhookConfig,
};
pub use shown::{HIDDEN, shown};
pub use tool::Durability as SourceDurability;
pub use units::duration;
pub use watch::{Latest, watch};

use context::FileContext;
use node::{Kind, Node};
use section::subsection;
use sections::SourceList;
use sink::Sink;
use value::ConfigValue;
use vars::Variables;

/// What a configuration is made from beside its file.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The file, if any.
    pub file: Option<PathBuf>,
    /// `--listen`: counts before the file's.
    pub listen: Option<String>,
    /// `--allowed-host`: counts beside the file's.
    pub allowed_hosts: Vec<String>,
    /// `--behind-tls`: counts where the file does not say so.
    pub behind_tls: bool,
    /// `--data`: counts before the file's.
    pub data: Option<PathBuf>,
    /// The folder that flags' paths begin at, absolute.
    pub folder: PathBuf,
    /// The environment.
    pub environment: Arc<Environment>,
}

/// What came of reading.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What can be used: all sources that have no fault. `None` where a fault lies outside of them.
    pub config: Option<Config>,
    /// All that is wrong.
    pub faults: Faults,
    /// The files that were read, or should have been.
    pub files: Vec<ReadFile>,
}

/// One file, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFile {
    /// Where it is.
    pub path: PathBuf,
    /// A hash of its text, or of why there is none. Means nothing beyond this process.
    pub print: u64,
}

impl ReadFile {
    fn new(path: &Path, text: Result<&str, &Fault>) -> Self {
        let mut hasher = DefaultHasher::new();
        text.map_err(|fault| &fault.message).hash(&mut hasher);
        Self { path: path.to_owned(), print: hasher.finish() }
    }
}

impl Reading {
    /// Names of the environment variables that the result depends on: those that the files mention, and `PATH`, by
    /// which programs are found. Reads the files again.
    pub fn variables(&self) -> BTreeSet<String> {
        let files = self.files.iter().filter_map(|file| text::read(&file.path).ok());
        let mut names: BTreeSet<_> = files.flat_map(|text| vars::mentioned(&text)).collect();
        names.insert("PATH".to_owned());
        names
    }

    /// The configuration, where nothing at all is wrong.
    ///
    /// # Errors
    /// The faults.
    pub fn whole(self) -> Result<Config, Faults> {
        match self.config {
            Some(config) if self.faults.0.is_empty() => Ok(config),
            _ => Err(self.faults),
        }
    }
}

/// The stack of the thread that reads: the YAML reader takes some 40 KiB a level, and a thread of the
/// runtime has 2 MiB.
const STACK: usize = 16 << 20;

/// Reads the file and what it names. Blocks on the disk.
pub fn read(setting: &Setting) -> Reading {
    let reading = std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK);
        reader.spawn_scoped(scope, || read_here(setting)).ok()?.join().ok()
    });
    reading.unwrap_or_else(|| {
        let file = setting.file.as_deref().unwrap_or(Path::new(""));
        let fault = Fault::new(file, Place::TOP, "the reader broke down on this file");
        Reading { config: None, faults: Faults::one(fault), files: Vec::new() }
    })
}

fn read_here(setting: &Setting) -> Reading {
    let Some(file) = &setting.file else {
        return without_file(setting);
    };
    let file = setting.folder.join(file);
    let text = text::read(&file);
    let read_file = ReadFile::new(&file, text.as_deref());
    match text {
        Ok(text) => of_text(&read_file, &text, setting),
        Err(fault) => Reading { config: None, faults: Faults::one(fault), files: vec![read_file] },
    }
}

/// As a file that says nothing.
fn without_file(setting: &Setting) -> Reading {
    let file = ReadFile { path: PathBuf::new(), print: 0 };
    let reading = of_text(&file, "version: 1", setting);
    Reading { files: Vec::new(), ..reading }
}

fn of_text(read_file: &ReadFile, text: &str, setting: &Setting) -> Reading {
    let file = &read_file.path;
    let mut files = vec![read_file.clone()];
    let mut node = match yaml::parse(file, text) {
        Ok(node) => node,
        Err(fault) => return Reading { config: None, faults: Faults::one(fault), files },
    };
    let environment = &setting.environment;
    let sink = Sink::new(file, text);
    let base = if setting.file.is_some() { file.parent() } else { Some(setting.folder.as_path()) };
    let context = FileContext::new(&sink, base.unwrap_or(file), environment);
    node.hide(false);
    let sources = node.take("sources");
    Variables::ours(environment).fill(&mut node, &sink);
    context.empty_rules(&node);
    let main = read_file_as_whole(&context, node, setting);
    // Up to here nothing may be wrong; from here on only sources drop out.
    let is_list =
        sources.as_ref().is_none_or(|node| matches!(node.kind, Kind::List(_) | Kind::Null));
    let usable = sink.count() == 0 && is_list;
    let mut found = sources.and_then(|node| of_sources(node, &context)).unwrap_or_default();
    let known = |service: &SourceConfig| found.iter().any(|source| source.name == service.name);
    let services: Vec<_> = context.services().into_iter().filter(|it| !known(it)).collect();
    found.extend(services);
    let notes = Faults(sink.take_notes());
    let config = main.filter(|_| usable).map(|config| Config { sources: found, notes, ..config });
    files.extend(context.included.take());
    Reading { config, faults: Faults(sink.into_faults()), files }
}

/// Everything but the sources.
fn read_file_as_whole(
    context: &FileContext<'_>,
    mut node: Node,
    setting: &Setting,
) -> Option<Config> {
    if node.kind == Kind::Null {
        node.kind = Kind::Map(Vec::new());
    }
    let value = ConfigValue { file: context, node: &node };
    let file = value.parse(&subsection::<file::File>())?;
    if !value.has("version") {
        let fix = "write `version: 1` as the first line";
        context.sink.tell(Place::TOP, "the key `version` is missing", fix);
    }
    Some(context.config(file, setting))
}

fn of_sources(mut node: Node, context: &FileContext<'_>) -> Option<Vec<SourceConfig>> {
    Variables::ours(context.environment).fill(&mut node, context.sink);
    ConfigValue { file: context, node: &node }.parse(&SourceList)
}

#[cfg(test)]
mod tests;
