//! A ledger around a ledger: tells how each call ended, exactly once, as the record has it.
//!
//! A door does not learn how a call ended whose caller went away; the record does. What tells it goes with
//! the ticket of the ledger within; nothing is kept here, and nothing written.

use std::fmt;
use std::sync::Arc;

use tool::ledger::{Hear, Watch};
use tool::outcome::Status;
use tool::{
    Boxed, Durability, End, Intent, Interface, Ledger, LedgerError, Refusal, Ticket, Waited,
};

/// The same ledger, with `hear` told how each call ended: refused, by its outcome, abandoned, or unknown
/// where its outcome could not be written.
pub fn watched(
    ledger: Arc<dyn Ledger>,
    hear: impl Fn(Interface, Status) + Send + Sync + 'static,
) -> Arc<dyn Ledger> {
    Arc::new(Watched { ledger, hear: Arc::new(hear) })
}

struct Watched {
    ledger: Arc<dyn Ledger>,
    hear: Hear,
}

impl Ledger for Watched {
    fn begin(&self, intent: Intent, need: Durability) -> Boxed<'_, Result<Ticket, LedgerError>> {
        Box::pin(async move {
            // Dropped with the future or the ticket: the ledger notes the call as abandoned then.
            let (hear, door) = (Arc::clone(&self.hear), intent.door);
            let mut watch = Watch { hear, door, status: Some(Status::Abandoned) };
            let begun = self.ledger.begin(intent, need).await;
            let ticket = begun.inspect_err(|_| watch.status = Some(Status::Refused))?;
            Ok(ticket.watched(watch))
        })
    }

    fn finish(
        &self,
        mut ticket: Ticket,
        end: End,
        need: Durability,
    ) -> Boxed<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let Some(mut watch) = ticket.unwatched() else {
                let call = ticket.call();
                let told = format!("the ticket of call `{call}` was not issued by this ledger");
                return Err(LedgerError::new(told));
            };
            // Written at once, and waited for after that: dropped in between, it has ended all the same.
            watch.status = Some(end.status);
            let finished = self.ledger.finish(ticket, end, need).await;
            finished.inspect_err(|_| watch.status = Some(Status::Unknown))
        })
    }

    fn wait(&self, waited: &Waited) -> Result<(), LedgerError> {
        self.ledger.wait(waited)
    }

    fn refuse(&self, refusal: Refusal) {
        (self.hear)(refusal.door, Status::Refused);
        self.ledger.refuse(refusal);
    }

    fn health(&self) -> Result<(), LedgerError> {
        self.ledger.health()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}
