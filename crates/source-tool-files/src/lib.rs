//! Tool files as sources: YAML or JSON in the form of spec 2, with Toolkeep's traits.
//!
//! An invalid tool is reported with its line and does not affect the others. Only an unreadable
//! file is an error; the source supervisor then keeps the last valid listing. The file is read at
//! each listing, watched while a change is awaited, and never written.

mod code;
mod definition;
mod document;
mod fields;
mod http;
mod implementation;
mod parameters;
mod permissions;
mod together;
mod traits;
mod watch;

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
use tool::source::SourceFault;
use tool::{
    Boxed, Item, Listing, Offer, Problem, Revision, Source, SourceError, SourceName, Tool, ToolName,
};

use code::Wanted;
pub use code::{Code, Function, Host, Hosted};
use definition::{Definition, Fault};
use document::{Document, Entry};
pub use http::{Secrets, Web};
use implementation::Implementation;
pub use implementation::{Handlers, Internal, Internals, OwnTools};
pub use watch::{DEFAULT_POLL, Watching};
use watch::{Print, Watch};

/// Maximum size of a file: 8 MiB.
pub const MAX_BYTES: u64 = 8 << 20;
/// Maximum tools of one file; the rest is ignored.
pub const MAX_TOOLS: usize = 10_000;
/// Maximum reported problems of one file; the rest is counted.
pub const MAX_PROBLEMS: usize = 200;

/// Permits for parallel reads.
static READERS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(thread::available_parallelism().map_or(2, NonZero::get)));
/// Maximum time that a read waits for a permit.
const TURN: Duration = Duration::from_millis(500);

/// Source that reads one tool file.
#[derive(Debug)]
pub struct ToolFile {
    name: SourceName,
    path: Arc<Path>,
    handlers: Handlers,
    watch: Watch,
    /// Revision of the code that was listed last; 0 without code.
    code: AtomicU64,
}

impl ToolFile {
    /// Creates a source for the file at `path`: JSON if it ends in `.json`, else YAML. It need not
    /// exist yet.
    pub fn new(name: SourceName, path: impl Into<PathBuf>, handlers: Handlers) -> Self {
        Self::watched(name, path, handlers, Watching::default())
    }

    /// Creates a source with options for change detection.
    pub fn watched(
        name: SourceName,
        path: impl Into<PathBuf>,
        handlers: Handlers,
        watching: Watching,
    ) -> Self {
        let path: Arc<Path> = path.into().into();
        let watch = Watch::new(Arc::clone(&path), watching);
        Self { name, path, handlers, watch, code: AtomicU64::new(0) }
    }

    async fn read(&self) -> Result<Listing, SourceError> {
        // Limits parallel reads to the number of cores. A hanging disk does not block other files,
        // because a read proceeds without a permit after a while.
        let turn = tokio::time::timeout(TURN, READERS.acquire()).await;
        // Read before the file: later changes get a later revision.
        let revision = self.watch.revision();
        let (path, handlers) = (Arc::clone(&self.path), self.handlers.clone());
        let read = tokio::task::spawn_blocking(move || {
            let print = Print::of(&path);
            (print, list(&path, &handlers, revision))
        });
        let read = read.await;
        drop(turn);
        let Ok((print, listing)) = read else {
            let place = self.path.display().to_string();
            let problem = Problem::new(place, "reading it was given up");
            return Err(SourceError { kind: SourceFault::Failed, problem });
        };
        self.watch.listed(print);
        let (mut listing, wanted) = listing?;
        let mut code = 0;
        if let Some(host) = self.handlers.host.as_ref().filter(|_| !wanted.is_empty()) {
            code = code::hosted(host.as_ref(), &mut listing, wanted).await;
        }
        self.code.store(code, Ordering::Relaxed);
        listing.revision.0 += code;
        Ok(listing)
    }

    /// Waits for a change of the file or its code. Both revisions only grow, and so does their sum.
    async fn news(&self, seen: Revision) -> Revision {
        let code = self.code.load(Ordering::Relaxed).min(seen.0);
        let file = Revision(seen.0 - code);
        let host = self.handlers.host.as_ref().filter(|_| code > 0);
        let changed = async {
            match host {
                Some(host) => host.changed(code).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            file = self.watch.changed(file) => Revision(file.0 + code),
            code = changed => Revision(file.0 + code),
        }
    }
}

impl Source for ToolFile {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(self.read())
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        Box::pin(self.news(seen))
    }

    fn tells_when_mended(&self) -> bool {
        true
    }

    fn lists_at_once(&self) -> bool {
        true
    }

    fn close(&self) -> Boxed<'_, ()> {
        self.watch.close();
        if let Some(host) = &self.handlers.host {
            host.close();
        }
        Box::pin(std::future::ready(()))
    }
}

fn list(
    path: &Path,
    handlers: &Handlers,
    revision: Revision,
) -> Result<(Listing, Wanted), SourceError> {
    let place = path.display().to_string();
    let text = read(path, &place)?;
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let document = Document::read(&text, is_json, &place)
        .map_err(|problem| SourceError { kind: SourceFault::Malformed, problem: *problem })?;
    let listing = Listing { revision, ..Listing::default() };
    Ok(Register { place, listing, wanted: Vec::new(), dropped: 0 }.fill(document, handlers))
}

fn read(path: &Path, place: &str) -> Result<Bytes, SourceError> {
    let fault = |kind, message: String, fix: &str| SourceError {
        kind,
        problem: Problem::new(place, message).fix(fix),
    };
    let unreadable = |error: &std::io::Error| {
        let fix = "check the path and the rights of the file, or take it out of the configuration";
        fault(SourceFault::Unreachable, format!("the tool file cannot be read: {error}"), fix)
    };
    rooted_fs::files::read(path, MAX_BYTES).map(Bytes::from).map_err(|error| match error.kind() {
        ErrorKind::IsADirectory | ErrorKind::InvalidInput => {
            let message = "the tool file is no regular file".to_owned();
            fault(SourceFault::Unreachable, message, "name a regular file")
        }
        ErrorKind::FileTooLarge => {
            let message = format!("the tool file is longer than {MAX_BYTES} bytes");
            fault(SourceFault::Malformed, message, "split it into several tool files")
        }
        _ => unreadable(&error),
    })
}

/// Builder that adds tools one after the other, as spec 2 registers them.
struct Register {
    place: String,
    listing: Listing,
    /// Tools that need executors of the code host.
    wanted: Wanted,
    dropped: usize,
}

impl Register {
    fn fill(mut self, document: Document, handlers: &Handlers) -> (Listing, Wanted) {
        let mut names = HashSet::new();
        let Document { entries, count, settings } = document;
        let read = |entry: &Entry| Definition::read(entry, &settings, handlers);
        for (entry, definition) in entries.iter().zip(together::each(&entries, read)) {
            let place = self.place_of(entry, &definition.name);
            for note in definition.notes {
                self.problem(&place, note);
            }
            match definition.offer {
                Err(fault) => self.problem(&place, fault),
                Ok((tool, implementation)) => {
                    if names.insert(tool.name.clone()) {
                        self.offer(place, tool, implementation);
                    } else {
                        self.problem(&place, already(&tool.name));
                    }
                }
            }
        }
        self.close(count)
    }

    fn offer(&mut self, place: String, tool: Tool, implementation: Implementation) {
        if let Some(function) = implementation.code {
            let code = Code::of(&tool, function);
            self.wanted.push((self.listing.offers.len(), place, code));
        }
        let (item, executor) = (Item::Tool(Arc::new(tool)), implementation.executor);
        self.listing.offers.push(Offer { item, executor });
    }

    fn place_of(&self, entry: &Entry, name: &str) -> String {
        let file = &self.place;
        let name: String = name.chars().take(64).collect();
        match name.as_str() {
            "" => format!("{file}:{}", entry.line),
            name => format!("{file}:{} tool `{}`", entry.line, name.escape_debug()),
        }
    }

    fn problem(&mut self, place: &str, fault: Fault) {
        if self.listing.problems.len() >= MAX_PROBLEMS {
            self.dropped += 1;
            return;
        }
        let Fault { message, fix } = fault;
        self.listing.problems.push(Problem { place: place.to_owned(), message, fix });
    }

    fn close(mut self, count: usize) -> (Listing, Wanted) {
        let mut last = |message: String, fix: &str| {
            self.listing.problems.push(Problem::new(self.place.as_str(), message).fix(fix));
        };
        if self.dropped > 0 {
            last(format!("{} more problems", self.dropped), "mend those above first");
        }
        if count > MAX_TOOLS {
            let message = format!("{count} tools; only the first {MAX_TOOLS} are read");
            last(message, "split it into several tool files");
        }
        (self.listing, self.wanted)
    }
}

fn already(name: &ToolName) -> Fault {
    let fix = "rename one of the two; the first stays";
    Fault::new(format!("Tool {name} already registered")).fix(fix)
}
