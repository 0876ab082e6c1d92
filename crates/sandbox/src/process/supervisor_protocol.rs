//! Messages between Toolkeep and a supervisor.
//!
//! Both ends are the same binary, so the only version check is one byte. Lengths are little-endian.
//! A hostile child may stop or kill the supervisor but cannot forge its answers, since it holds no
//! copy of the socket.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::ExitCause;

/// First byte, the only one that carries descriptors.
const START_BYTE: u8 = 1;
/// Kills the tree; followed by four bytes with the milliseconds of grace.
const KILL_BYTE: u8 = b'K';
/// Length of a kill request in bytes.
pub(super) const KILL_BYTES: usize = 5;
/// Maximum bytes of text in a report.
const MAX_REPORT_TEXT: usize = 512;

/// Descriptors of a start message: the request, then the child's three streams.
pub(super) struct StartMessage {
    pub(super) order: OwnedFd,
    pub(super) streams: [OwnedFd; 3],
}

/// Command to execute, with its whole environment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExecRequest {
    pub(crate) command: OsString,
    pub(crate) cwd: Option<OsString>,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Encoded sandbox; empty if there is none.
    pub(crate) sandbox_args: Vec<OsString>,
    /// Soft limit of descriptors, if Toolkeep changed its own.
    pub(crate) descriptors: Option<u64>,
}

/// Report of a supervisor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SupervisorReport {
    /// The command runs with this process id, which is also its group id.
    Started(i32),
    /// The command did not start, with the reason.
    StartFailed(String),
    /// The tree is gone; exit code of the command.
    Exited(i32),
    /// The tree is gone; signal that ended the command.
    Signaled(i32),
    /// Number of processes that could not be killed, since they run as another user.
    Unkillable(i32),
    /// The tree was killed because it exceeded its memory limit.
    MemoryLimitExceeded,
    /// Resource usage: CPU milliseconds and KiB of the largest process.
    Usage { cpu_ms: u64, peak_kib: u64 },
}

impl From<ExitCause> for SupervisorReport {
    fn from(cause: ExitCause) -> Self {
        match cause {
            ExitCause::Code(code) => Self::Exited(code),
            ExitCause::Signal(number) => Self::Signaled(number),
        }
    }
}

/// Sends the start message. Never blocks, as the socket is empty.
pub(super) fn send_start(socket: BorrowedFd<'_>, fds: &[BorrowedFd<'_>; 4]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("no space for four descriptors"));
    }
    let sent = rustix::net::sendmsg(
        socket,
        &[IoSlice::new(&[START_BYTE])],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives the start message, waiting for it.
pub(super) fn receive_start(socket: BorrowedFd<'_>) -> io::Result<StartMessage> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut fds = Vec::with_capacity(4);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            fds.extend(some);
        }
    }
    if got.bytes != 1 || byte != [START_BYTE] || got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("not a start message of this version"));
    }
    let fds: [OwnedFd; 4] = fds.try_into().map_err(|_| io::Error::other("not four descriptors"))?;
    let [order, stdin, stdout, stderr] = fds;
    Ok(StartMessage { order, streams: [stdin, stdout, stderr] })
}

pub(super) fn encode_kill(grace: Duration) -> [u8; KILL_BYTES] {
    let [a, b, c, d] = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX).to_le_bytes();
    [KILL_BYTE, a, b, c, d]
}

pub(super) fn decode_kill(bytes: [u8; KILL_BYTES]) -> Option<Duration> {
    let [kind, a, b, c, d] = bytes;
    (kind == KILL_BYTE).then(|| Duration::from_millis(u32::from_le_bytes([a, b, c, d]).into()))
}

impl SupervisorReport {
    /// Encodes kind, number, length and text.
    pub(super) fn encode(&self) -> Vec<u8> {
        let used;
        let (kind, number, text) = match self {
            Self::Started(pid) => (b'R', *pid, ""),
            Self::StartFailed(why) => (b'F', 0, why.as_str()),
            Self::Exited(code) => (b'C', *code, ""),
            Self::Signaled(signal) => (b'S', *signal, ""),
            Self::Unkillable(count) => (b'L', *count, ""),
            Self::MemoryLimitExceeded => (b'O', 0, ""),
            Self::Usage { cpu_ms, peak_kib } => {
                used = format!("{cpu_ms} {peak_kib}");
                (b'U', 0, used.as_str())
            }
        };
        let mut end = text.len().min(MAX_REPORT_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text.get(..end).unwrap_or_default();
        let mut bytes = vec![kind];
        bytes.extend(number.to_le_bytes());
        bytes.extend(u16::try_from(text.len()).unwrap_or(0).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    }

    /// Removes one report from the front of `bytes`; `None` if none is complete or it is invalid.
    pub(super) fn decode_next(bytes: &mut Vec<u8>) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<7>()?;
        let [kind, a, b, c, d, low, high] = *head;
        let text = rest.get(..usize::from(u16::from_le_bytes([low, high])))?;
        let number = i32::from_le_bytes([a, b, c, d]);
        let report = match kind {
            b'R' => Self::Started(number),
            b'F' => Self::StartFailed(String::from_utf8_lossy(text).into_owned()),
            b'C' => Self::Exited(number),
            b'S' => Self::Signaled(number),
            b'L' => Self::Unkillable(number),
            b'O' => Self::MemoryLimitExceeded,
            b'U' => {
                let text = std::str::from_utf8(text).ok()?;
                let (cpu_ms, peak_kib) = text.split_once(' ')?;
                Self::Usage { cpu_ms: cpu_ms.parse().ok()?, peak_kib: peak_kib.parse().ok()? }
            }
            _ => return None,
        };
        bytes.drain(..head.len() + text.len());
        Some(report)
    }
}

impl ExecRequest {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut list = |items: &mut dyn Iterator<Item = &OsString>| {
            let items: Vec<_> = items.collect();
            out.extend(encode_length(items.len()));
            for item in items {
                out.extend(encode_length(item.len()));
                out.extend(item.as_bytes());
            }
        };
        list(&mut std::iter::once(&self.command));
        list(&mut self.cwd.iter());
        list(&mut self.args.iter());
        list(&mut self.env.iter().map(|(name, _)| name));
        list(&mut self.env.iter().map(|(_, value)| value));
        list(&mut self.sandbox_args.iter());
        list(
            &mut self
                .descriptors
                .iter()
                .map(|soft| soft.to_string().into())
                .collect::<Vec<_>>()
                .iter(),
        );
        out
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let command = decode_list(&mut bytes)?.pop()?;
        let cwd = decode_list(&mut bytes)?.pop();
        let args = decode_list(&mut bytes)?;
        let names = decode_list(&mut bytes)?;
        let values = decode_list(&mut bytes)?;
        let sandbox_spec = decode_list(&mut bytes)?;
        let descriptors =
            decode_list(&mut bytes)?.pop().and_then(|soft| soft.to_str()?.parse().ok());
        (bytes.is_empty() && names.len() == values.len()).then(|| Self {
            command,
            cwd,
            args,
            env: names.into_iter().zip(values).collect(),
            sandbox_args: sandbox_spec,
            descriptors,
        })
    }
}

fn encode_length(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}

fn decode_list(bytes: &mut &[u8]) -> Option<Vec<OsString>> {
    let mut number = || {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        *bytes = rest;
        usize::try_from(u32::from_le_bytes(*head)).ok()
    };
    let count = number()?;
    let mut items = Vec::new();
    for _ in 0..count {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let (item, rest) =
            rest.split_at_checked(usize::try_from(u32::from_le_bytes(*head)).ok()?)?;
        *bytes = rest;
        items.push(OsString::from_vec(item.to_vec()));
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back_as_it_was() {
        let order = ExecRequest {
            command: "cat".into(),
            cwd: Some("/".into()),
            args: vec!["".into(), OsString::from_vec(vec![0xff, b'a'])],
            env: vec![("A".into(), "=".into()), ("B".into(), "".into())],
            sandbox_args: vec!["1".into()],
            descriptors: Some(1_024),
        };
        let bytes = order.encode();
        assert_eq!(ExecRequest::decode(&bytes), Some(order));
        for end in 0..bytes.len() {
            assert_eq!(ExecRequest::decode(&bytes[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn reports_come_back_one_by_one_from_any_cut() {
        let all = [
            SupervisorReport::Started(7),
            SupervisorReport::StartFailed("é".repeat(400)),
            SupervisorReport::Exited(-1),
            SupervisorReport::Signaled(9),
            SupervisorReport::Unkillable(2),
            SupervisorReport::MemoryLimitExceeded,
            SupervisorReport::Usage { cpu_ms: u64::MAX, peak_kib: 7 },
        ];
        let bytes: Vec<u8> = all.iter().flat_map(SupervisorReport::encode).collect();
        let (mut inbox, mut seen) = (Vec::new(), Vec::new());
        for byte in bytes {
            inbox.push(byte);
            seen.extend(SupervisorReport::decode_next(&mut inbox));
        }
        assert_eq!(seen[0], all[0]);
        assert_eq!(seen[1], SupervisorReport::StartFailed("é".repeat(256)));
        assert_eq!(seen[2..], all[2..]);
    }

    #[test]
    fn a_grace_comes_back_in_milliseconds() {
        assert_eq!(decode_kill(encode_kill(Duration::from_secs(2))), Some(Duration::from_secs(2)));
        assert_eq!(decode_kill([b'X', 0, 0, 0, 0]), None);
    }
}
