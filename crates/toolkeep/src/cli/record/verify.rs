//! `toolkeep record verify`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use ledger::{Checkpoint, CutWhy, Finding, Report, WriterReport};

use crate::cli::context::Context;
use crate::cli::failure::{Exit, Failure};
use crate::cli::ui::{Ui, line};
use crate::config;

/// The largest kept report that is read, in bytes.
const KEPT: u64 = 16 << 20;

/// Check that nobody changed the record: every byte, number, chain and seal.
///
/// Reads the data directory itself, beside a server that runs or without one, and changes nothing. What
/// was cut off at the very end shows only against a seal that is kept elsewhere: keep what this command
/// prints with `-o json`, and give it with `--kept` another day.
///
/// Exits with 1 where something is wrong.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record verify
  toolkeep record verify -o json > /elsewhere/sealed.json
  toolkeep record verify --kept /elsewhere/sealed.json")]
pub(in crate::cli) struct Verify {
    /// What this command printed before with `-o json`. May be given several times.
    #[arg(long, value_name = "FILE")]
    kept: Vec<PathBuf>,
}

impl Verify {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let mut kept = Vec::new();
        for file in &self.kept {
            kept.extend(checkpoints(file)?);
        }
        let report = context.wiring.verify(&config.data, kept).await?;
        ui.answer(&report, || text(&report))?;
        ui.note(&format!("not seen by this: {}", Report::LIMITS));
        Ok(if report.is_sound() { Exit::Done } else { Exit::Failed })
    }
}

/// The seals in a report that was kept.
fn checkpoints(file: &Path) -> Result<Vec<Checkpoint>, Failure> {
    let told = |what: String| {
        let failure = Failure::new(Exit::Usage, format!("`{}` {what}", file.display()));
        failure.fix("give what `toolkeep record verify -o json` printed")
    };
    let unread = |error: std::io::Error| told(format!("cannot be read: {error}"));
    if fs::metadata(file).map_err(unread)?.len() > KEPT {
        return Err(told(format!("has more than {KEPT} bytes")));
    }
    let text = fs::read(file).map_err(unread)?;
    let report: Report = serde_json::from_slice(&text)
        .map_err(|error| told(format!("is no report of a record: {error}")))?;
    let found: Vec<_> = report.writers.into_iter().filter_map(|it| it.checkpoint).collect();
    if found.is_empty() {
        return Err(told("holds no seal".to_owned()));
    }
    Ok(found)
}

fn text(report: &Report) -> String {
    let mut lines: Vec<_> = report.writers.iter().flat_map(of_writer).collect();
    if lines.is_empty() {
        lines.push("nothing on record".to_owned());
    }
    lines.extend(report.findings.iter().map(of_finding));
    if report.more_findings > 0 {
        lines.push(format!("and {} more", report.more_findings));
    }
    let wrong = u64::try_from(report.findings.len()).unwrap_or(u64::MAX);
    lines.push(match wrong.saturating_add(report.more_findings) {
        0 => "sound".to_owned(),
        wrong => format!("NOT SOUND: findings {wrong}"),
    });
    lines.join("\n")
}

fn of_writer(writer: &WriterReport) -> Vec<String> {
    let WriterReport { records, intents, outcomes, refused, segments, .. } = writer;
    let name = line(&writer.writer, 64);
    let mut lines = vec![format!(
        "{name}: {records} records: intents {intents}, outcomes {outcomes}, refused {refused}; \
         segments {segments}"
    )];
    if writer.open > 0 {
        let (open, unknown) = (writer.open, writer.unknown);
        lines.push(format!("  without an outcome: {open}, of them unknown for good: {unknown}"));
    }
    if let Some(seal) = &writer.checkpoint {
        lines
            .push(format!("  sealed up to record {}, {} behind it", seal.through, writer.unsealed));
    }
    if writer.kept > 0 {
        lines.push(format!("  agrees with kept seals: {}", writer.kept));
    }
    for cut in &writer.cuts {
        let why = match cut.why {
            CutWhy::Torn => "a write that broke off, never acknowledged as synced",
            CutWhy::Carried => "carried over to the next segment",
        };
        let segment = line(&cut.segment, 100);
        lines.push(format!("  {segment}: {} bytes from {} on are {why}", cut.bytes, cut.offset));
    }
    lines
}

fn of_finding(finding: &Finding) -> String {
    let Finding { writer, segment, offset, text, .. } = finding;
    let place = if segment.is_empty() { writer } else { segment };
    format!("{}:{offset}: {}", line(place, 100), line(text, 300))
}

#[cfg(test)]
mod tests {
    use ledger::{Cut, CutWhy, Fault, Finding, Report, WriterReport};

    use super::text;

    #[test]
    fn a_report_says_how_much_was_read_and_what_is_wrong() {
        let writer = WriterReport {
            writer: "main".to_owned(),
            segments: 1,
            records: 5,
            intents: 3,
            outcomes: 2,
            open: 1,
            cuts: vec![Cut {
                segment: "main-1.seg".to_owned(),
                offset: 90,
                bytes: 7,
                records: 0,
                why: CutWhy::Torn,
            }],
            ..WriterReport::default()
        };
        let mut report = Report { writers: vec![writer], ..Report::default() };
        let expected = "\
main: 5 records: intents 3, outcomes 2, refused 0; segments 1
  without an outcome: 1, of them unknown for good: 0
  main-1.seg: 7 bytes from 90 on are a write that broke off, never acknowledged as synced
";
        assert_eq!(text(&report), format!("{expected}sound"));
        report.findings.push(Finding {
            writer: "main".to_owned(),
            segment: "main-1.seg".to_owned(),
            offset: 40,
            seq: Some(2),
            fault: Fault::Damaged,
            text: "no record \u{1b}[31m".to_owned(),
        });
        let wrong = "main-1.seg:40: no record \u{fffd}[31m\nNOT SOUND: findings 1";
        assert_eq!(text(&report), format!("{expected}{wrong}"));
        assert_eq!(text(&Report::default()), "nothing on record\nsound");
    }
}
