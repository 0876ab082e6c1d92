//! Frame iterator of one file, which skips damaged ranges.

use std::io;

use crate::disk::DiskFile;
use crate::frame::{
    FRAME_HEADER_BYTES, Frame, FrameError, decode_frame, decode_verified_frame, frame_length,
};
use crate::legacy_tail::LegacyTail;
use crate::slice::{prefix, rest};

const READ_CHUNK_BYTES: usize = 256 << 10;

/// After a damaged range, every byte can be the start of a frame. This limits the candidate bytes
/// that are checksummed, so that a crafted file cannot cost hours.
const MAX_RESYNC_BYTES: usize = 256 << 20;

/// Next item of the walk.
#[derive(Debug)]
pub(crate) enum ReadStep<'b> {
    /// A frame and its offset.
    Frame(u64, Frame<'b>),
    /// Bytes from `at` on that are no frame.
    Garbage { at: u64, why: FrameError },
    /// No more from here on.
    End(u64),
}

/// A segment file, and the legacy tail that continues or replaces its end.
#[derive(Debug, Clone, Copy)]
struct SegmentContent<'f> {
    file: &'f dyn DiskFile,
    legacy_tail: Option<&'f LegacyTail>,
}

impl SegmentContent<'_> {
    fn read_at(self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let Some(tail) = self.legacy_tail else { return self.file.read_at(offset, into) };
        let Some(at) = offset.checked_sub(tail.offset) else {
            let most = usize::try_from(tail.offset - offset).unwrap_or(usize::MAX).min(into.len());
            return self
                .file
                .read_at(offset, into.get_mut(..most).ok_or(io::ErrorKind::InvalidInput)?);
        };
        let held = usize::try_from(at).ok().and_then(|at| tail.frames.get(at..));
        let held = held.filter(|held| !held.is_empty());
        let Some(held) = held else { return self.file.read_at(offset, into) };
        for (into, byte) in into.iter_mut().zip(held) {
            *into = *byte;
        }
        Ok(held.len().min(into.len()))
    }
}

/// Frame reader with a read-ahead buffer.
#[derive(Debug)]
pub(crate) struct FrameReader<'f> {
    content: SegmentContent<'f>,
    buffer: Vec<u8>,
    /// File offset of the buffer.
    buffer_offset: u64,
    /// Position in the buffer.
    position: usize,
    /// File offset at which to stop.
    end_offset: u64,
    resync_budget: usize,
}

impl<'f> FrameReader<'f> {
    /// Reads from `start` to `end`, or to the current end of the file.
    pub(crate) fn new(file: &'f dyn DiskFile, start: u64, end: u64) -> io::Result<Self> {
        Self::with_legacy_tail(file, (start, end), None)
    }

    /// Reads a segment that `tail` continues.
    pub(crate) fn with_legacy_tail(
        file: &'f dyn DiskFile,
        (start, end): (u64, u64),
        tail: Option<&'f LegacyTail>,
    ) -> io::Result<Self> {
        let size = file.file_size()?;
        // If a power failure truncated the segment, the tail does not continue it.
        let tail = tail.filter(|tail| tail.combined_end(size).is_some());
        let end = end.min(tail.and_then(|tail| tail.combined_end(size)).unwrap_or(size));
        let content = SegmentContent { file, legacy_tail: tail };
        Ok(Self {
            content,
            buffer: Vec::new(),
            buffer_offset: start,
            position: 0,
            end_offset: end,
            resync_budget: MAX_RESYNC_BYTES,
        })
    }

    fn file_position(&self) -> u64 {
        self.buffer_offset + self.position as u64
    }

    /// Fills the buffer to `want` bytes. Returns the number of bytes available.
    fn fill_buffer(&mut self, want: usize) -> io::Result<usize> {
        let have = self.buffer.len() - self.position;
        if have >= want {
            return Ok(have);
        }
        self.buffer.drain(..self.position);
        self.buffer_offset += self.position as u64;
        self.position = 0;
        while self.buffer.len() < want {
            let old = self.buffer.len();
            let left = self.end_offset.saturating_sub(self.buffer_offset + old as u64);
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(READ_CHUNK_BYTES);
            self.buffer.resize(old + room, 0);
            let into = self.buffer.get_mut(old..).ok_or(io::ErrorKind::InvalidInput)?;
            let read = self.content.read_at(self.buffer_offset + old as u64, into)?;
            self.buffer.truncate(old + read);
            if read == 0 {
                break;
            }
        }
        Ok(self.buffer.len())
    }

    /// Returns the length of the frame at the current offset, if one begins there.
    fn peek_length(&mut self) -> io::Result<Result<usize, FrameError>> {
        self.fill_buffer(FRAME_HEADER_BYTES)?;
        let length = match frame_length(self.remaining()) {
            Ok(length) => length,
            Err(bad) => return Ok(Err(bad)),
        };
        self.fill_buffer(length)?;
        Ok(decode_frame(self.remaining()).map(|frame| frame.bytes.len()))
    }

    fn remaining(&self) -> &[u8] {
        rest(&self.buffer, self.position)
    }

    /// Reads the next frame, or the next damaged range.
    pub(crate) fn read_next(&mut self) -> io::Result<ReadStep<'_>> {
        if self.fill_buffer(1)? == 0 {
            return Ok(ReadStep::End(self.file_position()));
        }
        let length = match self.peek_length()? {
            Ok(length) => length,
            Err(why) => {
                let at = self.file_position();
                self.resync()?;
                return Ok(ReadStep::Garbage { at, why });
            }
        };
        let at = self.file_position();
        let place = self.position;
        self.position += length;
        // Decoded again only for the buffer's lifetime.
        match decode_verified_frame(prefix(rest(&self.buffer, place), length)) {
            Ok(frame) => Ok(ReadStep::Frame(at, frame)),
            Err(why) => Ok(ReadStep::Garbage { at, why }),
        }
    }

    /// Skips to the next complete frame, or to the end.
    fn resync(&mut self) -> io::Result<()> {
        loop {
            self.position += 1;
            if self.fill_buffer(FRAME_HEADER_BYTES)? < FRAME_HEADER_BYTES || self.resync_budget == 0
            {
                break;
            }
            let Ok(length) = frame_length(self.remaining()) else { continue };
            self.resync_budget = self.resync_budget.saturating_sub(length);
            if self.peek_length()?.is_ok() {
                return Ok(());
            }
        }
        while self.fill_buffer(1)? > 0 {
            self.position = self.buffer.len();
        }
        Ok(())
    }
}
