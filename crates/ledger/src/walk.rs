//! Goes through the frames of one file, from place to place, and over what is damaged.

use std::io;

use crate::disk::DiskFile;
use crate::frame::{Bad, Frame, HEAD, decode, length};
use crate::old_tail::OldTail;
use crate::slice::rest;

const CHUNK: usize = 256 << 10;

/// Behind a damaged place every byte may be the beginning of a frame. So many bytes of such
/// candidates are summed up at most, so that a file made for it cannot cost hours.
const SEARCH: usize = 256 << 20;

/// What comes next.
#[derive(Debug)]
pub(crate) enum Step<'b> {
    /// A frame, and where it begins.
    Frame(u64, Frame<'b>),
    /// Bytes from `at` on that are no frame.
    Garbage { at: u64, why: Bad },
    /// No more from here on.
    End(u64),
}

/// A file, and what an older version left behind it, or in the place of its end.
#[derive(Debug, Clone, Copy)]
struct Content<'f> {
    file: &'f dyn DiskFile,
    tail: Option<&'f OldTail>,
}

impl Content<'_> {
    fn read_at(self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let Some(tail) = self.tail else { return self.file.read_at(offset, into) };
        let Some(at) = offset.checked_sub(tail.from) else {
            let most = usize::try_from(tail.from - offset).unwrap_or(usize::MAX).min(into.len());
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

/// A place in a file, and what was read ahead of it.
#[derive(Debug)]
pub(crate) struct Walk<'f> {
    content: Content<'f>,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    base: u64,
    /// Where in the buffer the place is.
    place: usize,
    /// Where in the file to stop.
    end: u64,
    search: usize,
}

impl<'f> Walk<'f> {
    /// From `from` to `end`, or to where the file ends now.
    pub(crate) fn new(file: &'f dyn DiskFile, from: u64, end: u64) -> io::Result<Self> {
        Self::followed(file, (from, end), None)
    }

    /// The same through a segment that is followed by `tail`.
    pub(crate) fn followed(
        file: &'f dyn DiskFile,
        (from, end): (u64, u64),
        tail: Option<&'f OldTail>,
    ) -> io::Result<Self> {
        let size = file.size()?;
        // A loss of power took something from the segment: the tail does not follow it.
        let tail = tail.filter(|tail| tail.end(size).is_some());
        let end = end.min(tail.and_then(|tail| tail.end(size)).unwrap_or(size));
        let content = Content { file, tail };
        Ok(Self { content, buffer: Vec::new(), base: from, place: 0, end, search: SEARCH })
    }

    fn at(&self) -> u64 {
        self.base + self.place as u64
    }

    /// Reads until `want` bytes are there. Returns how many are.
    fn fill(&mut self, want: usize) -> io::Result<usize> {
        let have = self.buffer.len() - self.place;
        if have >= want {
            return Ok(have);
        }
        self.buffer.drain(..self.place);
        self.base += self.place as u64;
        self.place = 0;
        while self.buffer.len() < want {
            let old = self.buffer.len();
            let left = self.end.saturating_sub(self.base + old as u64);
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK);
            self.buffer.resize(old + room, 0);
            let into = self.buffer.get_mut(old..).ok_or(io::ErrorKind::InvalidInput)?;
            let read = self.content.read_at(self.base + old as u64, into)?;
            self.buffer.truncate(old + read);
            if read == 0 {
                break;
            }
        }
        Ok(self.buffer.len())
    }

    /// The length of the frame at the place, if one is there.
    fn probe(&mut self) -> io::Result<Result<usize, Bad>> {
        self.fill(HEAD)?;
        let length = match length(self.ahead()) {
            Ok(length) => length,
            Err(bad) => return Ok(Err(bad)),
        };
        self.fill(length)?;
        Ok(decode(self.ahead()).map(|frame| frame.whole.len()))
    }

    fn ahead(&self) -> &[u8] {
        rest(&self.buffer, self.place)
    }

    /// The next frame, or the next damaged place.
    pub(crate) fn next(&mut self) -> io::Result<Step<'_>> {
        if self.fill(1)? == 0 {
            return Ok(Step::End(self.at()));
        }
        let length = match self.probe()? {
            Ok(length) => length,
            Err(why) => {
                let at = self.at();
                self.search()?;
                return Ok(Step::Garbage { at, why });
            }
        };
        let at = self.at();
        let place = self.place;
        self.place += length;
        // It was just decoded: this only gives it the buffer's lifetime.
        match decode(rest(&self.buffer, place)) {
            Ok(frame) => Ok(Step::Frame(at, frame)),
            Err(why) => Ok(Step::Garbage { at, why }),
        }
    }

    /// Goes to the next whole frame behind the place, or to the end.
    fn search(&mut self) -> io::Result<()> {
        loop {
            self.place += 1;
            if self.fill(HEAD)? < HEAD || self.search == 0 {
                break;
            }
            let Ok(length) = length(self.ahead()) else { continue };
            self.search = self.search.saturating_sub(length);
            if self.probe()?.is_ok() {
                return Ok(());
            }
        }
        while self.fill(1)? > 0 {
            self.place = self.buffer.len();
        }
        Ok(())
    }
}
