//! Counts the rows that starting, listing and removing programs read, and bounds those of one key.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use identity::{KeyId, KeyRing, NewKey, Principal};
use serde_json::json;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::store::FaultyStore;
use tool::store::WritePrecondition;
use tool::{CallId, Clock as _, Json, Store};
use uuid::Uuid;

use crate::Programs;
use crate::program_head::ProgramHead;
use crate::program_state::{ProgramState, ProgramStatus};
use crate::program_store::StoredProgram;
use crate::resumption::tests::{none, paused};

/// All keys there are.
async fn all_keys(store: &FaultyStore) -> Vec<String> {
    let rows = store.inner_store().scan_prefix("program", None, 10_000).await.unwrap();
    rows.into_iter().map(|row| row.key).collect()
}

fn id(number: usize) -> CallId {
    CallId(Uuid::from_u128(0x01a2_04dd_6638_777c_9479_0000_0000_0000 + number as u128))
}

/// A paused program of the key `k`, or of one that was delegated from it.
fn program(number: usize, clock: &FakeClock, root: Option<&str>) -> ProgramState {
    let mut program = paused(clock.wall_now());
    program.id = id(number);
    if let Some(root) = root {
        program.caller.key_id = format!("k{number}");
        program.caller.root_key_id = Some(root.to_owned());
    }
    program
}

fn principal() -> Principal {
    let (secret, record) = NewKey::for_user(KeyId::new("k").unwrap(), "ann")
        .issue_key([1; 32], FakeClock::default().wall_now())
        .unwrap();
    let now = FakeClock::default().wall_now();
    KeyRing::new([record]).verify_key(Some(secret.expose()), now).unwrap()
}

fn setup() -> (Arc<FaultyStore>, Arc<FakeClock>, Arc<Programs>) {
    let (store, clock) =
        (Arc::new(FaultyStore::new(MemoryStore::new())), Arc::new(FakeClock::default()));
    let programs = none(&store, &clock);
    (store, clock, programs)
}

async fn stands(programs: &Programs, number: usize, of: &ProgramState) -> Option<ProgramState> {
    let row = StoredProgram::new(ProgramState { id: id(number), ..of.clone() }).program_key();
    programs.load_program(&row).await.unwrap().map(|kept| kept.program)
}

#[tokio::test]
async fn starting_listing_and_tidying_read_no_state() {
    let (store, clock, programs) = setup();
    for number in 0..10 {
        let mut kept = StoredProgram::new(program(number, &clock, None));
        // It ran before it was paused, as each does.
        kept.program.state = ProgramStatus::Running;
        programs.save_program(&mut kept).await.unwrap();
        kept.program.state = ProgramStatus::Paused;
        programs.save_program(&mut kept).await.unwrap();
    }
    store.take_rows_read("program-state");
    let next = none(&store, &clock);
    assert_eq!(next.restore_programs().await.unwrap(), 10);
    let listed = next.list_programs(&principal(), 4).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|it| it["program"].clone()).collect();
    assert_eq!(json!(ids), json!([id(9), id(8), id(7), id(6)]));
    assert_eq!(listed[0]["status"], "paused");
    next.expire_and_purge().await.unwrap();
    assert_eq!(store.take_rows_read("program-state"), 0);
    // The control: to show one, its state is read.
    let shown = next.wait_for_program(&principal(), id(3), Duration::ZERO).await.unwrap();
    assert_eq!((&shown["program"], &shown["status"]), (&json!(id(3)), &json!("paused")));
    assert_eq!(store.take_rows_read("program-state"), 1);
}

#[tokio::test]
async fn programs_that_nobody_resumes_do_not_fill_the_store() {
    let (store, clock, programs) = setup();
    // Those of a key and of the keys that were delegated from it count together.
    for number in 0..70 {
        let root = (number % 2 == 1).then_some("k");
        let mut kept = StoredProgram::new(program(number, &clock, root));
        programs.save_program(&mut kept).await.unwrap();
    }
    let own = program(0, &clock, None);
    let first = stands(&programs, 0, &own).await.unwrap();
    assert_eq!(first.state, ProgramStatus::Expired);
    assert!(first.error.unwrap().contains("too many stored programs"));
    assert_eq!(stands(&programs, 6, &own).await.unwrap().state, ProgramStatus::Paused);
    let heads = all_keys(&store).await.into_iter().filter(|key| key.starts_with("program-head/"));
    assert_eq!(heads.count(), 70, "ended ones are there for a day");
    // The control: another key of the same user has room, and nothing of this one ends for it.
    let mut other = program(100, &clock, None);
    other.caller.key_id = "other".to_owned();
    programs.save_program(&mut StoredProgram::new(other)).await.unwrap();
    assert_eq!(stands(&programs, 6, &own).await.unwrap().state, ProgramStatus::Paused);
}

#[tokio::test]
async fn bytes_of_programs_are_bounded_and_one_too_large_is_not_stored() {
    let (store, clock, programs) = setup();
    let large = |number, bytes: usize| {
        let mut program = program(number, &clock, None);
        program.inputs.insert("text".to_owned(), json!("x".repeat(bytes)));
        StoredProgram::new(program)
    };
    for number in 0..40 {
        programs.save_program(&mut large(number, 3 << 20)).await.unwrap();
    }
    let rows = store.inner_store().scan_prefix("program", None, 10_000).await.unwrap();
    let bytes: usize = rows.iter().map(|row| row.bytes.len()).sum();
    assert!((50 << 20..=66 << 20).contains(&bytes), "{bytes}");
    let refused = programs.save_program(&mut large(50, 5 << 20)).await.unwrap_err();
    assert_eq!(refused.code, tool::ErrorCode::TooLarge);
    // What came to its end is stored without what is too large of it.
    let mut kept = StoredProgram::new(program(51, &clock, None));
    programs.save_program(&mut kept).await.unwrap();
    let much = json!("x".repeat(5 << 20));
    kept.program.finish_program(clock.wall_now(), ProgramStatus::Succeeded, Ok(much));
    programs.save_program(&mut kept).await.unwrap();
    let stored = stands(&programs, 51, &program(0, &clock, None)).await.unwrap();
    assert_eq!((stored.state, stored.result), (ProgramStatus::Failed, None));
    assert!(stored.error.unwrap().contains("too large to store"));
}

/// Rows as versions before this one wrote them: whole programs, one row each.
async fn whole(store: &dyn Store, program: &ProgramState) -> String {
    let row = StoredProgram::new(program.clone()).program_key();
    let key = row.head_key().replacen("program-head/", "program/", 1);
    store
        .put_value(&key, WritePrecondition::Absent, Some(Json::encode(program).bytes().clone()))
        .await
        .unwrap();
    key
}

#[tokio::test]
async fn programs_of_an_older_version_are_read_one_by_one_and_go_on() {
    let (store, clock, programs) = setup();
    for number in 0..5 {
        whole(store.inner_store(), &program(number, &clock, None)).await;
    }
    let broken = "program/0/broken";
    store
        .inner_store()
        .put_value(broken, WritePrecondition::Absent, Some(Bytes::from_static(b"{")))
        .await
        .unwrap();
    // The version before died in the middle of this: one has its head, another all.
    let half = StoredProgram::new(program(1, &clock, None));
    let head = Json::encode(&ProgramHead::from_program(&half.program, 9)).bytes().clone();
    store
        .inner_store()
        .put_value(&half.program_key().head_key(), WritePrecondition::Absent, Some(head))
        .await
        .unwrap();
    programs.save_program(&mut StoredProgram::new(program(2, &clock, None))).await.unwrap();
    assert_eq!(programs.restore_programs().await.unwrap(), 5);
    assert_eq!(store.largest_page("program"), 1);
    assert_eq!(programs.list_programs(&principal(), 100).await.unwrap().len(), 5);
    for number in 0..5 {
        let shown =
            programs.wait_for_program(&principal(), id(number), Duration::ZERO).await.unwrap();
        assert_eq!(shown["status"], "paused");
    }
    let old = all_keys(&store).await.into_iter().filter(|key| key.starts_with("program/"));
    assert_eq!(old.collect::<Vec<_>>(), [broken]);
    // Twice is as once.
    assert_eq!(none(&store, &clock).restore_programs().await.unwrap(), 5);
}

#[tokio::test]
async fn a_head_without_a_state_is_forgotten_and_one_that_lags_is_put_right() {
    let (store, clock, programs) = setup();
    // Two heads that were the first: the state of one was never written.
    let orphan = StoredProgram::new(program(1, &clock, None));
    let head =
        ProgramHead { is_first_write: true, ..ProgramHead::from_program(&orphan.program, 9) };
    let head = Json::encode(&head).bytes().clone();
    store
        .inner_store()
        .put_value(&orphan.program_key().head_key(), WritePrecondition::Absent, Some(head))
        .await
        .unwrap();
    programs.save_program(&mut StoredProgram::new(program(3, &clock, None))).await.unwrap();
    assert_eq!(none(&store, &clock).restore_programs().await.unwrap(), 1);
    let listed = programs.list_programs(&principal(), 9).await.unwrap();
    assert_eq!((listed.len(), &listed[0]["program"]), (1, &json!(id(3))));

    // One whose state has ended, and whose head says that it goes on.
    let mut kept = StoredProgram::new(program(2, &clock, None));
    programs.save_program(&mut kept).await.unwrap();
    let mut ended = kept.program.clone();
    ended.finish_program(clock.wall_now(), ProgramStatus::Succeeded, Ok(json!(1)));
    let right = ProgramHead::from_program(&ended, 9);
    kept.program = ended;
    let stale =
        store.inner_store().get_value(&kept.program_key().head_key()).await.unwrap().unwrap();
    let lags = Some(stale.bytes.clone());
    store
        .inner_store()
        .put_value(&stale.key, WritePrecondition::Version(stale.version), lags)
        .await
        .unwrap();
    // Another wrote it meanwhile: the state is right, and so is its head.
    kept.settle_head(store.as_ref(), &right).await.unwrap();
    let now = ProgramHead::load(store.as_ref(), &kept.program_key()).await.unwrap().unwrap();
    assert_eq!(now.state, ProgramStatus::Succeeded);
}

/// A process ends between any two writes: each state has a head, and none says that a program rests which does
/// not, so that whoever goes on with it finds it.
#[tokio::test]
async fn whatever_a_process_that_dies_leaves_can_be_gone_on_with() {
    use ProgramStatus::{Paused, PendingApproval, Running, Succeeded};
    let steps = [
        (None, Running),
        (None, PendingApproval),
        (Some(Running), PendingApproval),
        (Some(PendingApproval), Running),
        (Some(Running), Paused),
        (Some(PendingApproval), Paused),
        (Some(Paused), Running),
        (Some(Running), Succeeded),
        (Some(PendingApproval), Succeeded),
    ];
    for (from, to) in steps {
        for writes in 0..=2 {
            let (store, clock, programs) = setup();
            let mut kept = StoredProgram::new(program(1, &clock, None));
            if let Some(from) = from {
                kept.program.state = from;
                programs.save_program(&mut kept).await.unwrap();
            }
            kept.program.state = to;
            store.fail_writes_after(Some(writes));
            let written = programs.save_program(&mut kept).await;
            assert_eq!(written.is_ok(), writes == 2, "{from:?} to {to:?}, {writes} writes");
            store.fail_writes_after(None);
            let head = ProgramHead::load(store.as_ref(), &kept.program_key()).await.unwrap();
            let state = stands(&programs, 1, &kept.program).await.map(|it| it.state);
            let rests = |state: ProgramStatus| state.has_ended() || state == Paused;
            let fits = match (&head, state) {
                (None, None) => true,
                // The first head: a start forgets it.
                (Some(head), None) => head.is_first_write && !head.is_idle(),
                (Some(head), Some(state)) => rests(state) || !head.is_idle(),
                (None, Some(_)) => false,
            };
            assert!(fits, "{from:?} to {to:?}, {writes} writes: {head:?}, {state:?}");
            // The control: where nothing failed, both say the same.
            if writes == 2 {
                assert_eq!((head.map(|it| it.state), state), (Some(to), Some(to)));
            }
        }
    }
}
