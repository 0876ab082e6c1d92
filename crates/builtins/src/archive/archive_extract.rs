//! `archive_extract`: extracts files of an archive into a folder below a file root.

use std::collections::HashSet;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::Pattern;
use rooted_fs::rooted_dir::{RootedDir, WriteMode};
use serde_json::{Value, json};
use tool::{CallArguments, Json};

use super::archive_open::rejection_text;
use super::document_sections::{DocumentKind, SectionCounter};
use super::recent_archives::RecentArchives;
use archive_reader::ArchiveEntry;
use archive_reader::ArchiveError;
use archive_reader::{Archive, VisitControl};
use tool_manifest::BuiltinTool;
use tool_manifest::ManifestRegistry;
use tool_manifest::{BlockingTask, TaskContext};

/// Largest number of listed names.
const MAX_LISTED_NAMES: usize = 100;
/// Copy buffer size in bytes.
const CHUNK_BYTES: usize = 64 << 10;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    archives: Arc<RecentArchives>,
) -> Option<BuiltinTool> {
    Some(registry.find_tool("archive_extract")?.with_progress(ArchiveExtract(archives)))
}

#[derive(Debug)]
struct ArchiveExtract(Arc<RecentArchives>);

impl BlockingTask for ArchiveExtract {
    fn run_task(&self, job: &TaskContext) -> Result<Json, String> {
        let args = job.call.arguments.as_value();
        let text = |name| args.get(name).and_then(Value::as_str);
        let path = self.0.resolve_name(text("archive_name"), &job.caller)?;
        let archive = self.0.open_archive(&path, None)?;
        let wanted = EntryFilter::from_args(args)?;
        let into = text("into").map_or_else(|| default_target(&path), str::to_owned);
        let (root, inside) = self.0.resolve_writable_path(&into)?;
        let documents = args.get("process_documents").and_then(Value::as_bool).unwrap_or(true);
        let mut out = EntryExtractor {
            root,
            target_dir: inside,
            context: job,
            counts_sections: documents,
            report: ExtractionReport::default(),
        };
        out.extract_all(&archive, &wanted)?;
        Ok(Json::encode(&out.report.to_json(&into)))
    }

    fn check_args(&self, args: &CallArguments) -> Result<(), String> {
        let args = args.as_value();
        EntryFilter::from_args(args)?;
        match args.get("into").and_then(Value::as_str) {
            Some(into) => self.0.resolve_writable_path(into).map(drop),
            None => Ok(()),
        }
    }
}

/// Returns the default target folder: beside the archive, named after its stem.
fn default_target(path: &str) -> String {
    let (above, name) = path.rsplit_once('/').map_or(("", path), |(above, name)| (above, name));
    let stem = name.trim_start_matches('.').split('.').next().unwrap_or_default();
    let stem = if stem.is_empty() { "archive" } else { stem };
    let above = if above.is_empty() { String::new() } else { format!("{above}/") };
    format!("{above}{stem}.extracted")
}

/// Selects entries by pattern or exact name.
struct EntryFilter {
    pattern: Option<Pattern>,
    names: Option<HashSet<String>>,
}

impl EntryFilter {
    fn from_args(args: &Value) -> Result<Self, String> {
        let pattern = args.get("pattern").and_then(Value::as_str).map(Pattern::new).transpose();
        let pattern = pattern.map_err(|error| format!("pattern: {error}"))?;
        let names = args
            .get("files")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        Ok(Self { pattern, names })
    }

    fn matches_entry(&self, entry: &ArchiveEntry) -> bool {
        let fits = self.pattern.as_ref().is_none_or(|pattern| pattern.matches(&entry.name));
        fits && self.names.as_ref().is_none_or(|names| names.contains(&entry.name))
    }
}

#[derive(Debug, Default)]
struct ExtractionReport {
    names: Vec<String>,
    extracted: u64,
    processed: u64,
    sections: u64,
    skipped: u64,
    rejected: Vec<String>,
}

impl ExtractionReport {
    fn to_json(&self, into: &str) -> Value {
        json!({
            "success": true,
            "extracted": self.extracted,
            "processed": self.processed,
            "sections_total": self.sections,
            "skipped": self.skipped,
            "stored_in": into,
            "files": self.names,
            "refused": self.rejected.iter().take(MAX_LISTED_NAMES).collect::<Vec<_>>(),
            "truncated": self.extracted > MAX_LISTED_NAMES as u64 || self.rejected.len() > MAX_LISTED_NAMES,
        })
    }
}

struct EntryExtractor<'a> {
    root: &'a RootedDir,
    target_dir: &'a Path,
    context: &'a TaskContext,
    counts_sections: bool,
    report: ExtractionReport,
}

impl EntryExtractor<'_> {
    fn extract_all(&mut self, archive: &Archive, wanted: &EntryFilter) -> Result<(), String> {
        // The directory of the archive is checked before anything is written.
        let entries = archive.list_entries().map_err(|fault| fault.to_string())?;
        let asked = |name: &String| entries.iter().any(|entry| entry.name == *name);
        if let Some(missing) = wanted.names.iter().flatten().find(|name| !asked(name)) {
            let missing = crate::system::file_roots::escape_for_message(missing);
            return Err(format!("files: `{missing}` is not in the archive; see archive_open"));
        }
        self.report.rejected = entries
            .iter()
            .filter(|it| wanted.matches_entry(it))
            .filter_map(rejection_text)
            .collect();
        self.report.skipped = entries.iter().filter(|it| !wanted.matches_entry(it)).count() as u64;
        let mut why = None;
        let walked =
            archive.visit_files(&|entry| wanted.matches_entry(entry), &mut |entry, content| {
                match self.extract_entry(entry, content) {
                    Ok(()) => Ok(VisitControl::Continue),
                    Err(error) => {
                        why = Some(error);
                        Ok(VisitControl::Stop)
                    }
                }
            });
        let broken = why.or_else(|| walked.err().map(|fault| fault.to_string()));
        broken.map_or(Ok(()), |why| {
            Err(format!("{why}; {} files were extracted before", self.report.extracted))
        })
    }

    fn extract_entry(
        &mut self,
        entry: &ArchiveEntry,
        content: &mut dyn Read,
    ) -> Result<(), String> {
        let path: PathBuf = self.target_dir.join(&entry.name);
        self.root.create_parent_dirs(&path).map_err(|error| error.to_string())?;
        let document = DocumentKind::from_entry(entry).filter(|_| self.counts_sections);
        let mut sections = document.map(SectionCounter::new);
        let (job, mut failed) = (self.context, None);
        let written = self.root.write_file_with(&path, WriteMode::Overwrite, |file| {
            let mut chunk = vec![0; CHUNK_BYTES];
            loop {
                let read = content.read(&mut chunk).inspect_err(|error| {
                    failed =
                        Some(ArchiveError::from(io::Error::new(error.kind(), error.to_string())));
                })?;
                let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else {
                    return Ok(());
                };
                job.advance_by(read as u64).map_err(io::Error::other)?;
                if let Some(sections) = &mut sections {
                    sections.push_bytes(bytes);
                }
                file.write_all(bytes)?;
            }
        });
        written.map_err(|error| match failed {
            Some(fault) => format!("{}: {}", entry.name, fault.message),
            None => error.to_string(),
        })?;
        self.report.extracted += 1;
        if self.report.names.len() < MAX_LISTED_NAMES {
            self.report.names.push(entry.name.clone());
        }
        if let Some(sections) = sections {
            self.report.processed += 1;
            self.report.sections += sections.finish_count();
        }
        Ok(())
    }
}
