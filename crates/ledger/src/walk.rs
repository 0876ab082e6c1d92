//! Goes through the frames of one file, from place to place, and over what is damaged.

use std::io;

use crate::disk::DiskFile;
use crate::frame::{Bad, Frame, HEAD, decode, length};

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

/// A place in a file, and what was read ahead of it.
#[derive(Debug)]
pub(crate) struct Walk<'f> {
    file: &'f dyn DiskFile,
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
        let end = end.min(file.size()?);
        Ok(Self { file, buffer: Vec::new(), base: from, place: 0, end, search: SEARCH })
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
            let into = self.buffer.get_mut(old..).unwrap_or_default();
            let read = self.file.read_at(self.base + old as u64, into)?;
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
        self.buffer.get(self.place..).unwrap_or_default()
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
        match decode(self.buffer.get(place..).unwrap_or_default()) {
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
