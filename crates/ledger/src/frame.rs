//! Frame: one record as bytes, with a 36-byte little-endian header and a body.
//!
//! ```text
//!  0  u32  length of the whole frame
//!  4  u32  CRC-32 of bytes 0..4 and 8..length
//!  8  u8   form of the body: 1 is JSON, 2 is MessagePack
//!  9  u8   kind
//! 10  u16  zero
//! 12  u64  seq
//! 20  [16] call id; zeros where the record belongs to no call
//! 36       body
//! ```
//!
//! Each call has two records, its intent and its outcome. Both are MessagePack with field names,
//! and with digests and ids as bytes: two thirds of the JSON size to write, sync and hash. All
//! other records are JSON, as were intents and outcomes in older versions.
//!
//! The CRC detects incomplete frames. It does not detect deliberate changes; the hash chain does.

use std::fmt;

use serde::{Deserialize, Serialize};
use tool::ledger::RecordKind;
use tool::{CallId, IntentRecord, LedgerError, OutcomeRecord};
use uuid::Uuid;

use crate::search_fields::SearchFacts;
use crate::slice::{prefix, rest};

/// Size of the frame header, in bytes.
pub(crate) const FRAME_HEADER_BYTES: usize = 36;
/// Largest body, in bytes. Usual records have a few hundred bytes.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 10;
/// Upper bound of sequence numbers, so that adding to one cannot overflow.
pub(crate) const MAX_SEQ: u64 = 1 << 62;

/// Encoding of a body. The numbers belong to the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BodyEncoding {
    Json = 1,
    MessagePack = 2,
}

impl BodyEncoding {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Json),
            2 => Some(Self::MessagePack),
            _ => None,
        }
    }
}

/// A decoded frame: complete, with a valid CRC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'b> {
    pub(crate) kind: RecordKind,
    pub(crate) seq: u64,
    pub(crate) call_id: Option<CallId>,
    pub(crate) encoding: BodyEncoding,
    pub(crate) body: &'b [u8],
    pub(crate) bytes: &'b [u8],
}

impl<'b> Frame<'b> {
    /// Decodes the body as a `T`, if possible.
    pub(crate) fn decode_body<T: Deserialize<'b>>(&self) -> Option<T> {
        match self.encoding {
            BodyEncoding::Json => serde_json::from_slice(self.body).ok(),
            BodyEncoding::MessagePack => rmp_serde::from_slice(self.body).ok(),
        }
    }
}

/// Reason why bytes are not a valid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameError {
    Truncated,
    InvalidLength,
    UnknownVersion,
    UnknownKind,
    ChecksumMismatch,
    InvalidSequence,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the file ends inside a record",
            Self::InvalidLength => "the length of a record is invalid",
            Self::UnknownVersion => "a record has an unknown version",
            Self::UnknownKind => "a record has an unknown kind",
            Self::ChecksumMismatch => "the checksum of a record does not match",
            Self::InvalidSequence => "the number of a record is invalid",
        })
    }
}

fn parse_kind(byte: u8) -> Option<RecordKind> {
    Some(match byte {
        1 => RecordKind::Intent,
        2 => RecordKind::ApprovalStep,
        3 => RecordKind::Outcome,
        4 => RecordKind::Refusal,
        5 => RecordKind::Checkpoint,
        6 => RecordKind::Tombstone,
        7 => RecordKind::Gap,
        8 => RecordKind::AuditEvent,
        _ => return None,
    })
}

/// Reads `N` bytes at `offset`.
pub(crate) fn read_array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// Returns the length of the frame whose header begins `bytes`, if the header is valid.
pub(crate) fn frame_length(bytes: &[u8]) -> Result<usize, FrameError> {
    let head = bytes.get(..FRAME_HEADER_BYTES).ok_or(FrameError::Truncated)?;
    let length = read_array(head, 0).map_or(0, u32::from_le_bytes) as usize;
    if !(FRAME_HEADER_BYTES..=FRAME_HEADER_BYTES + MAX_BODY_BYTES).contains(&length) {
        return Err(FrameError::InvalidLength);
    }
    match read_array::<4>(head, 8) {
        Some([form, ..]) if BodyEncoding::from_byte(form).is_none() => {
            Err(FrameError::UnknownVersion)
        }
        Some([_, kind, 0, 0]) if parse_kind(kind).is_some() => Ok(length),
        _ => Err(FrameError::UnknownKind),
    }
}

fn frame_crc(frame: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(prefix(frame, 4));
    sum.update(rest(frame, 8));
    sum.finalize()
}

/// Decodes the frame at the start of `bytes`, which may continue after it.
pub(crate) fn decode_frame(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let whole = bytes.get(..frame_length(bytes)?).ok_or(FrameError::Truncated)?;
    if read_array(whole, 4).map(u32::from_le_bytes) != Some(frame_crc(whole)) {
        return Err(FrameError::ChecksumMismatch);
    }
    decode_verified_frame(whole)
}

/// Decodes a frame whose length and checksum were verified.
pub(crate) fn decode_verified_frame(whole: &[u8]) -> Result<Frame<'_>, FrameError> {
    let form = whole
        .get(8)
        .copied()
        .and_then(BodyEncoding::from_byte)
        .ok_or(FrameError::UnknownVersion)?;
    let kind = whole.get(9).copied().and_then(parse_kind).ok_or(FrameError::UnknownKind)?;
    let seq = read_array(whole, 12).map(u64::from_le_bytes).ok_or(FrameError::Truncated)?;
    if !(1..MAX_SEQ).contains(&seq) {
        return Err(FrameError::InvalidSequence);
    }
    let call = read_array(whole, 20).map(Uuid::from_bytes).filter(|id| !id.is_nil()).map(CallId);
    Ok(Frame {
        kind,
        seq,
        call_id: call,
        encoding: form,
        body: rest(whole, FRAME_HEADER_BYTES),
        bytes: whole,
    })
}

/// Iterates over the frames at the start of `bytes`, up to the first invalid one.
pub(crate) fn iter_frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let frame = decode_frame(bytes).ok()?;
        bytes = rest(bytes, frame.bytes.len());
        Some(frame)
    })
}

/// A frame without its sequence number and CRC, which are assigned under the lock.
#[derive(Debug)]
pub(crate) struct FrameBuilder {
    pub(crate) kind: RecordKind,
    pub(crate) call_id: Option<CallId>,
    /// What a search needs of the body.
    pub(crate) facts: SearchFacts,
    bytes: Vec<u8>,
}

impl FrameBuilder {
    /// Encodes `body` as JSON.
    pub(crate) fn json<T: Serialize>(
        kind: RecordKind,
        call: Option<CallId>,
        body: &T,
    ) -> Result<Self, LedgerError> {
        let mut draft = Self::new_frame(BodyEncoding::Json, kind, call);
        let written = serde_json::to_writer(&mut draft.bytes, body);
        draft.check_length(written.map_err(|error| error.to_string()))
    }

    /// Encodes the intent of a call.
    pub(crate) fn intent(intent: &IntentRecord) -> Result<Self, LedgerError> {
        let facts = SearchFacts { status: None, parent: intent.parent_id };
        let draft = Self::message_pack(RecordKind::Intent, intent.call_id, intent)?;
        Ok(draft.with_facts(facts))
    }

    /// Encodes the outcome of a call.
    pub(crate) fn outcome(call: CallId, record: &OutcomeRecord) -> Result<Self, LedgerError> {
        let facts = SearchFacts { status: Some(record.status), parent: None };
        Ok(Self::message_pack(RecordKind::Outcome, call, record)?.with_facts(facts))
    }

    /// Sets what a search needs of the body.
    pub(crate) fn with_facts(self, facts: SearchFacts) -> Self {
        Self { facts, ..self }
    }

    /// Encodes `body` as MessagePack.
    fn message_pack<T: Serialize>(
        kind: RecordKind,
        call: CallId,
        body: &T,
    ) -> Result<Self, LedgerError> {
        let mut draft = Self::new_frame(BodyEncoding::MessagePack, kind, Some(call));
        let written = rmp_serde::encode::write_named(&mut draft.bytes, body);
        draft.check_length(written.map_err(|error| error.to_string()))
    }

    fn new_frame(form: BodyEncoding, kind: RecordKind, call: Option<CallId>) -> Self {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend([0; 8]);
        bytes.extend([form as u8, kind as u8, 0, 0]);
        bytes.extend([0; 8]);
        bytes.extend(call.map_or([0; 16], |call| *call.0.as_bytes()));
        Self { kind, call_id: call, facts: SearchFacts::default(), bytes }
    }

    fn check_length(mut self, written: Result<(), String>) -> Result<Self, LedgerError> {
        written.map_err(|why| LedgerError::new(format!("cannot encode a record: {why}")))?;
        let length = self.bytes.len();
        match u32::try_from(length) {
            Ok(number) if length <= FRAME_HEADER_BYTES + MAX_BODY_BYTES => {
                write_array(&mut self.bytes, 0, number.to_le_bytes());
            }
            _ => {
                return Err(LedgerError::new(format!(
                    "a record has {} bytes; the maximum is {MAX_BODY_BYTES}: shorten the names in \
                     it",
                    length - FRAME_HEADER_BYTES
                )));
            }
        }
        Ok(self)
    }

    /// Returns the size of the frame in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Assigns the sequence number and the CRC, and returns the bytes.
    pub(crate) fn finish(&mut self, seq: u64) -> &[u8] {
        write_array(&mut self.bytes, 12, seq.to_le_bytes());
        let sum = frame_crc(&self.bytes);
        write_array(&mut self.bytes, 4, sum.to_le_bytes());
        &self.bytes
    }
}

/// Writes `value` at offset `offset`, which must lie within `bytes`.
pub(crate) fn write_array<const N: usize>(bytes: &mut [u8], offset: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(offset..offset + N) {
        place.copy_from_slice(&value);
    }
}

#[cfg(test)]
mod tests;
