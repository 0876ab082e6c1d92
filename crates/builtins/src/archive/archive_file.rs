//! `archive_file`: returns the content of one file in an archive.

use std::io::Read as _;
use std::sync::Arc;

use serde_json::Value;
use tool::Json;

use super::opened::Archives;
use crate::system::files::shown;
use crate::system::read_file::decoded;
use archive_reader::Fault;
use archive_reader::Go;
use tool_manifest::Builtin;
use tool_manifest::{Bound, Registry};
use tool_manifest::{Job, Work};

pub(crate) fn builtin(registry: &Registry, archives: Arc<Archives>) -> Option<Builtin> {
    let declared = registry.get("archive_file")?;
    let bytes = declared.bound("max_bytes");
    Some(declared.long(ArchiveFile { archives, bytes }))
}

#[derive(Debug)]
struct ArchiveFile {
    archives: Arc<Archives>,
    bytes: Bound,
}

impl Work for ArchiveFile {
    fn work(&self, job: &Job) -> Result<Json, String> {
        let args = job.call.args.value();
        let text = |name| args.get(name).and_then(Value::as_str);
        let path = self.archives.meant(text("archive_name"), &job.caller)?;
        let archive = self.archives.open(&path, None)?;
        let name = text("filename").unwrap_or_default();
        let limit = self.bytes.of(args, "max_bytes");
        let entries = archive.entries().map_err(|fault| fault.to_string())?;
        let meant = entries.iter().find(|entry| entry.name == name);
        let meant = meant.ok_or_else(|| {
            format!("filename: `{}` is not in the archive; see archive_open", shown(name))
        })?;
        if let Some(why) = meant.refused {
            return Err(format!("{name}: {why}"));
        }
        let mut found = None;
        let walked = archive.walk(&|entry| entry.name == name, &mut |_, content| {
            let mut bytes = Vec::new();
            content.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Fault::from)?;
            found = Some(bytes);
            Ok(Go::Stop)
        });
        walked.map_err(|fault| format!("{}: {fault}", shown(name)))?;
        let bytes = found.ok_or_else(|| format!("filename: `{}` is no file", shown(name)))?;
        if bytes.len() as u64 > limit {
            return Err(format!(
                "{}: it has {} bytes, over the {limit} asked for; raise `max_bytes`, or extract it",
                shown(name),
                meant.size
            ));
        }
        let encoding = text("encoding").unwrap_or("utf-8");
        decoded(bytes, encoding, false).map(|content| Json::of(&content))
    }
}
