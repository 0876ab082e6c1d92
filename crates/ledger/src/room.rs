//! Room that is kept set aside behind the end of the segment, and what is told where it cannot be had.

use std::io;

use crate::disk::is_full;
use crate::failure::{Short, failed, short};
use crate::segment::{free, reserve};
use crate::state::{Active, Mode, State};
use crate::sync::Syncer;

impl Syncer {
    /// What is told where the reserve cannot be had for `error`. Looks at the disk.
    pub(crate) fn short(&self, error: &io::Error) -> Short {
        let (site, reserve) = (&self.inner.site, self.inner.options.reserve_bytes);
        if is_full(error) {
            return short(&site.dir, free(site, reserve), reserve);
        }
        let what = "calls with effects are refused, because they cannot be recorded surely";
        let told = failed(what, &site.dir, error);
        Short { effects: told.clone(), all: told }
    }

    /// Takes over what was found, and says so where it is news.
    fn run_low(state: &mut State, short: Short) {
        let known = matches!(&state.mode, Mode::Low(old) if old.effects == short.effects);
        if !known {
            tracing::error!(error = %short.effects, "the record is short of room");
        }
        state.mode = Mode::Low(short);
    }

    /// Keeps room set aside behind the end, and finds out by that whether the disk is full.
    pub(crate) fn keep_reserve(&self) {
        let bytes = self.inner.options.reserve_bytes;
        let active = match &*self.inner.lock() {
            State { mode: Mode::Open | Mode::Low(_), active: Some(active), .. }
                if active.reserved_to.is_some() && active.reserve_left() < bytes =>
            {
                active.clone()
            }
            _ => return,
        };
        let reserved = reserve(active.file.as_ref(), active.size, bytes);
        let reserved = reserved.map_err(|error| self.short(&error));
        let mut state = self.inner.lock();
        // A write that failed meanwhile has given the room back: the next turn asks again.
        let holds =
            |now: &Active| (now.number, now.reserved_to) == (active.number, active.reserved_to);
        let same = state.active.as_ref().is_some_and(holds);
        match (reserved, &state.mode) {
            (Ok(_), _) if !same => {}
            (Ok(to), mode) => {
                let low = matches!(mode, Mode::Low(_));
                if let Some(active) = &mut state.active {
                    active.reserved_to = to;
                }
                if low {
                    tracing::info!("the record has room again");
                    state.mode = Mode::Open;
                    self.inner.settle(&mut state);
                }
            }
            (Err(short), Mode::Open | Mode::Low(_)) => Self::run_low(&mut state, short),
            (Err(_), _) => {}
        }
    }
}
