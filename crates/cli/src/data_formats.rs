//! Table of the file formats of a data directory: the versions that it has, those that this program
//! reads, and what the first start of this program changes.

use std::fmt;
use std::path::Path;

use ledger::{FormatCounts, OsDisk, RecordFormats};
use serde::Serialize;
use store::{MacFile, SqliteStore};
use tool::FormatSupport;

use cli_core::command_error::{CommandError, ExitStatus, pluralize};
use cli_core::data_dir::DataDir;

/// One file format of the data directory.
struct DataFormat {
    name: &'static str,
    /// The files, relative to the data directory.
    files: &'static str,
    support: FormatSupport,
    /// How files of another version are brought to the written one.
    upgrade: FormatUpgrade,
    /// What the first start does to files of another version.
    first_start: &'static str,
}

/// How this program treats files of a version that it does not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FormatUpgrade {
    /// It migrates them or adds files of the written version. A program that reads no newer version
    /// than the files had refuses the directory afterwards.
    OneWay,
    /// It builds them again from other files, as every version of the program does.
    Rebuild,
}

/// Every format with a version. Other files of the directory are keys, locks and plain JSON.
const STORE: DataFormat = DataFormat {
    name: "store",
    files: "store.db",
    support: SqliteStore::FORMAT,
    upgrade: FormatUpgrade::OneWay,
    first_start: "migrates the file",
};
const ROW_MACS: DataFormat = DataFormat {
    name: "row MACs",
    files: "store.macs",
    support: MacFile::FORMAT,
    upgrade: FormatUpgrade::OneWay,
    first_start: "accepts all rows of the store and creates the file",
};
const RECORD: DataFormat = DataFormat {
    name: "record",
    files: "records/*.seg, *.tail",
    support: RecordFormats::SEGMENT,
    upgrade: FormatUpgrade::OneWay,
    first_start: "writes new records to a segment in the new format",
};
const RECORD_FILTERS: DataFormat = DataFormat {
    name: "record filters",
    files: "records/*.filter",
    support: RecordFormats::FILTER,
    upgrade: FormatUpgrade::Rebuild,
    first_start: "builds them again",
};

/// Versions of a format that this program reads and writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FormatRange {
    name: &'static str,
    #[serde(flatten)]
    support: FormatSupport,
}

impl fmt::Display for FormatRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.support.describe_readable())
    }
}

/// Returns the versions that this program reads and writes.
pub(crate) fn supported_formats() -> Vec<FormatRange> {
    let range = |format: &DataFormat| FormatRange { name: format.name, support: format.support };
    [STORE, ROW_MACS, RECORD, RECORD_FILTERS].iter().map(range).collect()
}

/// State of the files of one format, seen by this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FormatState {
    /// There are none; the first start creates them.
    Absent,
    /// All have the version that this program writes.
    Current,
    /// Some have a version that this program reads, and changes at its first start.
    Older,
    /// Some have a version that this program does not read.
    Unreadable,
}

/// The files of one format in a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FormatFinding {
    pub(crate) name: &'static str,
    pub(crate) files: &'static str,
    /// Versions of the files, with their number.
    pub(crate) found: Vec<FoundVersion>,
    #[serde(flatten)]
    pub(crate) support: FormatSupport,
    pub(crate) state: FormatState,
    /// What the first start of this program changes; `None` if it changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_start: Option<&'static str>,
    /// Whether a program that reads exactly the found versions reads the files after that start.
    #[serde(rename = "older_programs_read_it")]
    pub(crate) is_reversible: bool,
    /// Why the files cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// Files of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct FoundVersion {
    pub(crate) version: u32,
    pub(crate) files: usize,
}

impl FormatFinding {
    /// Returns whether this program can use the files.
    pub(crate) fn is_readable(&self) -> bool {
        self.state != FormatState::Unreadable
    }

    /// Describes what the first start changes and an older program cannot read afterwards.
    fn describe_one_way_change(&self) -> Option<String> {
        let change = self.first_start.filter(|_| self.is_readable() && !self.is_reversible)?;
        let found: Vec<_> = self.found.iter().map(|it| it.version.to_string()).collect();
        let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        Some(format!(
            "{} ({}): found format {found}, writing format {}: this start {change}",
            self.name, self.files, self.support.written
        ))
    }
}

impl DataFormat {
    /// Compares the found versions with the supported ones. `is_needed` means that the files are
    /// missing although the directory is in use.
    fn compare(&self, found: &FormatCounts, is_needed: bool) -> FormatFinding {
        let support = self.support;
        let unreadable = found.keys().find(|version| !support.can_read(**version)).copied();
        let unreadable = unreadable.filter(|_| self.upgrade == FormatUpgrade::OneWay);
        let is_older = match self.upgrade {
            // Beside a file of the written version, older files stay as they are.
            FormatUpgrade::OneWay => found.keys().max().is_some_and(|it| *it != support.written),
            FormatUpgrade::Rebuild => found.keys().any(|version| *version != support.written),
        };
        let state = match (unreadable, is_older, found.is_empty()) {
            (Some(_), ..) => FormatState::Unreadable,
            (None, true, _) => FormatState::Older,
            (None, false, true) => FormatState::Absent,
            (None, false, false) => FormatState::Current,
        };
        let changes = is_older || (found.is_empty() && is_needed);
        let found =
            found.iter().map(|(version, files)| FoundVersion { version: *version, files: *files });
        FormatFinding {
            name: self.name,
            files: self.files,
            found: found.collect(),
            support,
            state,
            first_start: Some(self.first_start).filter(|_| changes && unreadable.is_none()),
            is_reversible: !changes || self.upgrade == FormatUpgrade::Rebuild,
            problem: unreadable.map(|version| support.unreadable_reason(version)),
        }
    }

    /// The finding for files that cannot be read at all.
    fn fail(&self, problem: String) -> FormatFinding {
        FormatFinding {
            state: FormatState::Unreadable,
            problem: Some(problem),
            ..self.compare(&FormatCounts::new(), false)
        }
    }
}

/// Reads the versions of all files of a data directory and compares them with those that this
/// program supports. Changes nothing, and works beside a running server.
pub fn compare_formats(data: &DataDir) -> Vec<FormatFinding> {
    let store_file = data.store_file();
    let store = match read_store_version(&store_file) {
        Ok(found) => STORE.compare(&found, false),
        Err(problem) => STORE.fail(problem),
    };
    let is_store_used = store.state != FormatState::Absent;
    let macs = match MacFile::read_format(&data.row_macs()) {
        Ok(version) => ROW_MACS.compare(&one_file(version), is_store_used),
        Err(error) => ROW_MACS.fail(error.to_string()),
    };
    let mut findings = vec![store, macs];
    match RecordFormats::read_formats(&data.records_dir(), &OsDisk) {
        Ok(formats) => findings.extend(compare_record(&formats)),
        Err(error) => findings.push(RECORD.fail(error.message)),
    }
    findings
}

fn compare_record(formats: &RecordFormats) -> [FormatFinding; 2] {
    let damaged = formats.damaged_segments;
    let problem = || {
        let segments = pluralize(damaged, "segment");
        format!("{damaged} {segments} without a valid header; run `toolkeep record verify`")
    };
    let mut record = RECORD.compare(&formats.segments, false);
    record.problem = record.problem.or_else(|| (damaged > 0).then(problem));
    if formats.legacy_tails > 0 && record.state == FormatState::Current {
        record.state = FormatState::Older;
        record.first_start = Some("moves the newest records from a tail into their segment");
    }
    [record, RECORD_FILTERS.compare(&formats.filters, false)]
}

fn read_store_version(path: &Path) -> Result<FormatCounts, String> {
    if !path.exists() {
        return Ok(FormatCounts::new());
    }
    SqliteStore::read_format(path).map(one_file).map_err(|error| error.to_string())
}

fn one_file(version: Option<u32>) -> FormatCounts {
    version.map(|version| (version, 1)).into_iter().collect()
}

/// Checks a data directory before this program writes to it. Returns a line for each change after
/// which an older program cannot read the directory.
///
/// Files that cannot be read at all are left to whoever opens them, with a better error.
///
/// # Errors
/// If a newer version of the program wrote a file.
pub fn check_before_start(data: &DataDir) -> Result<Vec<String>, CommandError> {
    let findings = compare_formats(data);
    let newer = findings.iter().find(|finding| !finding.is_readable() && !finding.found.is_empty());
    if let Some(FormatFinding { files, problem, .. }) = newer {
        let path = data.path().join(files);
        let reason = problem.as_deref().unwrap_or_default();
        let message = format!("cannot use `{}`: {reason}", path.display());
        return Err(CommandError::new(ExitStatus::ServerUnavailable, message)
            .with_help("use that version, or another data directory; nothing was changed"));
    }
    Ok(findings.iter().filter_map(FormatFinding::describe_one_way_change).collect())
}

#[cfg(test)]
mod tests;
