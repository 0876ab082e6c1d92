//! A ledger around a ledger: tells how each call ended, exactly once, as the record has it.
//!
//! A door does not learn how a call ended whose caller went away; the record does. It keeps the tickets
//! of the ledger within, gives out its own, and writes nothing itself.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tool::outcome::Status;
use tool::{
    Boxed, CallId, Durability, End, Intent, Ledger, LedgerError, Map, Refusal, Ticket, Waited,
};

/// Is told the door of a call and how it ended; called on the path of the call, so it must not wait.
type Hear = Arc<dyn Fn(&str, Status) + Send + Sync>;

/// The same ledger, with `hear` told how each call ended: refused, by its outcome, abandoned, or unknown
/// where its outcome could not be written.
pub fn watched(
    ledger: Arc<dyn Ledger>,
    hear: impl Fn(&str, Status) + Send + Sync + 'static,
) -> Arc<dyn Ledger> {
    Arc::new(Watched { ledger, hear: Arc::new(hear), open: Arc::default() })
}

/// Calls whose intent is written and whose outcome is not; as many as run.
type Open = Arc<Mutex<Map<CallId, (String, Ticket)>>>;

struct Watched {
    ledger: Arc<dyn Ledger>,
    hear: Hear,
    open: Open,
}

fn lock(open: &Open) -> MutexGuard<'_, Map<CallId, (String, Ticket)>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells when it is dropped: a caller may go away while the ledger still writes.
struct Telling<'a> {
    hear: &'a Hear,
    door: &'a str,
    status: Option<Status>,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if let Some(status) = self.status {
            (self.hear)(self.door, status);
        }
    }
}

impl Watched {
    async fn begin_call(&self, intent: Intent, need: Durability) -> Result<Ticket, LedgerError> {
        let (call, door) = (intent.call, intent.door.clone());
        // What stands where the future is dropped: the ledger notes the call as abandoned then.
        let status = Some(Status::Abandoned);
        let mut telling = Telling { hear: &self.hear, door: &door, status };
        let ticket = self.ledger.begin(intent, need).await;
        telling.status = ticket.is_err().then_some(Status::Refused);
        drop(telling);
        lock(&self.open).insert(call, (door, ticket?));
        let (open, hear) = (Arc::clone(&self.open), Arc::clone(&self.hear));
        Ok(Ticket::issue(call, move |call| {
            let kept = lock(&open).remove(&call);
            // The ledger's own ticket goes with it, and with that its note.
            if let Some((door, _ticket)) = kept {
                hear(&door, Status::Abandoned);
            }
        }))
    }

    async fn finish_call(
        &self,
        ticket: Ticket,
        end: End,
        need: Durability,
    ) -> Result<(), LedgerError> {
        let Some((door, own)) = lock(&self.open).remove(&ticket.call()) else {
            let call = ticket.call();
            let told = format!("the ticket of call `{call}` was not issued by this ledger");
            return Err(LedgerError::new(told));
        };
        ticket.redeem();
        // Written at once, and waited for after that: dropped in between, it has ended all the same.
        let mut telling = Telling { hear: &self.hear, door: &door, status: Some(end.status) };
        let finished = self.ledger.finish(own, end, need).await;
        if finished.is_err() {
            telling.status = Some(Status::Unknown);
        }
        finished
    }
}

impl Ledger for Watched {
    fn begin(&self, intent: Intent, need: Durability) -> Boxed<'_, Result<Ticket, LedgerError>> {
        Box::pin(self.begin_call(intent, need))
    }

    fn finish(
        &self,
        ticket: Ticket,
        end: End,
        need: Durability,
    ) -> Boxed<'_, Result<(), LedgerError>> {
        Box::pin(self.finish_call(ticket, end, need))
    }

    fn wait(&self, waited: &Waited) -> Result<(), LedgerError> {
        self.ledger.wait(waited)
    }

    fn refuse(&self, refusal: Refusal) {
        (self.hear)(&refusal.door, Status::Refused);
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
