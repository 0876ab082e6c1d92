//! How a frame comes to its file: through the tail, where it fits, and many at once from there.

use std::io;

use tool::LedgerError;

use crate::disk::{append_all, is_full};
use crate::failure::{Short, failed, short};
use crate::inner::Inner;
use crate::state::{Mode, State};

impl State {
    /// Writes a frame, the next one, behind all others. Where that fails it is not written, and the file
    /// may hold a part of it behind what is written.
    pub(crate) fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let length = frame.len() as u64;
        // A tail that is full is empty after it.
        let kept = self.keep(frame) || {
            self.flush()?;
            self.keep(frame)
        };
        let Some(active) = &mut self.active else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if !kept {
            append_all(active.file.as_ref(), frame)?;
            active.written += length;
        }
        active.size += length;
        Ok(())
    }

    /// Puts a frame into the tail, if it has its room in the segment, where it is to go from there.
    fn keep(&mut self, frame: &[u8]) -> bool {
        let (Some(active), Some(tail)) = (&self.active, &mut self.tail) else { return false };
        let to = active.size + frame.len() as u64;
        let room = active.reserved_to.is_some_and(|room| to <= room);
        room && tail.put(active.head(self.next_seq), frame)
    }

    /// Writes to the segment what only the tail has, if anything is written to it at all.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let (Mode::Open | Mode::Low(_), Some(active)) = (&self.mode, &mut self.active) else {
            return Ok(());
        };
        let behind = usize::try_from(active.size - active.written).map_err(io::Error::other)?;
        if behind == 0 {
            return Ok(());
        }
        let from = self.pending.len().checked_sub(behind);
        let behind = from.and_then(|from| self.pending.get(from..));
        append_all(active.file.as_ref(), behind.ok_or(io::ErrorKind::InvalidData)?)?;
        active.written = active.size;
        if let Some(tail) = &mut self.tail {
            tail.begin(active.head(self.next_seq));
        }
        Ok(())
    }
}

impl Inner {
    /// Writes to the segment what only the tail has of it.
    pub(crate) fn flush(&self, state: &mut State) {
        if let Err(error) = state.flush() {
            self.write_failed(state, &error);
        }
    }

    /// Brings to the segment `number` what the tail has of it. Whether the segment has all now; one that is
    /// written no more has.
    pub(crate) fn bring(&self, number: u32) -> bool {
        let mut state = self.lock();
        if state.active.as_ref().is_some_and(|active| active.number != number) {
            return true;
        }
        self.flush(&mut state);
        state.active.as_ref().is_some_and(|active| active.written == active.size)
    }

    /// What a write left behind is cut off, so that the file ends with a whole frame. Where that
    /// fails too, or where something else than room is wanting, the file is not written again: the
    /// sync thread goes on in a new one. So it is where records are still on their way to the file.
    pub(crate) fn write_failed(&self, state: &mut State, error: &io::Error) -> LedgerError {
        let told = failed("a record cannot be written", &self.site.dir, error);
        let mut low = false;
        if let Some(active) = &mut state.active {
            let whole = active.file.truncate(active.written).is_ok();
            let all = active.written == active.size;
            low = whole && all && is_full(error) && active.reserved_to.is_some();
            active.reserved_to = active.reserved_to.map(|_| active.written);
        }
        tracing::error!(error = %told, "the record cannot be written");
        state.mode = if low {
            let all = short(&self.site.dir, 0, self.options.reserve_bytes).all;
            Mode::Low(Short { effects: told.clone(), all })
        } else {
            Mode::Stopped(told.clone())
        };
        told
    }
}
