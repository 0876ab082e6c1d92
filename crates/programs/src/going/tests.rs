use std::sync::{Arc, Weak};
use std::time::Duration;

use gateway::{Holder, Holders};
use serde_json::json;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::ledger::MemoryLedger;
use tool::{Boxed, Caller, Clock as _, Store, Wall};

use crate::keep::Kept;
use crate::program::{At, AtCall, Program, State};
use crate::{Interpreter, Mode, Parts, PendingCalls, Programs, Turn};

#[derive(Debug)]
struct Nobody;

impl Holders for Nobody {
    fn holder(&self, _caller: &Caller, _now: Wall) -> Holder {
        Holder::Elsewhere
    }
}

impl Interpreter for Nobody {
    fn turn<'a>(&'a self, _: &'a Caller) -> Boxed<'a, Result<Box<dyn Turn>, String>> {
        Box::pin(async { Err("no program runs here".to_owned()) })
    }
}

pub(crate) fn paused(created: Wall) -> Program {
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
    Arc::new(Programs::new(Parts {
        gateway: Weak::new(),
        records: Arc::new(MemoryLedger::default()),
        pending_calls: PendingCalls::new(),
        store: Arc::clone(store) as _,
        holders: Arc::new(Nobody),
        interpreter: Arc::new(Nobody),
        clock: Arc::clone(clock) as _,
        mode: Mode::Seq,
        parallel_mutations: false,
    }))
}

#[tokio::test]
async fn who_looks_does_not_show_and_steps_back_and_who_runs_does_neither() {
    let (store, clock) = (Arc::new(MemoryStore::default()), Arc::new(FakeClock::default()));
    let (programs, program) = (none(&store, &clock), paused(clock.wall()));
    let row = Kept::new(program.clone()).row();
    let shows = || programs.index().begun(&row).is_some();

    let looks = programs.looks(&row, false).unwrap();
    assert!(programs.looks(&row, false).is_none(), "two look alike");
    let asked = programs.looks(&row, true).unwrap();
    assert!(!looks.runs(&program) && !looks.stays() && !shows());
    drop(looks);
    let ends = programs.ends(&row).unwrap();
    assert!(!asked.runs(&program) && !asked.stays() && !shows());
    assert!(programs.looks(&row, true).is_none(), "one is asked for that is being ended");
    assert!(!programs.ends(&row).err().unwrap().runs);
    drop((ends, asked));

    // Nobody came in between.
    let looks = programs.looks(&row, false).unwrap();
    assert!(!shows() && looks.runs(&program) && shows());
    assert!(programs.looks(&row, true).is_none());
    let taken = programs.ends(&row).err().unwrap();
    taken.own.cancel();
    assert!(taken.runs && looks.own().is_cancelled() && !taken.over.is_cancelled());
    drop(looks);
    assert!(taken.over.is_cancelled() && !shows());
    assert!(programs.ends(&row).is_ok());
}

/// Somebody may have decided before the wait stood in the index, where news look for it.
#[tokio::test]
async fn what_begins_to_wait_is_looked_at_once() {
    let (store, clock) = (Arc::new(MemoryStore::default()), Arc::new(FakeClock::default()));
    let programs = none(&store, &clock);
    let mut news = programs.parts.pending_calls.changes().unwrap();
    let mut kept = Kept::new(paused(clock.wall()));
    programs.write(&mut kept).await.unwrap();
    // The control: one that waits for its caller waits for no call.
    programs.looks(&kept.row(), true).unwrap().came(&kept, &[]);
    assert!(news.try_recv().is_err());
    let Some(At::Python { call: AtCall::Making(held), state, functions }) = kept.program.at else {
        panic!("it stands at a call")
    };
    let call = held.call;
    kept.program.at = None;
    kept.program.waits(At::Python { call: AtCall::Held(held), state, functions });
    programs.looks(&kept.row(), true).unwrap().came(&kept, &[]);
    assert_eq!(news.try_recv(), Ok(call));
    assert_eq!(programs.index().waits_for(call), Some(kept.row()));
}

#[tokio::test]
async fn a_program_has_seven_days_and_is_forgotten_a_day_later() {
    let (store, clock) = (Arc::new(MemoryStore::default()), Arc::new(FakeClock::default()));
    let programs = none(&store, &clock);
    let mut kept = Kept::new(paused(clock.wall()));
    let row = kept.row();
    programs.write(&mut kept).await.unwrap();
    assert_eq!(programs.restore().await.unwrap(), 1);
    let hour = Duration::from_hours(1);
    let state = async || {
        programs.tidy().await.unwrap();
        // What goes on does so in a task of its own.
        while !programs.tasks.is_empty() {
            tokio::task::yield_now().await;
        }
        Kept::read(store.as_ref() as &dyn Store, &row).await.unwrap().map(|it| it.program.state)
    };
    clock.advance(7 * 24 * hour);
    assert_eq!(state().await, Some(State::Paused));
    clock.advance(hour);
    assert_eq!(state().await, Some(State::Expired));
    clock.advance(24 * hour);
    assert_eq!(state().await, Some(State::Expired));
    clock.advance(hour);
    assert_eq!(state().await, None);
}
