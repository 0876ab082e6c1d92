//! One record as bytes: 36 bytes of head, little endian, and a body.
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
//! There are two records for every call, its intent and its outcome, and those are MessagePack, with
//! the names of members and with digests and ids as bytes: two thirds of what they take as JSON to write,
//! to sync and to hash. All others are JSON, as those two were at first.
//!
//! The CRC tells a frame that was not written to its end from one that was; it proves nothing
//! against a hand that changes the file, which the chain is for.

use std::fmt;

use serde::{Deserialize, Serialize};
use tool::ledger::Kind;
use tool::{CallId, End, Intent, LedgerError};
use uuid::Uuid;

use crate::slice::{prefix, rest};

/// Bytes before the body.
pub(crate) const HEAD: usize = 36;
/// The longest body. Our own records have a few hundred bytes.
pub(crate) const MAX_BODY: usize = 64 << 10;
/// Numbers of records stay below this, so that adding to one cannot overflow.
pub(crate) const MAX_SEQ: u64 = 1 << 62;

/// How a body is written. The numbers are the file format's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Form {
    Json = 1,
    MessagePack = 2,
}

impl Form {
    fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Json),
            2 => Some(Self::MessagePack),
            _ => None,
        }
    }
}

/// A frame that was read: it is whole and its CRC holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'b> {
    pub(crate) kind: Kind,
    pub(crate) seq: u64,
    pub(crate) call: Option<CallId>,
    pub(crate) form: Form,
    pub(crate) body: &'b [u8],
    pub(crate) whole: &'b [u8],
}

impl<'b> Frame<'b> {
    /// What its body says, if it can be read as a `T`.
    pub(crate) fn read<T: Deserialize<'b>>(&self) -> Option<T> {
        match self.form {
            Form::Json => serde_json::from_slice(self.body).ok(),
            Form::MessagePack => rmp_serde::from_slice(self.body).ok(),
        }
    }
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bad {
    Short,
    Length,
    Version,
    Kind,
    Sum,
    Seq,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the file ends inside a record",
            Self::Length => "the length of a record cannot be right",
            Self::Version => "a record has a version that this program does not know",
            Self::Kind => "a record has a kind that this program does not know",
            Self::Sum => "the checksum of a record does not hold",
            Self::Seq => "the number of a record cannot be right",
        })
    }
}

fn kind_of(byte: u8) -> Option<Kind> {
    Some(match byte {
        1 => Kind::Intent,
        2 => Kind::Wait,
        3 => Kind::Outcome,
        4 => Kind::Refused,
        5 => Kind::Checkpoint,
        6 => Kind::Tombstone,
        7 => Kind::Gap,
        8 => Kind::Event,
        _ => return None,
    })
}

/// The little-endian number of `N` bytes at `at`.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The length of the frame whose head begins `bytes`, if it can be one.
pub(crate) fn length(bytes: &[u8]) -> Result<usize, Bad> {
    let head = bytes.get(..HEAD).ok_or(Bad::Short)?;
    let length = array(head, 0).map_or(0, u32::from_le_bytes) as usize;
    if !(HEAD..=HEAD + MAX_BODY).contains(&length) {
        return Err(Bad::Length);
    }
    match array::<4>(head, 8) {
        Some([form, ..]) if Form::of(form).is_none() => Err(Bad::Version),
        Some([_, kind, 0, 0]) if kind_of(kind).is_some() => Ok(length),
        _ => Err(Bad::Kind),
    }
}

fn sum(frame: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(prefix(frame, 4));
    sum.update(rest(frame, 8));
    sum.finalize()
}

/// Reads the frame that begins `bytes`, which may go on behind it.
pub(crate) fn decode(bytes: &[u8]) -> Result<Frame<'_>, Bad> {
    let whole = bytes.get(..length(bytes)?).ok_or(Bad::Short)?;
    if array(whole, 4).map(u32::from_le_bytes) != Some(sum(whole)) {
        return Err(Bad::Sum);
    }
    let form = whole.get(8).copied().and_then(Form::of).ok_or(Bad::Version)?;
    let kind = whole.get(9).copied().and_then(kind_of).ok_or(Bad::Kind)?;
    let seq = array(whole, 12).map(u64::from_le_bytes).ok_or(Bad::Short)?;
    if !(1..MAX_SEQ).contains(&seq) {
        return Err(Bad::Seq);
    }
    let call = array(whole, 20).map(Uuid::from_bytes).filter(|id| !id.is_nil()).map(CallId);
    Ok(Frame { kind, seq, call, form, body: rest(whole, HEAD), whole })
}

/// The frames that `bytes` begin with, up to the first that is none.
pub(crate) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let frame = decode(bytes).ok()?;
        bytes = rest(bytes, frame.whole.len());
        Some(frame)
    })
}

/// A frame on its way to the file: all of it but seq and CRC, which are known under the lock only.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) kind: Kind,
    pub(crate) call: Option<CallId>,
    bytes: Vec<u8>,
}

impl Draft {
    /// Writes `body` down as JSON.
    pub(crate) fn new<T: Serialize>(
        kind: Kind,
        call: Option<CallId>,
        body: &T,
    ) -> Result<Self, LedgerError> {
        let mut draft = Self::begin(Form::Json, kind, call);
        let written = serde_json::to_writer(&mut draft.bytes, body);
        draft.measured(written.map_err(|error| error.to_string()))
    }

    /// An intent.
    pub(crate) fn intent(intent: &Intent) -> Result<Self, LedgerError> {
        Self::packed(Kind::Intent, intent.call, intent)
    }

    /// The outcome of a call.
    pub(crate) fn outcome(call: CallId, end: &End) -> Result<Self, LedgerError> {
        Self::packed(Kind::Outcome, call, end)
    }

    /// Writes `body` down as MessagePack.
    fn packed<T: Serialize>(kind: Kind, call: CallId, body: &T) -> Result<Self, LedgerError> {
        let mut draft = Self::begin(Form::MessagePack, kind, Some(call));
        let written = rmp_serde::encode::write_named(&mut draft.bytes, body);
        draft.measured(written.map_err(|error| error.to_string()))
    }

    fn begin(form: Form, kind: Kind, call: Option<CallId>) -> Self {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend([0; 8]);
        bytes.extend([form as u8, kind as u8, 0, 0]);
        bytes.extend([0; 8]);
        bytes.extend(call.map_or([0; 16], |call| *call.0.as_bytes()));
        Self { kind, call, bytes }
    }

    fn measured(mut self, written: Result<(), String>) -> Result<Self, LedgerError> {
        written.map_err(|why| LedgerError::new(format!("a record cannot be written: {why}")))?;
        let length = self.bytes.len();
        match u32::try_from(length) {
            Ok(number) if length <= HEAD + MAX_BODY => {
                put(&mut self.bytes, 0, number.to_le_bytes());
            }
            _ => {
                return Err(LedgerError::new(format!(
                    "a record has {} bytes, {MAX_BODY} are allowed: shorten the names in it",
                    length - HEAD
                )));
            }
        }
        Ok(self)
    }

    /// Bytes of the frame.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Numbers it, and gives its bytes.
    pub(crate) fn seal(&mut self, seq: u64) -> &[u8] {
        put(&mut self.bytes, 12, seq.to_le_bytes());
        let sum = sum(&self.bytes);
        put(&mut self.bytes, 4, sum.to_le_bytes());
        &self.bytes
    }
}

/// Puts `value` at `at`, which lies inside `bytes`.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..at + N) {
        place.copy_from_slice(&value);
    }
}

#[cfg(test)]
mod tests;
