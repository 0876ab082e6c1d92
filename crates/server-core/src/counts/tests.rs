use std::sync::Arc;

use futures_util::FutureExt as _;
use testkit::ledger::MemoryLedger;
use tool::outcome::Status;
use tool::{
    Boxed, CallId, CallerType, Digest, Durability, End, Intent, Interface, Ledger, LedgerError,
    Org, Refusal, SourceName, Ticket, ToolKey, ToolName, Waited, Wall,
};
use uuid::Uuid;

use super::{Counts, Ended};

/// Writes at once, and then waits for a disk that never answers.
#[derive(Debug, Default)]
struct Slow(MemoryLedger);

impl Ledger for Slow {
    fn begin(&self, intent: Intent, need: Durability) -> Boxed<'_, Result<Ticket, LedgerError>> {
        Box::pin(async move {
            let _ticket = self.0.begin(intent, need).await?;
            std::future::pending().await
        })
    }
    fn finish(
        &self,
        ticket: Ticket,
        end: End,
        need: Durability,
    ) -> Boxed<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.0.finish(ticket, end, need).await?;
            std::future::pending().await
        })
    }
    fn wait(&self, waited: &Waited) -> Result<(), LedgerError> {
        self.0.wait(waited)
    }
    fn refuse(&self, refusal: Refusal) {
        self.0.refuse(refusal);
    }
    fn health(&self) -> Result<(), LedgerError> {
        self.0.health()
    }
}

/// As [`Slow`], where intents are written without waiting.
#[derive(Debug, Default)]
struct SlowEnd(Slow);

impl Ledger for SlowEnd {
    fn begin(&self, intent: Intent, need: Durability) -> Boxed<'_, Result<Ticket, LedgerError>> {
        self.0.0.begin(intent, need)
    }
    fn finish(
        &self,
        ticket: Ticket,
        end: End,
        need: Durability,
    ) -> Boxed<'_, Result<(), LedgerError>> {
        self.0.finish(ticket, end, need)
    }
    fn wait(&self, waited: &Waited) -> Result<(), LedgerError> {
        self.0.wait(waited)
    }
    fn refuse(&self, refusal: Refusal) {
        self.0.refuse(refusal);
    }
    fn health(&self) -> Result<(), LedgerError> {
        self.0.health()
    }
}

fn intent(number: u128) -> Intent {
    Intent {
        call: CallId(Uuid::from_u128(number)),
        parent: None,
        chain_id: None,
        chain_index: None,
        continues: None,
        at: Wall(0),
        caller: testkit::context::caller(),
        door: Interface::Rest,
        caller_type: CallerType::Direct,
        tool: ToolKey {
            org: Org::default(),
            source: SourceName::new("s").unwrap(),
            name: ToolName::new("t").unwrap(),
        },
        definition: Digest([0; 32]),
        catalog: 1,
        policy: Digest([0; 32]),
        reason: "allowed".into(),
        args: Digest([0; 32]),
        args_bytes: 2,
        effects: false,
        unknown_effects: false,
    }
}

fn end(status: Status) -> End {
    End { at: Wall(0), status, code: None, elapsed_ms: 0, bytes: 0, result: None, cage: None }
}

fn all(counts: &Counts) -> [u64; 5] {
    ["succeeded", "failed", "abandoned", "refused", "unknown"].map(|status| {
        let of = Ended { door: "rest", status };
        counts.family.get_or_create(&of).get()
    })
}

#[tokio::test]
async fn a_future_that_is_dropped_counts_as_its_record_says() {
    let counts = Counts::default();
    let slow = counts.over(Arc::new(Slow::default()));
    assert!(slow.begin(intent(1), Durability::Synced).now_or_never().is_none());
    assert_eq!(all(&counts), [0, 0, 1, 0, 0]);
    let slow = counts.over(Arc::new(SlowEnd::default()));
    let ticket = slow.begin(intent(2), Durability::Written).await.unwrap();
    assert!(slow.finish(ticket, end(Status::Failed), Durability::Full).now_or_never().is_none());
    assert_eq!(all(&counts), [0, 1, 1, 0, 0]);
    let ticket = slow.begin(intent(3), Durability::Written).await.unwrap();
    drop(slow.finish(ticket, end(Status::Failed), Durability::Full));
    assert_eq!(all(&counts), [0, 1, 2, 0, 0]);
}

#[tokio::test]
async fn a_ticket_that_is_dropped_is_abandoned_in_record_and_count() {
    let (counts, kept) = (Counts::default(), Arc::new(MemoryLedger::default()));
    let ledger = counts.over(Arc::clone(&kept) as _);
    let ticket = ledger.begin(intent(1), Durability::Written).await.unwrap();
    assert_eq!(all(&counts), [0; 5]);
    drop(ticket);
    assert_eq!(kept.frames()[1].body.read::<End>().unwrap().status, Status::Abandoned);
    assert_eq!(all(&counts), [0, 0, 1, 0, 0]);
    let ticket = ledger.begin(intent(2), Durability::Written).await.unwrap();
    ledger.finish(ticket, end(Status::Succeeded), Durability::Written).await.unwrap();
    assert_eq!(all(&counts), [1, 0, 1, 0, 0]);
    let foreign = Ticket::issue(CallId(Uuid::from_u128(3)), |_| {});
    ledger.finish(foreign, end(Status::Succeeded), Durability::Written).await.unwrap_err();
    assert_eq!(all(&counts), [1, 0, 1, 0, 0]);
}
