//! The protocol between Toolkeep and a worker: little-endian, length-prefixed messages. Both ends
//! run the same binary.

use std::time::Duration;

use sandbox::process::ResourceUsage;
use tool::clock::duration_millis;

/// Bytes of a request header: job, time limit in milliseconds, length.
pub(super) const REQUEST_HEADER_BYTES: usize = 9;
/// Bytes of a response header: status, CPU time in milliseconds, peak memory in KiB, length.
pub(super) const RESPONSE_HEADER_BYTES: usize = 13;
/// Largest request and response, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// Header of a request to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestHeader {
    pub(super) job_code: u8,
    pub(super) time_limit: Duration,
    pub(super) length: usize,
}

/// Kind of response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseStatus {
    /// JSON.
    Value,
    /// An error message for the model.
    Failure,
}

impl RequestHeader {
    pub(super) fn new(job: u8, limit: Duration, length: usize) -> Option<Self> {
        (length <= MAX_MESSAGE_BYTES).then_some(Self { job_code: job, time_limit: limit, length })
    }

    pub(super) fn encode(self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [self.job_code; REQUEST_HEADER_BYTES];
        let limit = u32::try_from(self.time_limit.as_millis()).unwrap_or(u32::MAX).to_le_bytes();
        let length = u32::try_from(self.length).unwrap_or(u32::MAX).to_le_bytes();
        for (byte, of) in bytes.iter_mut().skip(1).zip(limit.into_iter().chain(length)) {
            *byte = of;
        }
        bytes
    }

    pub(super) fn decode(bytes: [u8; REQUEST_HEADER_BYTES]) -> Option<Self> {
        let (job, rest) = bytes.split_first()?;
        let (limit, rest) = rest.split_first_chunk()?;
        let (length, _) = rest.split_first_chunk()?;
        let limit = Duration::from_millis(u32::from_le_bytes(*limit).into());
        Self::new(*job, limit, usize::try_from(u32::from_le_bytes(*length)).ok()?)
    }
}

/// Header of a response from a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResponseHeader {
    pub(super) status: ResponseStatus,
    /// CPU time of this request, and peak memory of the worker.
    pub(super) usage: ResourceUsage,
    pub(super) length: usize,
}

impl ResponseHeader {
    pub(super) fn encode(self) -> [u8; RESPONSE_HEADER_BYTES] {
        let status = if self.status == ResponseStatus::Value { b'V' } else { b'F' };
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let cpu_ms = duration_millis(self.usage.cpu_time);
        let numbers = [cpu_ms, self.usage.peak_kib, self.length as u64].map(number);
        let mut bytes = [status; RESPONSE_HEADER_BYTES];
        for (byte, of) in bytes.iter_mut().skip(1).zip(numbers.into_iter().flatten()) {
            *byte = of;
        }
        bytes
    }

    pub(super) fn decode(bytes: [u8; RESPONSE_HEADER_BYTES]) -> Option<Self> {
        let (status, rest) = bytes.split_first()?;
        let status = match status {
            b'V' => ResponseStatus::Value,
            b'F' => ResponseStatus::Failure,
            _ => return None,
        };
        let (numbers, _) = rest.as_chunks::<4>();
        let mut numbers = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let usage = ResourceUsage {
            cpu_time: Duration::from_millis(numbers.next()?.into()),
            peak_kib: numbers.next()?.into(),
        };
        let length = usize::try_from(numbers.next()?).ok()?;
        (length <= MAX_MESSAGE_BYTES).then_some(Self { status, usage, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_nothing_else_is_one() {
        let head = RequestHeader::new(b'S', Duration::from_millis(250), 7).unwrap();
        assert_eq!(RequestHeader::decode(head.encode()), Some(head));
        assert_eq!(RequestHeader::decode([b'P', 0, 0, 0, 0, 255, 255, 255, 255]), None);
        let usage = ResourceUsage { cpu_time: Duration::from_secs(70), peak_kib: 9 };
        let told = ResponseHeader { status: ResponseStatus::Failure, usage, length: 3 };
        assert_eq!(ResponseHeader::decode(told.encode()), Some(told));
        assert_eq!(ResponseHeader::decode([0; RESPONSE_HEADER_BYTES]), None);
        assert_eq!(ResponseHeader::decode([b'V'; RESPONSE_HEADER_BYTES]), None);
        assert_eq!(RequestHeader::new(b'S', Duration::ZERO, MAX_MESSAGE_BYTES + 1), None);
    }
}
