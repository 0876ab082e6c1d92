use std::sync::{Arc, Weak};
use std::time::Duration;

use gateway::{CredentialStatus, PrincipalResolver};
use serde_json::json;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::ledger::MemoryLedger;
use tool::{BoxFuture, Caller, Clock as _, Store, WallTime};

use crate::program_state::{CallPhase, Checkpoint, ProgramState, ProgramStatus};
use crate::program_store::StoredProgram;
use crate::{
    ExecutionMode, Interpreter, InterpreterSlot, PendingCalls, ProgramDependencies, Programs,
};

#[derive(Debug)]
struct Nobody;

impl PrincipalResolver for Nobody {
    fn resolve_caller(&self, _caller: &Caller, _now: WallTime) -> CredentialStatus {
        CredentialStatus::NotStoredHere
    }
}

impl Interpreter for Nobody {
    fn acquire_slot<'a>(
        &'a self,
        _: &'a Caller,
    ) -> BoxFuture<'a, Result<Box<dyn InterpreterSlot>, String>> {
        Box::pin(async { Err("no program runs here".to_owned()) })
    }
}

pub(crate) fn paused(created: WallTime) -> ProgramState {
    let (id, call) =
        ("01a204dd-6638-777c-9479-183fa4e4fcaf", "01a204dd-66ae-7298-b9ac-a7de07aff763");
    serde_json::from_value(json!({
        "id": id, "narrowed": { "read_only": false, "no_web": false, "task_type": null },
        "caller": { "org": "default", "subject": "ann", "key": "k", "level": "user", "agent": false },
        "door": "rest", "created": created, "state": "paused", "code": "…", "inputs": {}, "mode": "seq",
        "used": "seq", "fallback": false, "parallel_mutations": false, "most_calls": 9, "printed": "",
        "observation": null, "calls": [], "waves": [], "result": null, "error": "nobody decided",
        "ended": null, "elapsed_ms": 4, "at": { "python": { "state": "", "functions": [], "call": {
            "making": { "call": call, "function": "put", "args": {} },
        } } },
    }))
    .unwrap()
}

pub(crate) fn none(store: &Arc<impl Store + 'static>, clock: &Arc<FakeClock>) -> Arc<Programs> {
    Arc::new(Programs::new(ProgramDependencies {
        gateway: Weak::new(),
        records: Arc::new(MemoryLedger::default()),
        pending_calls: PendingCalls::new(),
        store: Arc::clone(store) as _,
        principal_resolver: Arc::new(Nobody),
        interpreter: Arc::new(Nobody),
        clock: Arc::clone(clock) as _,
        default_mode: ExecutionMode::Sequential,
        observer: None,
        parallel_mutations: false,
    }))
}

#[tokio::test]
async fn who_looks_does_not_show_and_steps_back_and_who_runs_does_neither() {
    let (store, clock) = (Arc::new(MemoryStore::default()), Arc::new(FakeClock::default()));
    let (programs, program) = (none(&store, &clock), paused(clock.wall_now()));
    let row = StoredProgram::new(program.clone()).program_key();
    let shows = || programs.lock_index().running_snapshot(&row).is_some();

    let looks = programs.claim_for_check(&row, false).unwrap();
    assert!(programs.claim_for_check(&row, false).is_none(), "two look alike");
    let asked = programs.claim_for_check(&row, true).unwrap();
    assert!(!looks.start_running(&program) && !looks.lock_for_end() && !shows());
    drop(looks);
    let ends = programs.claim_for_end(&row).unwrap();
    assert!(!asked.start_running(&program) && !asked.lock_for_end() && !shows());
    assert!(programs.claim_for_check(&row, true).is_none(), "one is asked for that is being ended");
    assert!(!programs.claim_for_end(&row).err().unwrap().is_running);
    drop((ends, asked));

    // Nobody came in between.
    let looks = programs.claim_for_check(&row, false).unwrap();
    assert!(!shows() && looks.start_running(&program) && shows());
    assert!(programs.claim_for_check(&row, true).is_none());
    let taken = programs.claim_for_end(&row).err().unwrap();
    taken.cancellation.cancel();
    assert!(
        taken.is_running
            && looks.cancellation_token().is_cancelled()
            && !taken.released.is_cancelled()
    );
    drop(looks);
    assert!(taken.released.is_cancelled() && !shows());
    assert!(programs.claim_for_end(&row).is_ok());
}

/// Somebody may have decided before the wait stood in the index, where news look for it.
#[tokio::test]
async fn what_begins_to_wait_is_looked_at_once() {
    let (store, clock) = (Arc::new(MemoryStore::default()), Arc::new(FakeClock::default()));
    let programs = none(&store, &clock);
    let mut news = programs.dependencies.pending_calls.take_changes().unwrap();
    let mut kept = StoredProgram::new(paused(clock.wall_now()));
    programs.save_program(&mut kept).await.unwrap();
    // The control: one that waits for its caller waits for no call.
    programs.claim_for_check(&kept.program_key(), true).unwrap().publish_and_release(&kept, &[]);
    assert!(news.try_recv().is_err());
    let Some(Checkpoint::Python { call: CallPhase::InFlight(held), state, functions }) =
        kept.program.checkpoint
    else {
        panic!("it stands at a call")
    };
    let call = held.call;
    kept.program.checkpoint = None;
    kept.program.wait_for_approval(Checkpoint::Python {
        call: CallPhase::PendingApproval(held),
        state,
        functions,
    });
    programs.claim_for_check(&kept.program_key(), true).unwrap().publish_and_release(&kept, &[]);
    assert_eq!(news.try_recv(), Ok(call));
    assert_eq!(programs.lock_index().program_waiting_for(call), Some(kept.program_key()));
}

#[tokio::test]
async fn a_program_has_seven_days_and_is_forgotten_a_day_later() {
    let (store, clock) = (Arc::new(MemoryStore::default()), Arc::new(FakeClock::default()));
    let programs = none(&store, &clock);
    let mut kept = StoredProgram::new(paused(clock.wall_now()));
    let row = kept.program_key();
    programs.save_program(&mut kept).await.unwrap();
    assert_eq!(programs.restore_programs().await.unwrap(), 1);
    let hour = Duration::from_hours(1);
    let state = async || {
        programs.expire_and_purge().await.unwrap();
        // What goes on does so in a task of its own.
        while !programs.tasks.is_empty() {
            tokio::task::yield_now().await;
        }
        StoredProgram::load(store.as_ref() as &dyn Store, &row)
            .await
            .unwrap()
            .map(|it| it.program.state)
    };
    clock.advance(7 * 24 * hour);
    assert_eq!(state().await, Some(ProgramStatus::Paused));
    clock.advance(hour);
    assert_eq!(state().await, Some(ProgramStatus::Expired));
    clock.advance(24 * hour);
    assert_eq!(state().await, Some(ProgramStatus::Expired));
    clock.advance(hour);
    assert_eq!(state().await, None);
}
