//! `archive_search`: finds the lines of text files in an archive that contain a text.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::Json;

use super::opened::Archives;
use super::sections::Document;
use archive_reader::Entry;
use archive_reader::Fault;
use archive_reader::Go;
use tool_manifest::Builtin;
use tool_manifest::{Bound, Registry};
use tool_manifest::{Job, Work};

/// Longest line in bytes; the rest of a longer line counts as another line.
const LINE: u64 = 64 << 10;
/// Characters of a reported match, and how many of them precede it (spec 3's number for the whole).
const SHOWN: (usize, usize) = (200, 60);

pub(crate) fn builtin(registry: &Registry, archives: Arc<Archives>) -> Option<Builtin> {
    let declared = registry.get("archive_search")?;
    let most = declared.bound("max_results");
    Some(declared.long(ArchiveSearch { archives, most }))
}

#[derive(Debug)]
struct ArchiveSearch {
    archives: Arc<Archives>,
    most: Bound,
}

impl Work for ArchiveSearch {
    fn work(&self, job: &Job) -> Result<Json, String> {
        let args = job.call.args.value();
        let text = |name| args.get(name).and_then(Value::as_str);
        let path = self.archives.meant(text("archive_name"), &job.caller)?;
        let archive = self.archives.open(&path, None)?;
        let query = text("query").unwrap_or_default().to_lowercase();
        let most = self.most.size(args, "max_results");
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut search = Search { job, archive: name, query: &query, most, found: Vec::new() };
        archive.entries().map_err(|fault| fault.to_string())?;
        let walked = archive.walk(&|_| true, &mut |entry, content| search.one(entry, content));
        walked.map_err(|fault| fault.to_string())?;
        Ok(Json::of(&search.found))
    }
}

struct Search<'a> {
    job: &'a Job,
    archive: &'a str,
    query: &'a str,
    most: usize,
    found: Vec<Value>,
}

impl Search<'_> {
    fn one(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<Go, Fault> {
        let document = Document::of(entry).unwrap_or(Document::Plain);
        let (mut content, mut section) = (BufReader::new(content), None);
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let read = (&mut content).take(LINE).read_until(b'\n', &mut line)?;
            self.job.step(read as u64).map_err(Fault::invalid)?;
            // Binary files have no lines.
            if read == 0 || line.contains(&0) {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            if let Some(heading) = document.heading(text) {
                section = Some(heading.chars().take(SHOWN.0).collect::<String>());
            }
            if let Some(place) = text.to_lowercase().find(self.query) {
                self.found.push(self.told(entry, number, section.as_deref(), &around(text, place)));
            }
            if self.found.len() >= self.most {
                return Ok(Go::Stop);
            }
        }
        Ok(Go::On)
    }

    fn told(&self, entry: &Entry, line: u64, section: Option<&str>, text: &str) -> Value {
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
fn around(text: &str, place: usize) -> String {
    let before = text.to_lowercase().get(..place).map_or(0, |it| it.chars().count());
    text.chars().skip(before.saturating_sub(SHOWN.1)).take(SHOWN.0).collect()
}
