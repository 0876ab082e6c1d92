//! What travels between Toolkeep and a worker: lengths first, little-endian, both ends the same binary.

use std::time::Duration;

/// Bytes before a request: the job, milliseconds, length.
pub(super) const REQUEST: usize = 9;
/// Bytes before an answer: the status, length.
pub(super) const ANSWER: usize = 5;
/// The longest request and answer, in bytes.
pub(super) const LONGEST: usize = 256 << 20;

/// What stands before a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) job: u8,
    pub(super) limit: Duration,
    pub(super) length: usize,
}

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// JSON.
    Value,
    /// Words for the model.
    Failure,
}

impl Head {
    pub(super) fn new(job: u8, limit: Duration, length: usize) -> Option<Self> {
        (length <= LONGEST).then_some(Self { job, limit, length })
    }

    pub(super) fn encode(self) -> [u8; REQUEST] {
        let mut bytes = [self.job; REQUEST];
        let limit = u32::try_from(self.limit.as_millis()).unwrap_or(u32::MAX).to_le_bytes();
        let length = u32::try_from(self.length).unwrap_or(u32::MAX).to_le_bytes();
        for (byte, of) in bytes.iter_mut().skip(1).zip(limit.into_iter().chain(length)) {
            *byte = of;
        }
        bytes
    }

    pub(super) fn decode(bytes: [u8; REQUEST]) -> Option<Self> {
        let (job, rest) = bytes.split_first()?;
        let (limit, rest) = rest.split_first_chunk()?;
        let (length, _) = rest.split_first_chunk()?;
        let limit = Duration::from_millis(u32::from_le_bytes(*limit).into());
        Self::new(*job, limit, usize::try_from(u32::from_le_bytes(*length)).ok()?)
    }
}

pub(super) fn answer(status: Status, length: usize) -> [u8; ANSWER] {
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    [if status == Status::Value { b'V' } else { b'F' }, a, b, c, d]
}

pub(super) fn answered([status, a, b, c, d]: [u8; ANSWER]) -> Option<(Status, usize)> {
    let status = match status {
        b'V' => Status::Value,
        b'F' => Status::Failure,
        _ => return None,
    };
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
    (length <= LONGEST).then_some((status, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_nothing_else_is_one() {
        let head = Head::new(b'S', Duration::from_millis(250), 7).unwrap();
        assert_eq!(Head::decode(head.encode()), Some(head));
        assert_eq!(Head::decode([b'P', 0, 0, 0, 0, 255, 255, 255, 255]), None);
        assert_eq!(answered(answer(Status::Failure, 3)), Some((Status::Failure, 3)));
        assert_eq!(answered([0; ANSWER]), None);
        assert_eq!(Head::new(b'S', Duration::ZERO, LONGEST + 1), None);
    }
}
