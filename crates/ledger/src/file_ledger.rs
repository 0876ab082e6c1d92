//! The ledger as the rest of the program holds it.

use std::future::ready;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tool::{Boxed, Clock, Durability, End, Intent, Ledger, LedgerError, Refusal, Ticket, Waited};

use crate::chain::Checkpoint;
use crate::disk::Disk;
use crate::failure::{closed, failed, slow};
use crate::inner::Inner;
use crate::open::{Recovery, open};
use crate::options::Options;
use crate::segment::Site;
use crate::state::Confirmed;

/// The record of all calls, in append-only files of one directory. See the crate's page for what it
/// promises. Its futures need a tokio runtime with time.
///
/// Dropping it closes it, see [`FileLedger::close`].
#[derive(Debug)]
pub struct FileLedger {
    pub(crate) inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Builds the filters of segments.
    filters: Mutex<Option<JoinHandle<()>>>,
}

impl FileLedger {
    /// Opens the record in `dir`, which is made where it is not there, and starts its thread.
    ///
    /// A directory that cannot be written for want of room, or because the disk fails, does not keep
    /// it from opening: [`Ledger::health`] says so then, calls are refused, and the ledger comes
    /// back by itself. Damage is told in [`Recovery`].
    ///
    /// # Errors
    /// The directory cannot be made or read, another process has it, or a segment is of a newer
    /// format.
    pub fn open(
        dir: &Path,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<(Self, Recovery), LedgerError> {
        let site = Site { disk, dir: dir.to_owned(), writer: options.writer.clone() };
        let (inner, syncer, recovery) = open(site, clock, options)?;
        let thread = std::thread::Builder::new()
            .name("ledger-sync".to_owned())
            .spawn(move || syncer.run())
            .map_err(|error| failed("no thread for the record can be started", dir, &error))?;
        let of_filters = Arc::clone(&inner);
        let filters = std::thread::Builder::new()
            .name("ledger-filters".to_owned())
            .spawn(move || crate::filters::run(&of_filters));
        // Without it searches read segments.
        let filters = filters.inspect_err(
            |error| tracing::warn!(%error, "no thread for the filters of the record can be started"),
        );
        let (thread, filters) = (Mutex::new(Some(thread)), Mutex::new(filters.ok()));
        Ok((Self { inner, thread, filters }, recovery))
    }

    /// Syncs and seals everything, and gives the directory back. Waits for the disk. Tickets that
    /// are still out cannot be ended afterwards: those calls show as unknown.
    pub fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.inner.filter_work.close();
        let filters = self.filters.lock().unwrap_or_else(PoisonError::into_inner).take();
        if filters.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the record's filters ended by a fault");
        }
        if let Some(thread) = thread {
            self.inner.close();
            if thread.join().is_err() {
                tracing::error!("the ledger's thread ended by a fault");
            }
        }
    }

    /// The last checkpoint on record. Kept where the ledger's files are not, it shows later that
    /// nothing before it was cut off or written anew: see [`crate::verify`].
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.inner.checkpoint().clone()
    }

    async fn confirm(&self, confirmed: Confirmed) -> Result<(), LedgerError> {
        let wait = self.inner.options.sync_wait;
        match tokio::time::timeout(wait, confirmed).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(closed(&self.inner.site.dir)),
            Err(_) => Err(slow(&self.inner.site.dir, wait)),
        }
    }

    async fn confirm_intent(
        &self,
        ticket: Ticket,
        confirmed: Confirmed,
    ) -> Result<Ticket, LedgerError> {
        match self.confirm(confirmed).await {
            Ok(()) => Ok(ticket),
            Err(error) => {
                self.inner.not_run(ticket.redeem());
                Err(error)
            }
        }
    }

    fn write_outcome(
        &self,
        ticket: Ticket,
        end: &End,
        need: Durability,
    ) -> Result<Option<Confirmed>, LedgerError> {
        if !self.inner.is_live(ticket.call()) {
            let call = ticket.call();
            return Err(LedgerError::new(format!(
                "the ticket of call `{call}` was not issued by this ledger"
            )));
        }
        self.inner.outcome(ticket.redeem(), end, need)
    }
}

impl Drop for FileLedger {
    fn drop(&mut self) {
        self.close();
    }
}

impl Ledger for FileLedger {
    fn begin(&self, intent: Intent, need: Durability) -> Boxed<'_, Result<Ticket, LedgerError>> {
        // Written at once: there is nothing to wait for unless it is to be synced.
        match self.inner.intent(&intent, need) {
            Ok((ticket, Some(confirmed))) => Box::pin(self.confirm_intent(ticket, confirmed)),
            Ok((ticket, None)) => Box::pin(ready(Ok(ticket))),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn finish(
        &self,
        ticket: Ticket,
        end: End,
        need: Durability,
    ) -> Boxed<'_, Result<(), LedgerError>> {
        match self.write_outcome(ticket, &end, need) {
            Ok(Some(confirmed)) => Box::pin(self.confirm(confirmed)),
            Ok(None) => Box::pin(ready(Ok(()))),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn wait(&self, waited: &Waited) -> Result<(), LedgerError> {
        self.inner.waited(waited)
    }

    fn refuse(&self, refusal: Refusal) {
        self.inner.refuse(&refusal);
    }

    fn health(&self) -> Result<(), LedgerError> {
        self.inner.health()
    }
}
