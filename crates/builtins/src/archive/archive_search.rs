//! `archive_search`: finds the lines of text files in an archive that contain a text.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::Json;

use super::document_sections::DocumentKind;
use super::recent_archives::RecentArchives;
use archive_reader::ArchiveEntry;
use archive_reader::ArchiveError;
use archive_reader::VisitControl;
use tool_manifest::BuiltinTool;
use tool_manifest::{BlockingTask, TaskContext};
use tool_manifest::{ManifestRegistry, NumericLimit};

/// Longest line in bytes; the rest of a longer line counts as another line.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Characters of a reported match, and how many of them precede it (the research registry's number
/// for the whole).
const MATCH_CHARS: (usize, usize) = (200, 60);

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    archives: Arc<RecentArchives>,
) -> Option<BuiltinTool> {
    let declared = registry.find_tool("archive_search")?;
    let most = declared.numeric_limit("max_results");
    Some(declared.with_progress(ArchiveSearch { archives, max_results: most }))
}

#[derive(Debug)]
struct ArchiveSearch {
    archives: Arc<RecentArchives>,
    max_results: NumericLimit,
}

impl BlockingTask for ArchiveSearch {
    fn run_task(&self, job: &TaskContext) -> Result<Json, String> {
        let args = job.call.arguments.as_value();
        let text = |name| args.get(name).and_then(Value::as_str);
        let path = self.archives.resolve_name(text("archive_name"), &job.caller)?;
        let archive = self.archives.open_archive(&path, None)?;
        let query = text("query").unwrap_or_default().to_lowercase();
        let most = self.max_results.usize_in(args, "max_results");
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut search = ArchiveSearcher {
            context: job,
            archive: name,
            query: &query,
            max_results: most,
            found: Vec::new(),
        };
        archive.list_entries().map_err(|fault| fault.to_string())?;
        let walked = archive
            .visit_files(&|_| true, &mut |entry, content| search.search_entry(entry, content));
        walked.map_err(|fault| fault.to_string())?;
        Ok(Json::encode(&search.found))
    }
}

struct ArchiveSearcher<'a> {
    context: &'a TaskContext,
    archive: &'a str,
    query: &'a str,
    max_results: usize,
    found: Vec<Value>,
}

impl ArchiveSearcher<'_> {
    fn search_entry(
        &mut self,
        entry: &ArchiveEntry,
        content: &mut dyn Read,
    ) -> Result<VisitControl, ArchiveError> {
        let document = DocumentKind::from_entry(entry).unwrap_or(DocumentKind::Plain);
        let (mut content, mut section) = (BufReader::new(content), None);
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let read = (&mut content).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
            self.context.advance_by(read as u64).map_err(ArchiveError::invalid)?;
            // Binary files have no lines.
            if read == 0 || line.contains(&0) {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            if let Some(heading) = document.heading(text) {
                section = Some(heading.chars().take(MATCH_CHARS.0).collect::<String>());
            }
            if let Some(place) = text.to_lowercase().find(self.query) {
                self.found.push(self.match_json(
                    entry,
                    number,
                    section.as_deref(),
                    &surrounding_text(text, place),
                ));
            }
            if self.found.len() >= self.max_results {
                return Ok(VisitControl::Stop);
            }
        }
        Ok(VisitControl::Continue)
    }

    fn match_json(
        &self,
        entry: &ArchiveEntry,
        line: u64,
        section: Option<&str>,
        text: &str,
    ) -> Value {
        let mut told = Map::new();
        told.insert("archive".to_owned(), json!(self.archive));
        told.insert("file".to_owned(), json!(entry.name));
        told.insert("line".to_owned(), json!(line));
        if let Some(section) = section {
            told.insert("section".to_owned(), json!(section));
        }
        told.insert("match".to_owned(), json!(text));
        Value::Object(told)
    }
}

/// Returns the text around a byte position of the lowercase line.
fn surrounding_text(text: &str, place: usize) -> String {
    let before = text.to_lowercase().get(..place).map_or(0, |it| it.chars().count());
    text.chars().skip(before.saturating_sub(MATCH_CHARS.1)).take(MATCH_CHARS.0).collect()
}
