//! The protocol between Toolkeep and a worker: little-endian, length-prefixed messages. Both ends
//! run the same binary.

use std::time::Duration;

/// Bytes of a request header: job, time limit in milliseconds, length.
pub(super) const REQUEST: usize = 9;
/// Bytes of a response header: status, CPU time in milliseconds, peak memory in KiB, length.
pub(super) const ANSWER: usize = 13;
/// Largest request and response, in bytes.
pub(super) const LONGEST: usize = 256 << 20;

/// Header of a request to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) job: u8,
    pub(super) limit: Duration,
    pub(super) length: usize,
}

/// Kind of response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// JSON.
    Value,
    /// An error message for the model.
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

/// Header of a response from a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) status: Status,
    /// CPU time of this request in milliseconds, and peak memory of the worker in KiB.
    pub(super) used: (u64, u64),
    pub(super) length: usize,
}

impl Told {
    pub(super) fn encode(self) -> [u8; ANSWER] {
        let status = if self.status == Status::Value { b'V' } else { b'F' };
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let numbers = [self.used.0, self.used.1, self.length as u64].map(number);
        let mut bytes = [status; ANSWER];
        for (byte, of) in bytes.iter_mut().skip(1).zip(numbers.into_iter().flatten()) {
            *byte = of;
        }
        bytes
    }

    pub(super) fn decode(bytes: [u8; ANSWER]) -> Option<Self> {
        let (status, rest) = bytes.split_first()?;
        let status = match status {
            b'V' => Status::Value,
            b'F' => Status::Failure,
            _ => return None,
        };
        let (numbers, _) = rest.as_chunks::<4>();
        let mut numbers = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let used = (numbers.next()?.into(), numbers.next()?.into());
        let length = usize::try_from(numbers.next()?).ok()?;
        (length <= LONGEST).then_some(Self { status, used, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_nothing_else_is_one() {
        let head = Head::new(b'S', Duration::from_millis(250), 7).unwrap();
        assert_eq!(Head::decode(head.encode()), Some(head));
        assert_eq!(Head::decode([b'P', 0, 0, 0, 0, 255, 255, 255, 255]), None);
        let told = Told { status: Status::Failure, used: (70_000, 9), length: 3 };
        assert_eq!(Told::decode(told.encode()), Some(told));
        assert_eq!(Told::decode([0; ANSWER]), None);
        assert_eq!(Told::decode([b'V'; ANSWER]), None);
        assert_eq!(Head::new(b'S', Duration::ZERO, LONGEST + 1), None);
    }
}
