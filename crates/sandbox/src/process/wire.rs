//! The messages between Toolkeep and a supervisor.
//!
//! Both ends are the same binary, so there is no version but one byte that says so. Lengths are
//! little-endian. The supervisor's answers come from a process that a hostile child may stop or kill
//! but not speak for: it holds no copy of the socket.

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

/// The first byte, and the only one beside which descriptors travel.
const START: u8 = 1;
/// Asks for the end of the tree; four bytes follow, milliseconds of grace.
const KILL: u8 = b'K';
/// The bytes of a request to kill.
pub(super) const KILL_BYTES: usize = 5;
/// Longest text in a report, in bytes.
const MOST_TEXT: usize = 512;

/// The descriptors of a start: the order, then the child's three streams.
pub(super) struct Start {
    pub(super) order: OwnedFd,
    pub(super) streams: [OwnedFd; 3],
}

/// What to execute, with its whole environment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) command: OsString,
    pub(crate) cwd: Option<OsString>,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// The words of its cage; none where it has none.
    pub(crate) cage: Vec<OsString>,
    /// The soft limit of descriptors, where Toolkeep has another one.
    pub(crate) descriptors: Option<u64>,
}

/// What a supervisor tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs, under this process id, which is also its group's.
    Running(i32),
    /// It does not, and why.
    Failed(String),
    /// The tree is gone; the command's own exit code.
    Code(i32),
    /// The tree is gone; the signal that ended the command.
    Signal(i32),
    /// So many processes could not be killed: they run as someone else.
    Left(i32),
    /// The tree was ended because it took more memory than it may.
    Over,
    /// What it took: milliseconds of processor time, KiB of its largest process.
    Used(u64, u64),
}

/// Sends the start message; never waits, as the socket is empty.
pub(super) fn send_start(to: BorrowedFd<'_>, fds: &[BorrowedFd<'_>; 4]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("no room for four descriptors"));
    }
    let sent =
        rustix::net::sendmsg(to, &[IoSlice::new(&[START])], &mut control, SendFlags::NOSIGNAL)?;
    if sent == 1 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives the start message; waits for it.
pub(super) fn receive_start(from: BorrowedFd<'_>) -> io::Result<Start> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = rustix::net::recvmsg(
        from,
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
    if got.bytes != 1 || byte != [START] || got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("not a start message of this version"));
    }
    let fds: [OwnedFd; 4] = fds.try_into().map_err(|_| io::Error::other("not four descriptors"))?;
    let [order, stdin, stdout, stderr] = fds;
    Ok(Start { order, streams: [stdin, stdout, stderr] })
}

pub(super) fn encode_kill(grace: Duration) -> [u8; KILL_BYTES] {
    let [a, b, c, d] = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX).to_le_bytes();
    [KILL, a, b, c, d]
}

pub(super) fn decode_kill(bytes: [u8; KILL_BYTES]) -> Option<Duration> {
    let [kind, a, b, c, d] = bytes;
    (kind == KILL).then(|| Duration::from_millis(u32::from_le_bytes([a, b, c, d]).into()))
}

impl Report {
    /// Kind, number, length, text.
    pub(super) fn encode(&self) -> Vec<u8> {
        let used;
        let (kind, number, text) = match self {
            Self::Running(pid) => (b'R', *pid, ""),
            Self::Failed(why) => (b'F', 0, why.as_str()),
            Self::Code(code) => (b'C', *code, ""),
            Self::Signal(signal) => (b'S', *signal, ""),
            Self::Left(count) => (b'L', *count, ""),
            Self::Over => (b'O', 0, ""),
            Self::Used(time, memory) => {
                used = format!("{time} {memory}");
                (b'U', 0, used.as_str())
            }
        };
        let mut end = text.len().min(MOST_TEXT);
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

    /// Takes one report off the front of `bytes`; `None` where none is complete or it is not one.
    pub(super) fn take(bytes: &mut Vec<u8>) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<7>()?;
        let [kind, a, b, c, d, low, high] = *head;
        let text = rest.get(..usize::from(u16::from_le_bytes([low, high])))?;
        let number = i32::from_le_bytes([a, b, c, d]);
        let report = match kind {
            b'R' => Self::Running(number),
            b'F' => Self::Failed(String::from_utf8_lossy(text).into_owned()),
            b'C' => Self::Code(number),
            b'S' => Self::Signal(number),
            b'L' => Self::Left(number),
            b'O' => Self::Over,
            b'U' => {
                let text = std::str::from_utf8(text).ok()?;
                let (time, memory) = text.split_once(' ')?;
                Self::Used(time.parse().ok()?, memory.parse().ok()?)
            }
            _ => return None,
        };
        bytes.drain(..head.len() + text.len());
        Some(report)
    }
}

impl Order {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut list = |items: &mut dyn Iterator<Item = &OsString>| {
            let items: Vec<_> = items.collect();
            out.extend(length(items.len()));
            for item in items {
                out.extend(length(item.len()));
                out.extend(item.as_bytes());
            }
        };
        list(&mut std::iter::once(&self.command));
        list(&mut self.cwd.iter());
        list(&mut self.args.iter());
        list(&mut self.env.iter().map(|(name, _)| name));
        list(&mut self.env.iter().map(|(_, value)| value));
        list(&mut self.cage.iter());
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
        let command = list(&mut bytes)?.pop()?;
        let cwd = list(&mut bytes)?.pop();
        let args = list(&mut bytes)?;
        let names = list(&mut bytes)?;
        let values = list(&mut bytes)?;
        let cage = list(&mut bytes)?;
        let descriptors = list(&mut bytes)?.pop().and_then(|soft| soft.to_str()?.parse().ok());
        (bytes.is_empty() && names.len() == values.len()).then(|| Self {
            command,
            cwd,
            args,
            env: names.into_iter().zip(values).collect(),
            cage,
            descriptors,
        })
    }
}

fn length(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}

fn list(bytes: &mut &[u8]) -> Option<Vec<OsString>> {
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
        let order = Order {
            command: "cat".into(),
            cwd: Some("/".into()),
            args: vec!["".into(), OsString::from_vec(vec![0xff, b'a'])],
            env: vec![("A".into(), "=".into()), ("B".into(), "".into())],
            cage: vec!["1".into()],
            descriptors: Some(1_024),
        };
        let bytes = order.encode();
        assert_eq!(Order::decode(&bytes), Some(order));
        for end in 0..bytes.len() {
            assert_eq!(Order::decode(&bytes[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn reports_come_back_one_by_one_from_any_cut() {
        let all = [
            Report::Running(7),
            Report::Failed("é".repeat(400)),
            Report::Code(-1),
            Report::Signal(9),
            Report::Left(2),
            Report::Over,
            Report::Used(u64::MAX, 7),
        ];
        let bytes: Vec<u8> = all.iter().flat_map(Report::encode).collect();
        let (mut inbox, mut seen) = (Vec::new(), Vec::new());
        for byte in bytes {
            inbox.push(byte);
            seen.extend(Report::take(&mut inbox));
        }
        assert_eq!(seen[0], all[0]);
        assert_eq!(seen[1], Report::Failed("é".repeat(256)));
        assert_eq!(seen[2..], all[2..]);
    }

    #[test]
    fn a_grace_comes_back_in_milliseconds() {
        assert_eq!(decode_kill(encode_kill(Duration::from_secs(2))), Some(Duration::from_secs(2)));
        assert_eq!(decode_kill([b'X', 0, 0, 0, 0]), None);
    }
}
