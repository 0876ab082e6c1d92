//! `archive_file`: returns the content of one file in an archive.

use std::io::Read as _;
use std::sync::Arc;

use serde_json::Value;
use tool::Json;

use super::recent_archives::RecentArchives;
use crate::system::file_roots::escape_for_message;
use crate::system::read_file::decode_bytes;
use archive_reader::ArchiveError;
use archive_reader::VisitControl;
use tool_manifest::BuiltinTool;
use tool_manifest::{BlockingTask, TaskContext};
use tool_manifest::{ManifestRegistry, NumericLimit};

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    archives: Arc<RecentArchives>,
) -> Option<BuiltinTool> {
    let declared = registry.find_tool("archive_file")?;
    let bytes = declared.numeric_limit("max_bytes");
    Some(declared.with_progress(ArchiveFile { archives, max_bytes: bytes }))
}

#[derive(Debug)]
struct ArchiveFile {
    archives: Arc<RecentArchives>,
    max_bytes: NumericLimit,
}

impl BlockingTask for ArchiveFile {
    fn run_task(&self, job: &TaskContext) -> Result<Json, String> {
        let args = job.call.arguments.as_value();
        let text = |name| args.get(name).and_then(Value::as_str);
        let path = self.archives.resolve_name(text("archive_name"), &job.caller)?;
        let archive = self.archives.open_archive(&path, None)?;
        let name = text("filename").unwrap_or_default();
        let limit = self.max_bytes.value_in(args, "max_bytes");
        let entries = archive.list_entries().map_err(|fault| fault.to_string())?;
        let meant = entries.iter().find(|entry| entry.name == name);
        let meant = meant.ok_or_else(|| {
            format!(
                "filename: `{}` is not in the archive; see archive_open",
                escape_for_message(name)
            )
        })?;
        if let Some(why) = meant.rejection {
            return Err(format!("{name}: {why}"));
        }
        let mut found = None;
        let walked = archive.visit_files(&|entry| entry.name == name, &mut |_, content| {
            let mut bytes = Vec::new();
            content
                .take(limit.saturating_add(1))
                .read_to_end(&mut bytes)
                .map_err(ArchiveError::from)?;
            found = Some(bytes);
            Ok(VisitControl::Stop)
        });
        walked.map_err(|fault| format!("{}: {fault}", escape_for_message(name)))?;
        let bytes = found
            .ok_or_else(|| format!("filename: `{}` is not a file", escape_for_message(name)))?;
        if bytes.len() as u64 > limit {
            return Err(format!(
                "{}: it has {} bytes, more than the requested {limit}; raise `max_bytes`, or \
                 extract it",
                escape_for_message(name),
                meant.size
            ));
        }
        let encoding = text("encoding").unwrap_or("utf-8");
        decode_bytes(bytes, encoding, false).map(|content| Json::encode(&content))
    }
}
