//! `archive_extract`: extracts files of an archive into a folder below a file root.

use std::collections::HashSet;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::Pattern;
use rooted_fs::roots::{Put, Root};
use serde_json::{Value, json};
use tool::{Args, Json};

use super::archive_open::issue;
use super::opened::Archives;
use super::sections::{Document, Sections};
use archive_reader::Entry;
use archive_reader::Fault;
use archive_reader::{Archive, Go};
use tool_manifest::Builtin;
use tool_manifest::Registry;
use tool_manifest::{Job, Work};

/// Largest number of listed names.
const LISTED: usize = 100;
/// Copy buffer size in bytes.
const CHUNK: usize = 64 << 10;

pub(crate) fn builtin(registry: &Registry, archives: Arc<Archives>) -> Option<Builtin> {
    Some(registry.get("archive_extract")?.long(ArchiveExtract(archives)))
}

#[derive(Debug)]
struct ArchiveExtract(Arc<Archives>);

impl Work for ArchiveExtract {
    fn work(&self, job: &Job) -> Result<Json, String> {
        let args = job.call.args.value();
        let text = |name| args.get(name).and_then(Value::as_str);
        let path = self.0.meant(text("archive_name"), &job.caller)?;
        let archive = self.0.open(&path, None)?;
        let wanted = Wanted::of(args)?;
        let into = text("into").map_or_else(|| folder(&path), str::to_owned);
        let (root, inside) = self.0.place_to_change(&into)?;
        let documents = args.get("process_documents").and_then(Value::as_bool).unwrap_or(true);
        let mut out = Out { root, inside, job, documents, done: Done::default() };
        out.all(&archive, &wanted)?;
        Ok(Json::of(&out.done.told(&into)))
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        let args = args.value();
        Wanted::of(args)?;
        match args.get("into").and_then(Value::as_str) {
            Some(into) => self.0.place_to_change(into).map(drop),
            None => Ok(()),
        }
    }
}

/// Returns the default target folder: beside the archive, named after its stem.
fn folder(path: &str) -> String {
    let (above, name) = path.rsplit_once('/').map_or(("", path), |(above, name)| (above, name));
    let stem = name.trim_start_matches('.').split('.').next().unwrap_or_default();
    let stem = if stem.is_empty() { "archive" } else { stem };
    let above = if above.is_empty() { String::new() } else { format!("{above}/") };
    format!("{above}{stem}.extracted")
}

/// Selects entries by pattern or exact name.
struct Wanted {
    pattern: Option<Pattern>,
    names: Option<HashSet<String>>,
}

impl Wanted {
    fn of(args: &Value) -> Result<Self, String> {
        let pattern = args.get("pattern").and_then(Value::as_str).map(Pattern::new).transpose();
        let pattern = pattern.map_err(|error| format!("pattern: {error}"))?;
        let names = args
            .get("files")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        Ok(Self { pattern, names })
    }

    fn has(&self, entry: &Entry) -> bool {
        let fits = self.pattern.as_ref().is_none_or(|pattern| pattern.matches(&entry.name));
        fits && self.names.as_ref().is_none_or(|names| names.contains(&entry.name))
    }
}

#[derive(Debug, Default)]
struct Done {
    names: Vec<String>,
    extracted: u64,
    processed: u64,
    sections: u64,
    skipped: u64,
    refused: Vec<String>,
}

impl Done {
    fn told(&self, into: &str) -> Value {
        json!({
            "success": true,
            "extracted": self.extracted,
            "processed": self.processed,
            "sections_total": self.sections,
            "skipped": self.skipped,
            "stored_in": into,
            "files": self.names,
            "refused": self.refused.iter().take(LISTED).collect::<Vec<_>>(),
            "truncated": self.extracted > LISTED as u64 || self.refused.len() > LISTED,
        })
    }
}

struct Out<'a> {
    root: &'a Root,
    inside: &'a Path,
    job: &'a Job,
    documents: bool,
    done: Done,
}

impl Out<'_> {
    fn all(&mut self, archive: &Archive, wanted: &Wanted) -> Result<(), String> {
        // The directory of the archive is checked before anything is written.
        let entries = archive.entries().map_err(|fault| fault.to_string())?;
        let asked = |name: &String| entries.iter().any(|entry| entry.name == *name);
        if let Some(missing) = wanted.names.iter().flatten().find(|name| !asked(name)) {
            let missing = crate::system::files::shown(missing);
            return Err(format!("files: `{missing}` is not in the archive; see archive_open"));
        }
        self.done.refused = entries.iter().filter(|it| wanted.has(it)).filter_map(issue).collect();
        self.done.skipped = entries.iter().filter(|it| !wanted.has(it)).count() as u64;
        let mut why = None;
        let walked = archive.walk(&|entry| wanted.has(entry), &mut |entry, content| match self
            .one(entry, content)
        {
            Ok(()) => Ok(Go::On),
            Err(error) => {
                why = Some(error);
                Ok(Go::Stop)
            }
        });
        let broken = why.or_else(|| walked.err().map(|fault| fault.to_string()));
        broken.map_or(Ok(()), |why| {
            Err(format!("{why}; {} files had come out before that", self.done.extracted))
        })
    }

    fn one(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), String> {
        let path: PathBuf = self.inside.join(&entry.name);
        self.root.make_folders_above(&path).map_err(|error| error.to_string())?;
        let document = Document::of(entry).filter(|_| self.documents);
        let mut sections = document.map(Sections::new);
        let (job, mut failed) = (self.job, None);
        let written = self.root.write_with(&path, Put::Replace, |file| {
            let mut chunk = vec![0; CHUNK];
            loop {
                let read = content.read(&mut chunk).inspect_err(|error| {
                    failed = Some(Fault::from(io::Error::new(error.kind(), error.to_string())));
                })?;
                let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else {
                    return Ok(());
                };
                job.step(read as u64).map_err(io::Error::other)?;
                if let Some(sections) = &mut sections {
                    sections.feed(bytes);
                }
                file.write_all(bytes)?;
            }
        });
        written.map_err(|error| match failed {
            Some(fault) => format!("{}: {}", entry.name, fault.what),
            None => error.to_string(),
        })?;
        self.done.extracted += 1;
        if self.done.names.len() < LISTED {
            self.done.names.push(entry.name.clone());
        }
        if let Some(sections) = sections {
            self.done.processed += 1;
            self.done.sections += sections.end();
        }
        Ok(())
    }
}
