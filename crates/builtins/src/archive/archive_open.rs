//! `archive_open`: lists the contents of an archive without extracting it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tool::Json;

use super::opened::Archives;
use archive_reader::{Entry, Kind};
use tool_manifest::Builtin;
use tool_manifest::Registry;
use tool_manifest::{Job, Work};

/// Largest number of listed names and issues.
const LISTED: usize = 100;
const ISSUES: usize = 20;

pub(crate) fn builtin(registry: &Registry, archives: Arc<Archives>) -> Option<Builtin> {
    Some(registry.get("archive_open")?.long(ArchiveOpen(archives)))
}

#[derive(Debug)]
struct ArchiveOpen(Arc<Archives>);

impl Work for ArchiveOpen {
    fn work(&self, job: &Job) -> Result<Json, String> {
        let path = job.call.args.value().get("path").and_then(Value::as_str).unwrap_or_default();
        let archive = self.0.open(path, Some(&job.caller))?;
        let entries = archive.entries().map_err(|fault| fault.to_string())?;
        job.step(1)?;
        Ok(Json::of(&told(path, archive.form(), &entries)))
    }
}

fn told(path: &str, form: &str, entries: &[Entry]) -> Value {
    let files: Vec<_> = entries.iter().filter(|entry| entry.kind == Kind::File).collect();
    let bytes = files.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
    let mut types = BTreeMap::<String, usize>::new();
    for file in &files {
        let extension = file.extension().map_or_else(|| "none".to_owned(), |it| format!(".{it}"));
        *types.entry(extension).or_default() += 1;
    }
    let refused: Vec<_> = entries.iter().filter_map(issue).collect();
    let listed: Vec<_> = files
        .iter()
        .take(LISTED)
        .map(|entry| json!({ "name": entry.name, "size": entry.size }))
        .collect();
    json!({
        "path": path,
        "type": form,
        "total_files": files.len(),
        "total_size": size(bytes),
        "total_bytes": bytes,
        "types": types,
        "nested_archives": files.iter().filter(|entry| entry.is_archive()).count(),
        "recommendation": recommendation(files.len(), bytes),
        "status": if refused.is_empty() { "valid" } else { "suspicious" },
        "issues": refused.iter().take(ISSUES).collect::<Vec<_>>(),
        "files": listed,
        "truncated": files.len() > LISTED || refused.len() > ISSUES,
    })
}

/// Describes why an entry is rejected, if it is.
pub(super) fn issue(entry: &Entry) -> Option<String> {
    entry.refused.map(|why| format!("{}: {why}", entry.name))
}

fn recommendation(files: usize, bytes: u64) -> &'static str {
    match (files, bytes) {
        (..20, ..5_000_000) => "auto_all",
        (..100, _) => "manifest_then_ask",
        _ => "summary_with_recommendations",
    }
}

fn size(bytes: u64) -> String {
    let mut unit = 1_u64;
    for name in ["B", "KB", "MB"] {
        if bytes < unit * 1_000 {
            return in_tenths(bytes, unit, name);
        }
        unit *= 1_000;
    }
    in_tenths(bytes, unit, "GB")
}

fn in_tenths(bytes: u64, unit: u64, name: &str) -> String {
    if unit == 1 {
        return format!("{bytes} {name}");
    }
    let tenths = bytes.saturating_mul(10) / unit;
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}
