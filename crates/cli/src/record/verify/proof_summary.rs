//! Summary of a ledger verification: its proved and its unproved statements.

use ledger::{VerificationReport, WriterReport};

use super::signed_checkpoints::SignedCheckpoints;

/// Returns the proved and the unproved statements.
pub(super) fn summarize_report(
    report: &VerificationReport,
    signed: &SignedCheckpoints,
    external_count: usize,
) -> (Vec<String>, Vec<String>) {
    let (mut proved, mut not_proved) = (Vec::new(), Vec::new());
    if report.is_sound() {
        for writer in &report.writers {
            summarize_writer(writer, &mut proved, &mut not_proved);
            summarize_removed(writer, signed, (&mut proved, &mut not_proved));
        }
    }
    let fitting: u64 = report.writers.iter().map(|writer| writer.external_checkpoints).sum();
    match (external_count, fitting) {
        (0, _) => not_proved.push(VerificationReport::LIMITS.to_owned()),
        (_, 0) => {}
        (_, 1) => {
            proved.push("1 checkpoint stored elsewhere is consistent with the record".to_owned());
        }
        (_, many) => {
            proved.push(format!(
                "{many} checkpoints stored elsewhere are consistent with the record and extend \
                 each other"
            ));
        }
    }
    if signed.used_local_key {
        not_proved.push(
            "that nobody else signed the checkpoints: the signing key is stored beside the record; \
             store a copy of its public key elsewhere and pass it with `--signer`"
                .to_owned(),
        );
    }
    if signed.unknown_signers > 0 {
        not_proved.push(format!(
            "{} checkpoints were ignored because other keys signed them",
            signed.unknown_signers
        ));
    }
    let without = report.writers.iter().map(|writer| writer.writer.as_str());
    let writers = signed.writers();
    if external_count > 0 {
        for writer in without.filter(|writer| !writers.is_empty() && !writers.contains(writer)) {
            not_proved.push(format!(
                "`{writer}`: no checkpoint was given: {}",
                VerificationReport::LIMITS
            ));
        }
    }
    (proved, not_proved)
}

fn summarize_writer(writer: &WriterReport, proved: &mut Vec<String>, not_proved: &mut Vec<String>) {
    let (name, records) = (&writer.writer, writer.records);
    let sealed = records.saturating_sub(writer.unsealed_records);
    proved.push(match &writer.removed {
        None => format!("`{name}`: the first {sealed} records match its checkpoints"),
        Some(gone) => format!(
            "`{name}`: the {sealed} records from {} on match its checkpoints",
            gone.last_seq + 1
        ),
    });
    if writer.unsealed_records > 0 {
        not_proved.push(format!(
            "`{name}`: the last {} of {records} records are newer than the last checkpoint; a \
             consistent rewrite of them is not detected",
            writer.unsealed_records
        ));
    }
    if let Some(through) = writer.external_through {
        proved.push(format!("`{name}`: the records up to {through} match the stored checkpoint"));
        not_proved.push(format!(
            "`{name}`: the records after {through}, if all of them were removed or rewritten"
        ));
    }
}

/// Summarizes records that retention removed.
fn summarize_removed(
    writer: &WriterReport,
    signed: &SignedCheckpoints,
    (proved, not_proved): (&mut Vec<String>, &mut Vec<String>),
) {
    let Some(gone) = &writer.removed else { return };
    let (name, through) = (&writer.writer, gone.last_seq);
    proved.push(format!(
        "`{name}`: the records 1 to {through} existed and were sealed: {} tombstones are \
         consistent with the later checkpoints",
        gone.segments
    ));
    not_proved.push(format!(
        "`{name}`: the content of the records 1 to {through}, and that each call in them had one \
         intent and one outcome: retention removed them, and only an export or a copy shows them"
    ));
    if gone.unverified_tombstones > 0 {
        not_proved.push(format!(
            "`{name}`: the signer of its {} tombstones: no key was available; pass it with \
             `--signer`",
            gone.unverified_tombstones
        ));
    } else if signed.has_local_key() {
        not_proved.push(format!(
            "`{name}`: that the server removed them, and not somebody with its signing key, which \
             is stored beside the record"
        ));
    }
}
