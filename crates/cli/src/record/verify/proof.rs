//! A summary of what a verification proved and what it could not prove.

use ledger::{Report, WriterReport};

use super::signed::Signed;

/// Returns the proved and the unproved statements.
pub(super) fn of(report: &Report, signed: &Signed, kept: usize) -> (Vec<String>, Vec<String>) {
    let (mut proved, mut not) = (Vec::new(), Vec::new());
    if report.is_sound() {
        for writer in &report.writers {
            of_writer(writer, &mut proved, &mut not);
            of_gone(writer, signed, (&mut proved, &mut not));
        }
    }
    let fitting: u64 = report.writers.iter().map(|writer| writer.kept).sum();
    match (kept, fitting) {
        (0, _) => not.push(Report::LIMITS.to_owned()),
        (_, 0) => {}
        (_, 1) => proved.push("1 checkpoint kept elsewhere fits".to_owned()),
        (_, many) => {
            proved.push(format!(
                "{many} checkpoints kept elsewhere fit, each later one going on from the earlier ones"
            ));
        }
    }
    if signed.own_key {
        not.push(
            "that nobody else signed the checkpoints: the key lies beside the record; keep a copy of it \
             elsewhere and give it with `--signer`"
                .to_owned(),
        );
    }
    if signed.foreign > 0 {
        not.push(format!(
            "{} checkpoints are signed by other keys and were left out",
            signed.foreign
        ));
    }
    let without = report.writers.iter().map(|writer| writer.writer.as_str());
    let writers = signed.writers();
    if kept > 0 {
        for writer in without.filter(|writer| !writers.is_empty() && !writers.contains(writer)) {
            not.push(format!("`{writer}`: no checkpoint of it was given: {}", Report::LIMITS));
        }
    }
    (proved, not)
}

fn of_writer(writer: &WriterReport, proved: &mut Vec<String>, not: &mut Vec<String>) {
    let (name, records) = (&writer.writer, writer.records);
    let sealed = records.saturating_sub(writer.unsealed);
    proved.push(match &writer.gone {
        None => format!("`{name}`: the first {sealed} records are those that its checkpoints seal"),
        Some(gone) => format!(
            "`{name}`: the {sealed} records from {} on are those that its checkpoints seal",
            gone.through + 1
        ),
    });
    if writer.unsealed > 0 {
        not.push(format!(
            "`{name}`: the last {} of {records} records are behind the last checkpoint: a change that keeps \
             each whole is not seen",
            writer.unsealed
        ));
    }
    if let Some(through) = writer.kept_through {
        proved.push(format!(
            "`{name}`: the records up to {through} are those of the kept checkpoint"
        ));
        not.push(format!(
            "`{name}`: what came after record {through}, where all of it was cut off or written anew"
        ));
    }
}

/// Summarizes records that retention removed.
fn of_gone(
    writer: &WriterReport,
    signed: &Signed,
    (proved, not): (&mut Vec<String>, &mut Vec<String>),
) {
    let Some(gone) = &writer.gone else { return };
    let (name, through) = (&writer.writer, gone.through);
    proved.push(format!(
        "`{name}`: the records 1 to {through} were there and were sealed: {} tombstones lead to the tree that \
         the later checkpoints seal",
        gone.segments
    ));
    not.push(format!(
        "`{name}`: what the records 1 to {through} said, and that each call in them had one intent and one \
         outcome: they are gone, and only an export or a copy shows them"
    ));
    if gone.unchecked > 0 {
        not.push(format!(
            "`{name}`: who signed its {} tombstones: there was no key to check them with; give it with `--signer`",
            gone.unchecked
        ));
    } else if signed.own_signer() {
        not.push(format!(
            "`{name}`: that the server removed them, and not somebody who has its key: that lies beside the record"
        ));
    }
}
