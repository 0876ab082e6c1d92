//! Programs in the store: written within what each root key may have there, read a few at a time.

use std::sync::Arc;

use tool::Code;
use tool::outcome::Failure;

use crate::Programs;
use crate::head::{Head, Heads};
use crate::keep::{self, Kept, Row};
use crate::program::State;

/// Bytes of one state; a value of the store has 4 MiB, and some of them are its seal.
const STATE: usize = (4 << 20) - (1 << 10);

impl Programs {
    /// Writes a program over what was read of it. Others of the same root key make room, where that has too
    /// many stored.
    ///
    /// # Errors
    /// [`Code::Conflict`] where another came first, [`Code::RateLimited`] and [`Code::TooLarge`] where it may not
    /// be stored, as it is too much.
    pub(crate) async fn write(&self, kept: &mut Kept) -> Result<(), Failure> {
        let mut bytes = kept.bytes();
        if bytes.len() > STATE && kept.program.has_ended() {
            kept.program.loses_its_result(bytes.len());
            bytes = kept.bytes();
        }
        if bytes.len() > STATE {
            let told = format!("the program has {} bytes, and {STATE} can be stored", bytes.len());
            return Err(Failure::new(Code::TooLarge, told));
        }
        let head = Head::of(&kept.program, bytes.len());
        let evicted = self.quota().admit(&head)?;
        for row in evicted {
            self.evict(&row).await;
        }
        let written = kept.write(self.parts.store.as_ref(), (head, bytes)).await;
        if written.is_err() && !kept.is_kept() {
            self.quota().remove(&kept.program.caller, kept.program.id);
        }
        written
    }

    /// The whole of a program. A few are read at once: each may have megabytes.
    pub(crate) async fn read(&self, row: &Row) -> Result<Option<Kept>, Failure> {
        // It is never closed.
        let _few = self.reads.acquire().await.ok();
        Kept::read(self.parts.store.as_ref(), row).await
    }

    /// A program of a root key that has too many: one that has ended is forgotten, one that waits for its caller
    /// ends.
    async fn evict(&self, row: &Row) {
        // One that runs again does not rest any more, and counts as such when it is written.
        let Ok(here) = self.ends(row) else { return };
        let evicted = async {
            let Some(mut kept) = self.read(row).await? else {
                return keep::forget(self.parts.store.as_ref(), row).await;
            };
            if kept.program.has_ended() {
                return keep::forget(self.parts.store.as_ref(), row).await;
            }
            if kept.program.state == State::Paused {
                let why = "its key had too many programs stored, and of those that waited for their \
                           caller it was the oldest";
                kept.program.ends(self.parts.clock.wall(), State::Expired, Err(why.to_owned()));
                let bytes = kept.bytes();
                let head = Head::of(&kept.program, bytes.len());
                self.quota().set(&head);
                kept.write(self.parts.store.as_ref(), (head, bytes)).await?;
                here.came(&kept, &[]);
            } else {
                self.quota().set(&Head::of(&kept.program, kept.bytes().len()));
            }
            Ok(())
        };
        let evicted: Result<(), Failure> = evicted.await;
        if let Err(failure) = evicted {
            tracing::warn!(program = %row.id, "an old program stays: {}", failure.message);
        }
    }

    /// Ends those whose time is over, forgets those that ended long ago, and has the bounds hold.
    pub(crate) async fn tidy(self: &Arc<Self>) -> Result<(), Failure> {
        let (store, now) = (self.parts.store.as_ref(), self.parts.clock.wall());
        let mut heads = Heads::of(store, None);
        while let Some(page) = heads.next().await? {
            for head in page {
                if keep::ended_long_ago(head.ended, now) {
                    keep::forget(store, &head.row()).await?;
                    self.quota().remove(&head.caller, head.id);
                } else if head.is_over(now) {
                    drop(self.go_on_soon(head.row(), None, false));
                }
            }
        }
        let beyond = self.quota().beyond();
        for row in beyond {
            self.evict(&row).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
