//! Summary of a ledger verification: its proved and its unproved statements.

use ledger::{VerificationReport, WriterReport};
use serde::Serialize;

use super::signed_checkpoints::SignedCheckpoints;

/// The statements of a verification.
#[derive(Debug, Default, Serialize)]
pub(super) struct VerifySummary {
    /// The statements that were proved.
    pub(super) proved: Vec<String>,
    /// The statements that cannot be proved with the given input.
    pub(super) not_proved: Vec<String>,
}

/// Returns the proved and the unproved statements.
pub(super) fn summarize_report(
    report: &VerificationReport,
    signed: &SignedCheckpoints,
    external_count: usize,
) -> VerifySummary {
    let mut summary = VerifySummary::default();
    if report.is_sound() {
        for writer in &report.writers {
            summary.add_writer(writer);
            summary.add_removed(writer, signed);
        }
    }
    let fitting: u64 = report.writers.iter().map(|writer| writer.external_checkpoints).sum();
    match (external_count, fitting) {
        (0, _) => summary.not_proved.push(VerificationReport::LIMITS.to_owned()),
        (_, 0) => {}
        (_, 1) => {
            summary
                .proved
                .push("1 checkpoint stored elsewhere is consistent with the record".to_owned());
        }
        (_, many) => {
            summary.proved.push(format!(
                "{many} checkpoints stored elsewhere are consistent with the record and extend \
                 each other"
            ));
        }
    }
    if signed.used_local_key {
        summary.not_proved.push(
            "that nobody else signed the checkpoints: the signing key is stored beside the record; \
             store a copy of its public key elsewhere and pass it with `--signer`"
                .to_owned(),
        );
    }
    if signed.unknown_signers > 0 {
        summary.not_proved.push(format!(
            "{} checkpoints were ignored because other keys signed them",
            signed.unknown_signers
        ));
    }
    let without = report.writers.iter().map(|writer| writer.writer.as_str());
    let writers = signed.writers();
    if external_count > 0 {
        for writer in without.filter(|writer| !writers.is_empty() && !writers.contains(writer)) {
            summary.not_proved.push(format!(
                "`{writer}`: no checkpoint was given: {}",
                VerificationReport::LIMITS
            ));
        }
    }
    summary
}

impl VerifySummary {
    fn add_writer(&mut self, writer: &WriterReport) {
        let (name, records) = (&writer.writer, writer.records);
        let sealed = records.saturating_sub(writer.unsealed_records);
        self.proved.push(match &writer.removed {
            None => format!("`{name}`: the first {sealed} records match its checkpoints"),
            Some(gone) => format!(
                "`{name}`: the {sealed} records from {} on match its checkpoints",
                gone.last_seq + 1
            ),
        });
        if writer.unsealed_records > 0 {
            self.not_proved.push(format!(
                "`{name}`: the last {} of {records} records are newer than the last checkpoint; a \
             consistent rewrite of them is not detected",
                writer.unsealed_records
            ));
        }
        if let Some(through) = writer.external_through {
            self.proved
                .push(format!("`{name}`: the records up to {through} match the stored checkpoint"));
            self.not_proved.push(format!(
                "`{name}`: the records after {through}, if all of them were removed or rewritten"
            ));
        }
    }

    /// Summarizes records that retention removed.
    fn add_removed(&mut self, writer: &WriterReport, signed: &SignedCheckpoints) {
        let Some(gone) = &writer.removed else { return };
        let (name, through) = (&writer.writer, gone.last_seq);
        self.proved.push(format!(
            "`{name}`: the records 1 to {through} existed and were sealed: {} tombstones are \
         consistent with the later checkpoints",
            gone.segments
        ));
        self.not_proved.push(format!(
        "`{name}`: the content of the records 1 to {through}, and that each call in them had one \
         intent and one outcome: retention removed them, and only an export or a copy shows them"
    ));
        if gone.unverified_tombstones > 0 {
            self.not_proved.push(format!(
                "`{name}`: the signer of its {} tombstones: no key was available; pass it with \
             `--signer`",
                gone.unverified_tombstones
            ));
        } else if signed.has_local_key() {
            self.not_proved.push(format!(
            "`{name}`: that the server removed them, and not somebody with its signing key, which \
             is stored beside the record"
        ));
        }
    }
}
