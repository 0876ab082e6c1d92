//! An in-memory ledger.

use std::sync::{Arc, Mutex, PoisonError};

use tool::ledger::{Event, Events, Kind, Page, Query, Record, Records};
use tool::{
    Boxed, CallId, Durability, End, Intent, Json, Ledger, LedgerError, Refusal, Ticket, Waited,
    Wall,
};

type Frames = Arc<Mutex<Vec<Record>>>;

/// A ledger that stores records in a list and can be made to fail.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    frames: Frames,
    broken: Mutex<Option<Durability>>,
}

impl MemoryLedger {
    /// Makes all intents fail that require at least this durability.
    pub fn fail_from(&self, need: Option<Durability>) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = need;
    }

    /// All records in order.
    pub fn frames(&self) -> Vec<Record> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The record kinds of one call.
    pub fn kinds(&self, call: CallId) -> Vec<Kind> {
        let of_call = |record: &Record| (record.call == Some(call)).then_some(record.kind);
        self.frames().iter().filter_map(of_call).collect()
    }
}

fn push(frames: &Frames, kind: Kind, call: Option<CallId>, body: Json) {
    let mut frames = frames.lock().unwrap_or_else(PoisonError::into_inner);
    let seq = frames.len() as u64;
    frames.push(Record { seq, kind, call, body });
}

impl Ledger for MemoryLedger {
    fn begin(&self, intent: Intent, need: Durability) -> Boxed<'_, Result<Ticket, LedgerError>> {
        let broken = *self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(async move {
            if broken.is_some_and(|from| need >= from) {
                return Err(LedgerError::new("no space left on device"));
            }
            push(&self.frames, Kind::Intent, Some(intent.call), Json::of(&intent));
            let frames = Arc::clone(&self.frames);
            Ok(Ticket::issue(intent.call, move |call| {
                let status = tool::outcome::Status::Abandoned;
                let end = End {
                    at: Wall(0),
                    status,
                    code: None,
                    elapsed_ms: 0,
                    bytes: 0,
                    result: None,
                    cage: None,
                };
                push(&frames, Kind::Outcome, Some(call), Json::of(&end));
            }))
        })
    }

    fn finish(
        &self,
        ticket: Ticket,
        end: End,
        _: Durability,
    ) -> Boxed<'_, Result<(), LedgerError>> {
        push(&self.frames, Kind::Outcome, Some(ticket.redeem()), Json::of(&end));
        Box::pin(async { Ok(()) })
    }

    fn wait(&self, waited: &Waited) -> Result<(), LedgerError> {
        self.health()?;
        push(&self.frames, Kind::Wait, Some(waited.call), Json::of(waited));
        Ok(())
    }

    fn refuse(&self, refusal: Refusal) {
        push(&self.frames, Kind::Refused, Some(refusal.call), Json::of(&refusal));
    }

    fn health(&self) -> Result<(), LedgerError> {
        match *self.broken.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => Err(LedgerError::new("no space left on device")),
            None => Ok(()),
        }
    }
}

impl Events for MemoryLedger {
    fn note(&self, event: &Event) -> Result<(), LedgerError> {
        self.health()?;
        push(&self.frames, Kind::Event, None, Json::of(event));
        Ok(())
    }
}

impl Records for MemoryLedger {
    fn list(&self, query: Query) -> Boxed<'_, Result<Page, LedgerError>> {
        let frames = self.frames();
        let caller = |record: &Record| {
            let own = record.body.get("caller").or_else(|| record.body.get("by"));
            let of_call =
                || frames.iter().find(|it| it.call == record.call && it.kind == Kind::Intent);
            own.or_else(|| of_call()?.body.get("caller"))?.get("subject")?.read::<String>().ok()
        };
        let fits = |record: &&Record| {
            query.before.is_none_or(|before| record.seq < before)
                && query.fits_head(record.kind, record.call)
                && query.fits_facts(record.kind, record.body.read().unwrap_or_default())
                && query.caller.as_ref().is_none_or(|it| caller(record).as_ref() == Some(it))
        };
        let mut all = frames.iter().rev().filter(fits).cloned();
        let records: Vec<_> = all.by_ref().take(query.limit).collect();
        let next = all.next().and_then(|_| records.last()).map(|last| last.seq);
        Box::pin(async move { Ok(Page { records, next }) })
    }

    fn of_call(&self, call: CallId) -> Boxed<'_, Result<Vec<Record>, LedgerError>> {
        let found = self.frames().into_iter().filter(|record| record.call == Some(call)).collect();
        Box::pin(async { Ok(found) })
    }
}
