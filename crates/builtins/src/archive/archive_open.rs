//! `archive_open`: lists the contents of an archive without extracting it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tool::Json;

use super::recent_archives::RecentArchives;
use archive_reader::{ArchiveEntry, EntryKind};
use tool_manifest::BuiltinTool;
use tool_manifest::ManifestRegistry;
use tool_manifest::{BlockingTask, TaskContext};

/// Largest number of listed names and issues.
const MAX_LISTED_NAMES: usize = 100;
const MAX_LISTED_ISSUES: usize = 20;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    archives: Arc<RecentArchives>,
) -> Option<BuiltinTool> {
    Some(registry.find_tool("archive_open")?.with_progress(ArchiveOpen(archives)))
}

#[derive(Debug)]
struct ArchiveOpen(Arc<RecentArchives>);

impl BlockingTask for ArchiveOpen {
    fn run_task(&self, job: &TaskContext) -> Result<Json, String> {
        let path =
            job.call.arguments.as_value().get("path").and_then(Value::as_str).unwrap_or_default();
        let archive = self.0.open_archive(path, Some(&job.caller))?;
        let entries = archive.list_entries().map_err(|fault| fault.to_string())?;
        job.advance_by(1)?;
        Ok(Json::encode(&archive_json(path, archive.format_name(), &entries)))
    }
}

fn archive_json(path: &str, form: &str, entries: &[ArchiveEntry]) -> Value {
    let files: Vec<_> = entries.iter().filter(|entry| entry.kind == EntryKind::File).collect();
    let bytes = files.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
    let mut types = BTreeMap::<String, usize>::new();
    for file in &files {
        let extension = file.extension().map_or_else(|| "none".to_owned(), |it| format!(".{it}"));
        *types.entry(extension).or_default() += 1;
    }
    let refused: Vec<_> = entries.iter().filter_map(rejection_text).collect();
    let listed: Vec<_> = files
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(|entry| json!({ "name": entry.name, "size": entry.size }))
        .collect();
    json!({
        "path": path,
        "type": form,
        "total_files": files.len(),
        "total_size": format_size(bytes),
        "total_bytes": bytes,
        "types": types,
        "nested_archives": files.iter().filter(|entry| entry.is_archive()).count(),
        "recommendation": recommend_extraction(files.len(), bytes),
        "status": if refused.is_empty() { "valid" } else { "suspicious" },
        "issues": refused.iter().take(MAX_LISTED_ISSUES).collect::<Vec<_>>(),
        "files": listed,
        "truncated": files.len() > MAX_LISTED_NAMES || refused.len() > MAX_LISTED_ISSUES,
    })
}

/// Describes why an entry is rejected, if it is.
pub(super) fn rejection_text(entry: &ArchiveEntry) -> Option<String> {
    entry.rejection.map(|why| format!("{}: {why}", entry.name))
}

fn recommend_extraction(files: usize, bytes: u64) -> &'static str {
    match (files, bytes) {
        (..20, ..5_000_000) => "auto_all",
        (..100, _) => "manifest_then_ask",
        _ => "summary_with_recommendations",
    }
}

fn format_size(bytes: u64) -> String {
    let mut unit = 1_u64;
    for name in ["B", "KB", "MB"] {
        if bytes < unit * 1_000 {
            return format_tenths(bytes, unit, name);
        }
        unit *= 1_000;
    }
    format_tenths(bytes, unit, "GB")
}

fn format_tenths(bytes: u64, unit: u64, name: &str) -> String {
    if unit == 1 {
        return format!("{bytes} {name}");
    }
    let tenths = bytes.saturating_mul(10) / unit;
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}
