//! One record as bytes: 36 bytes of head, little endian, and a body of JSON.
//!
//! ```text
//!  0  u32  length of the whole frame
//!  4  u32  CRC-32 of bytes 0..4 and 8..length
//!  8  u8   version, 1
//!  9  u8   kind
//! 10  u16  zero
//! 12  u64  seq
//! 20  [16] call id; zeros where the record belongs to no call
//! 36       body
//! ```
//!
//! The CRC tells a frame that was not written to its end from one that was; it proves nothing
//! against a hand that changes the file, which the chain is for.

use std::fmt;

use serde::Serialize;
use tool::ledger::Kind;
use tool::{CallId, End, Intent, LedgerError};
use uuid::Uuid;

use crate::body;

/// Bytes before the body.
pub(crate) const HEAD: usize = 36;
/// The longest body. Our own records have a few hundred bytes.
pub(crate) const MAX_BODY: usize = 64 << 10;
/// Numbers of records stay below this, so that adding to one cannot overflow.
pub(crate) const MAX_SEQ: u64 = 1 << 62;
const VERSION: u8 = 1;

/// A frame that was read: it is whole and its CRC holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'b> {
    pub(crate) kind: Kind,
    pub(crate) seq: u64,
    pub(crate) call: Option<CallId>,
    pub(crate) body: &'b [u8],
    pub(crate) whole: &'b [u8],
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
    match array(head, 8) {
        Some([VERSION, kind, 0, 0]) if kind_of(kind).is_some() => Ok(length),
        Some([VERSION, ..]) => Err(Bad::Kind),
        _ => Err(Bad::Version),
    }
}

fn sum(frame: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(frame.get(..4).unwrap_or_default());
    sum.update(frame.get(8..).unwrap_or_default());
    sum.finalize()
}

/// Reads the frame that begins `bytes`, which may go on behind it.
pub(crate) fn decode(bytes: &[u8]) -> Result<Frame<'_>, Bad> {
    let whole = bytes.get(..length(bytes)?).ok_or(Bad::Short)?;
    if array(whole, 4).map(u32::from_le_bytes) != Some(sum(whole)) {
        return Err(Bad::Sum);
    }
    let kind = whole.get(9).copied().and_then(kind_of).ok_or(Bad::Kind)?;
    let seq = array(whole, 12).map(u64::from_le_bytes).ok_or(Bad::Short)?;
    if !(1..MAX_SEQ).contains(&seq) {
        return Err(Bad::Seq);
    }
    let call = array(whole, 20).map(Uuid::from_bytes).filter(|id| !id.is_nil()).map(CallId);
    Ok(Frame { kind, seq, call, body: whole.get(HEAD..).unwrap_or_default(), whole })
}

/// The frames that `bytes` begin with, up to the first that is none.
pub(crate) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let frame = decode(bytes).ok()?;
        bytes = bytes.get(frame.whole.len()..).unwrap_or_default();
        Some(frame)
    })
}

/// A frame on its way to the file: all of it but seq and CRC, which are known under the lock only.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) call: Option<CallId>,
    bytes: Vec<u8>,
}

impl Draft {
    /// Writes `body` down, in serde's words.
    pub(crate) fn new<T: Serialize>(
        kind: Kind,
        call: Option<CallId>,
        body: &T,
    ) -> Result<Self, LedgerError> {
        let mut draft = Self::begin(kind, call);
        serde_json::to_writer(&mut draft.bytes, body).map_err(|error| {
            LedgerError::new(format!("a record cannot be written as JSON: {error}"))
        })?;
        draft.measured()
    }

    /// An intent.
    pub(crate) fn intent(intent: &Intent) -> Result<Self, LedgerError> {
        let mut draft = Self::begin(Kind::Intent, Some(intent.call));
        body::intent(&mut draft.bytes, intent);
        draft.measured()
    }

    /// The outcome of a call.
    pub(crate) fn outcome(call: CallId, end: &End) -> Result<Self, LedgerError> {
        let mut draft = Self::begin(Kind::Outcome, Some(call));
        body::end(&mut draft.bytes, end);
        draft.measured()
    }

    fn begin(kind: Kind, call: Option<CallId>) -> Self {
        let mut bytes = Vec::with_capacity(1_024);
        bytes.extend([0; 8]);
        bytes.extend([VERSION, kind as u8, 0, 0]);
        bytes.extend([0; 8]);
        bytes.extend(call.map_or([0; 16], |call| *call.0.as_bytes()));
        Self { call, bytes }
    }

    fn measured(mut self) -> Result<Self, LedgerError> {
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
mod tests {
    use super::{Bad, CallId, Draft, HEAD, Kind, MAX_BODY, MAX_SEQ, Uuid, decode, frames};

    fn sealed(seq: u64, body: &str) -> Vec<u8> {
        let call = CallId(Uuid::from_u128(9));
        Draft::new(Kind::Intent, Some(call), &body).unwrap().seal(seq).to_vec()
    }

    #[test]
    fn frames_read_back() {
        let bytes = [sealed(7, "a"), sealed(8, ""), vec![1, 2, 3]].concat();
        let read = frames(&bytes).map(|f| (f.seq, f.body.to_vec())).collect::<Vec<_>>();
        assert_eq!(read, [(7, b"\"a\"".to_vec()), (8, b"\"\"".to_vec())]);
        let gap = Draft::new(Kind::Gap, None, &1).unwrap().seal(MAX_SEQ - 1).to_vec();
        let gap = decode(&gap).unwrap();
        let none = Draft::new(Kind::Gap, None, &1).unwrap().seal(MAX_SEQ).to_vec();
        assert_eq!(decode(&none).unwrap_err(), Bad::Seq);
        assert_eq!((gap.seq, gap.kind, gap.call), (MAX_SEQ - 1, Kind::Gap, None));
    }

    #[test]
    fn every_changed_bit_is_seen() {
        let good = sealed(7, "hello");
        decode(&good).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert_eq!(decode(&good[..cut]).unwrap_err(), Bad::Short, "cut at {cut}");
        }
    }

    #[test]
    fn a_body_has_a_bound() {
        Draft::new(Kind::Intent, None, &"x".repeat(MAX_BODY - 2)).unwrap();
        let error = Draft::new(Kind::Intent, None, &"x".repeat(MAX_BODY - 1)).unwrap_err();
        assert!(
            error.message.starts_with("a record has 65537 bytes, 65536 are allowed"),
            "{error}"
        );
        let mut long = sealed(1, "a");
        long[..4].copy_from_slice(&u32::try_from(HEAD + MAX_BODY + 1).unwrap().to_le_bytes());
        assert_eq!(decode(&long).unwrap_err(), Bad::Length);
    }
}
