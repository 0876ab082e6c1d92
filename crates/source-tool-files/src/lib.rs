//! Tool files as sources: YAML or JSON in the form of the tool-file registry, with Toolkeep's
//! traits.
//!
//! An invalid tool is reported with its line and does not affect the others. Only an unreadable
//! file is an error; the source supervisor then keeps the last valid listing. The file is read at
//! each listing, watched while a change is awaited, and never written.

mod code_tools;
mod document;
mod field_reader;
mod file_watcher;
mod http_tool;
mod implementation;
mod known_entries;
mod parallel_map;
mod parameter_schema;
mod scope_permissions;
mod tool_entry;
mod trait_fields;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tool::source::SourceErrorKind;
use tool::{
    BoxFuture, CatalogItem, Offer, Problem, Source, SourceError, SourceListing, SourceName,
    SourceRevision, Tool, ToolName,
};

use code_tools::PendingCodeTool;
pub use code_tools::{CodeEntryPoint, CodeHost, CodeTool, HostedCode};
use document::{ToolDocument, ToolEntry};
pub use file_watcher::{DEFAULT_POLL_INTERVAL, WatchOptions};
use file_watcher::{FileFingerprint, FileWatcher};
pub use http_tool::{HttpToolDependencies, SecretResolver};
use implementation::FileToolImplementation;
pub use implementation::{
    ImplementationRegistry, InstalledBuiltins, InternalHandler, InternalHandlers,
};
use known_entries::{KnownEntries, KnownEntry, LastReading};
use tool_entry::{EntryError, ParsedEntry};

/// Maximum size of a file: 8 MiB.
pub const MAX_FILE_BYTES: u64 = 8 << 20;
/// Maximum tools of one file; the rest is ignored.
pub const MAX_TOOLS: usize = 10_000;
/// Maximum reported problems of one file; the rest is counted.
pub const MAX_PROBLEMS: usize = 200;

/// Permits for parallel reads.
static READ_PERMITS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(thread::available_parallelism().map_or(2, NonZero::get)));
/// Maximum time that a read waits for a permit.
const READ_QUEUE_TIMEOUT: Duration = Duration::from_millis(500);

/// Source that reads one tool file.
#[derive(Debug)]
pub struct ToolFileSource {
    name: SourceName,
    path: Arc<Path>,
    handlers: ImplementationRegistry,
    watcher: FileWatcher,
    /// Revision of the code that was listed last; 0 without code.
    code_revision: AtomicU64,
    last_reading: Arc<LastReading>,
}

impl ToolFileSource {
    /// Creates a source for the file at `path`: JSON if it ends in `.json`, else YAML. It need not
    /// exist yet.
    pub fn new(
        name: SourceName,
        path: impl Into<PathBuf>,
        handlers: ImplementationRegistry,
    ) -> Self {
        Self::with_watch_options(name, path, handlers, WatchOptions::default())
    }

    /// Creates a source with options for change detection.
    pub fn with_watch_options(
        name: SourceName,
        path: impl Into<PathBuf>,
        handlers: ImplementationRegistry,
        options: WatchOptions,
    ) -> Self {
        let path: Arc<Path> = path.into().into();
        let watch = FileWatcher::new(Arc::clone(&path), options);
        Self {
            name,
            path,
            handlers,
            watcher: watch,
            code_revision: AtomicU64::new(0),
            last_reading: Arc::default(),
        }
    }

    async fn load_listing(&self) -> Result<SourceListing, SourceError> {
        // Limits parallel reads to the number of cores. A hanging disk does not block other files,
        // because a read proceeds without a permit after a while.
        let permit = tokio::time::timeout(READ_QUEUE_TIMEOUT, READ_PERMITS.acquire()).await;
        // Read before the file: later changes get a later revision.
        let revision = self.watcher.current_revision();
        let (path, handlers) = (Arc::clone(&self.path), self.handlers.clone());
        let last = Arc::clone(&self.last_reading);
        let read = tokio::task::spawn_blocking(move || {
            let fingerprint = FileFingerprint::from_path(&path);
            (fingerprint, build_listing(&path, (&handlers, &last), revision))
        });
        let read = read.await;
        drop(permit);
        let Ok((print, listing)) = read else {
            let place = self.path.display().to_string();
            let problem = Problem::new(place, "reading it was cancelled");
            return Err(SourceError { kind: SourceErrorKind::ErrorReply, problem });
        };
        self.watcher.record_fingerprint(print);
        let (mut listing, pending) = listing?;
        let mut code_revision = 0;
        if let Some(host) = self.handlers.code_host.as_ref().filter(|_| !pending.is_empty()) {
            code_revision =
                code_tools::attach_executors(host.as_ref(), &mut listing, pending).await;
        }
        self.code_revision.store(code_revision, Ordering::Relaxed);
        listing.revision.0 += code_revision;
        Ok(listing)
    }

    /// Waits for a change of the file or its code. Both revisions only grow, and so does their sum.
    async fn wait_for_change(&self, seen: SourceRevision) -> SourceRevision {
        let code = self.code_revision.load(Ordering::Relaxed).min(seen.0);
        let file = SourceRevision(seen.0 - code);
        let host = self.handlers.code_host.as_ref().filter(|_| code > 0);
        let changed = async {
            match host {
                Some(host) => host.wait_for_change(code).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            file = self.watcher.wait_for_change(file) => SourceRevision(file.0 + code),
            code = changed => SourceRevision(file.0 + code),
        }
    }
}

impl Source for ToolFileSource {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(self.load_listing())
    }

    fn wait_for_change(&self, seen: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        Box::pin(self.wait_for_change(seen))
    }

    fn notifies_recovery(&self) -> bool {
        true
    }

    fn is_listed_locally(&self) -> bool {
        true
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        self.watcher.close_watch();
        if let Some(host) = &self.handlers.code_host {
            host.shut_down();
        }
        Box::pin(std::future::ready(()))
    }
}

fn build_listing(
    path: &Path,
    (handlers, last): (&ImplementationRegistry, &LastReading),
    revision: SourceRevision,
) -> Result<(SourceListing, Vec<PendingCodeTool>), SourceError> {
    let place = path.display().to_string();
    let text = read_file(path, &place)?;
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let document = ToolDocument::parse_document(&text, is_json, &place).map_err(|problem| {
        SourceError { kind: SourceErrorKind::MalformedReply, problem: *problem }
    })?;
    let listing = SourceListing { revision, ..SourceListing::default() };
    let builder = FileListingBuilder {
        file_location: place,
        listing,
        pending: Vec::new(),
        omitted_problems: 0,
        known: KnownEntries::new(document.settings.clone()),
    };
    let (listing, pending, known) = builder.add_entries(document, (handlers, &last.entries()));
    last.replace(known);
    Ok((listing, pending))
}

fn read_file(path: &Path, place: &str) -> Result<Bytes, SourceError> {
    let source_error = |kind, message: String, fix: &str| SourceError {
        kind,
        problem: Problem::new(place, message).with_help(fix),
    };
    let read_error = |error: &std::io::Error| {
        let fix = "check the path and the permissions of the file, or remove it from the \
            configuration";
        source_error(
            SourceErrorKind::Unreachable,
            format!("cannot read the tool file: {error}"),
            fix,
        )
    };
    rooted_fs::regular_file::read_bytes(path, MAX_FILE_BYTES).map(Bytes::from).map_err(|error| {
        match error.kind() {
            ErrorKind::IsADirectory | ErrorKind::InvalidInput => {
                let message = "the tool file is not a regular file".to_owned();
                source_error(SourceErrorKind::Unreachable, message, "name a regular file")
            }
            ErrorKind::FileTooLarge => {
                let message = format!("the tool file is larger than {MAX_FILE_BYTES} bytes");
                source_error(
                    SourceErrorKind::MalformedReply,
                    message,
                    "split it into several tool files",
                )
            }
            _ => read_error(&error),
        }
    })
}

/// Builder that adds tools one after the other, as the tool-file registry registers them.
struct FileListingBuilder {
    file_location: String,
    listing: SourceListing,
    /// Tools that need executors of the code host.
    pending: Vec<PendingCodeTool>,
    omitted_problems: usize,
    /// Tools for the next reading.
    known: KnownEntries,
}

/// An entry of the last reading, or one that was parsed now.
enum EntryReading<'a> {
    Known(&'a KnownEntry),
    Parsed(Box<ParsedEntry>),
}

impl FileListingBuilder {
    fn add_entries(
        mut self,
        document: ToolDocument,
        (handlers, last): (&ImplementationRegistry, &KnownEntries),
    ) -> (SourceListing, Vec<PendingCodeTool>, KnownEntries) {
        let mut names = HashSet::new();
        let ToolDocument { entries, total_entries: count, settings } = document;
        let read = |entry: &ToolEntry| {
            if let Some(known) = last.find_entry(entry, &settings) {
                return EntryReading::Known(known);
            }
            // The next readings reuse the tool: it must not keep the text of this whole file.
            let own = entry.with_own_text();
            EntryReading::Parsed(Box::new(ParsedEntry::parse_entry(&own, &settings, handlers)))
        };
        for (entry, reading) in entries.iter().zip(parallel_map::map_parallel(&entries, read)) {
            let definition = match reading {
                EntryReading::Known(known) => {
                    self.add_known(entry, known.clone(), &mut names);
                    continue;
                }
                EntryReading::Parsed(definition) => *definition,
            };
            let place = self.entry_location(entry, &definition.name);
            for note in &definition.warnings {
                self.add_problem(&place, note.clone());
            }
            match definition.result {
                Err(fault) => self.add_problem(&place, fault),
                Ok((tool, implementation)) => {
                    if names.insert(tool.name.clone()) {
                        let tool = Arc::new(tool);
                        self.remember_entry(entry, (&tool, &implementation), definition.warnings);
                        self.add_offer(place, tool, implementation);
                    } else {
                        self.add_problem(&place, duplicate_name_error(&tool.name));
                    }
                }
            }
        }
        self.finish_listing(count)
    }

    /// Adds a tool of the last reading.
    fn add_known(&mut self, entry: &ToolEntry, known: KnownEntry, names: &mut HashSet<ToolName>) {
        let is_first = names.insert(known.tool.name.clone());
        if !is_first || !known.warnings.is_empty() {
            let place = self.entry_location(entry, known.tool.name.as_str());
            for note in &known.warnings {
                self.add_problem(&place, note.clone());
            }
            if !is_first {
                return self.add_problem(&place, duplicate_name_error(&known.tool.name));
            }
        }
        let item = CatalogItem::Tool(Arc::clone(&known.tool));
        self.listing.offers.push(Offer { item, executor: Arc::clone(&known.executor) });
        self.known.insert_entry(known);
    }

    fn remember_entry(
        &mut self,
        entry: &ToolEntry,
        (tool, implementation): (&Arc<Tool>, &FileToolImplementation),
        warnings: Vec<EntryError>,
    ) {
        if implementation.is_reusable {
            self.known.insert_entry(KnownEntry {
                mapping_key: entry.mapping_key.clone(),
                tool: Arc::clone(tool),
                executor: Arc::clone(&implementation.executor),
                warnings,
            });
        }
    }

    fn add_offer(
        &mut self,
        place: String,
        tool: Arc<Tool>,
        implementation: FileToolImplementation,
    ) {
        if let Some(function) = implementation.entry_point {
            let code = CodeTool::from_tool(&tool, function);
            let offer_index = self.listing.offers.len();
            self.pending.push(PendingCodeTool { offer_index, location: place, code });
        }
        let (item, executor) = (CatalogItem::Tool(tool), implementation.executor);
        self.listing.offers.push(Offer { item, executor });
    }

    fn entry_location(&self, entry: &ToolEntry, name: &str) -> String {
        let file = &self.file_location;
        match name {
            "" => format!("{file}:{}", entry.line),
            name => format!("{file}:{} tool `{}`", entry.line, field_reader::escape_word(name)),
        }
    }

    fn add_problem(&mut self, place: &str, fault: EntryError) {
        if self.listing.problems.len() >= MAX_PROBLEMS {
            self.omitted_problems += 1;
            return;
        }
        let EntryError { message, help: fix } = fault;
        self.listing.problems.push(Problem { location: place.to_owned(), message, help: fix });
    }

    fn finish_listing(
        mut self,
        count: usize,
    ) -> (SourceListing, Vec<PendingCodeTool>, KnownEntries) {
        let mut add_final_problem = |message: String, fix: &str| {
            self.listing
                .problems
                .push(Problem::new(self.file_location.as_str(), message).with_help(fix));
        };
        if self.omitted_problems > 0 {
            add_final_problem(
                format!("{} more problems", self.omitted_problems),
                "correct the problems above first",
            );
        }
        if count > MAX_TOOLS {
            let message = format!("{count} tools; only the first {MAX_TOOLS} are read");
            add_final_problem(message, "split it into several tool files");
        }
        (self.listing, self.pending, self.known)
    }
}

fn duplicate_name_error(name: &ToolName) -> EntryError {
    let fix = "rename one of the two; the first one is used";
    EntryError::new(format!("Tool {name} already registered")).with_help(fix)
}
