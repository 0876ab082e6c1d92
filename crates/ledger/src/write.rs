//! How a frame comes to its file: by one `write`, in the thread of its caller.
//!
//! A record has to be the system's before its call goes on, so that it stays when the process is killed.

use std::io;

use tool::LedgerError;

use crate::disk::{append_all, is_full};
use crate::failure::{Short, failed, short};
use crate::inner::Inner;
use crate::progress::Progress;
use crate::state::{Mode, State};

impl State {
    /// Writes a frame, the next one, behind all others. Where that fails it is not written, and the file
    /// may hold a part of it behind what is written.
    pub(crate) fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(active) = &mut self.active else {
            return Err(io::ErrorKind::NotFound.into());
        };
        append_all(active.file.as_ref(), frame)?;
        active.size += frame.len() as u64;
        let written = self.next_seq;
        if let Some(progress) = &mut self.progress {
            progress.replace(Progress { written, ..progress.now() });
        }
        Ok(())
    }
}

impl Inner {
    /// What a write left behind is cut off, so that the file ends with a whole frame. Where that
    /// fails too, or where something else than room is wanting, the file is not written again: the
    /// sync thread goes on in a new one.
    pub(crate) fn write_failed(&self, state: &mut State, error: &io::Error) -> LedgerError {
        let told = failed("a record cannot be written", &self.site.dir, error);
        let mut low = false;
        if let Some(active) = &mut state.active {
            let whole = active.file.truncate(active.size).is_ok();
            low = whole && is_full(error) && active.reserved_to.is_some();
            active.reserved_to = active.reserved_to.map(|_| active.size);
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
