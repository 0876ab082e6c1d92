//! Look-ups by the number of segment reads, and filters that are missing, damaged, or of something else.

use std::collections::BTreeMap;
use std::path::Path;

use tool::call_outcome::CallStatus;
use tool::ledger::{LedgerRecord, RecordKind, RecordPage, RecordQuery};
use tool::{CallId, Clock as _, Durability, IntentRecord, OutcomeRecord, WallTime};

use super::fixture::{Driven, driven, end, id, intent, refusal};
use super::reading;
use super::sim_disk::{Crash, SimDisk};
use crate::filter_thread::refresh_filters;
use crate::ledger_options::LedgerOptions;
use crate::record_search::RecordSearch;
use crate::segment::{parse_filter_name, parse_segment_name};
use crate::segment_filter::{PAGE_BYTES, load_header, page_checksum};

/// Condition of a query on a record and its caller.
type Fits<'f> = Box<dyn Fn(&LedgerRecord, &str) -> bool + 'f>;

const RARE: u64 = 700;

fn options() -> LedgerOptions {
    let segment_bytes = 64 << 10;
    LedgerOptions {
        segment_bytes,
        reserve_bytes: 4 << 10,
        max_index_entries: 20,
        ..LedgerOptions::default()
    }
}

fn turn(driven: &mut Driven, calls: std::ops::Range<u64>) {
    for number in calls {
        driven.call(number);
        if number % 20 == 0 {
            driven.syncer.run_once(false);
        }
    }
    driven.syncer.run_once(true);
}

/// 2,000 calls in many segments, with IDs 10, 20 and so on; one of them is of the tool
/// `notes.rare`.
fn many(disk: &SimDisk) -> Driven {
    let mut driven = Driven::open(disk.shared(), options()).unwrap();
    for number in 0..2_000 {
        let mut intent = intent(number);
        intent.call_id = id(number * 10);
        if number == RARE {
            intent.tool_key.name = tool::ToolName::new("notes.rare").unwrap();
        }
        let (ticket, _) = driven.begin(&intent, Durability::Written).unwrap();
        driven
            .inner
            .append_outcome(ticket.mark_complete(), &end(number), Durability::Written)
            .unwrap();
        if number % 20 == 0 {
            driven.syncer.run_once(false);
        }
    }
    driven.syncer.run_once(true);
    assert!(segments(disk) > 10);
    driven
}

fn segments(disk: &SimDisk) -> usize {
    disk.files().keys().filter(|name| parse_segment_name(name).is_some()).count()
}

fn of_call(driven: &Driven, call: CallId) -> Vec<LedgerRecord> {
    RecordSearch::new(&driven.inner, RecordQuery::default()).list_for_call(call).unwrap()
}

fn tool(name: &str, before: Option<u64>) -> RecordQuery {
    RecordQuery {
        tool: Some(name.to_owned()),
        limit: 1_000,
        before_sequence: before,
        ..RecordQuery::default()
    }
}

fn list(driven: &Driven, query: RecordQuery) -> RecordPage {
    RecordSearch::new(&driven.inner, query).list_page().unwrap()
}

/// Runs a search, and returns the number of segment bytes that it read.
fn counted<T>(disk: &SimDisk, run: impl FnOnce() -> T) -> (T, u64) {
    let before = disk.bytes_read(".seg");
    let out = run();
    (out, disk.bytes_read(".seg") - before)
}

/// Bytes of two parts of a segment. A filter takes one foreign key in 50,000 for its own, and its salt is drawn
/// anew for each segment: a search for what is absent rarely reads a part, and next to never three.
const FALSE_POSITIVES: u64 = 20_000;

/// The control is the same without filters.
#[test]
fn a_call_that_is_not_on_record_reads_no_segment() {
    let disk = SimDisk::new(1);
    let driven = many(&disk);
    let unknown = || (1..=100).map(|n| of_call(&driven, id(n * 70 + 5)).len()).sum::<usize>();
    let (found, control) = counted(&disk, || of_call(&driven, id(75)).len());
    assert_eq!(found, 0);
    assert!(control > 500_000, "{control}");
    refresh_filters(&driven.inner);
    let (found, read) = counted(&disk, unknown);
    assert_eq!(found, 0);
    assert!(read < control, "100 look-ups read {read} bytes, one without filters {control}");
    // Out of the range of a segment, not even its filter is read.
    let before = disk.bytes_read(".filter");
    assert_eq!(of_call(&driven, id(1 << 40)), []);
    assert_eq!(disk.bytes_read(".filter"), before);
}

#[test]
fn a_call_on_record_reads_the_parts_it_is_in() {
    let disk = SimDisk::new(1);
    let driven = many(&disk);
    refresh_filters(&driven.inner);
    for number in [0, 1, RARE, 1_500, 1_999] {
        let (found, read) = counted(&disk, || of_call(&driven, id(number * 10)));
        let kinds: Vec<_> = found.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [RecordKind::Intent, RecordKind::Outcome], "{number}");
        assert!(read < 40_000, "{number}: {read}");
    }
}

/// The control is the same without filters.
#[test]
fn a_rare_tool_reads_the_parts_that_have_it() {
    let disk = SimDisk::new(1);
    let driven = many(&disk);
    let absent = || list(&driven, tool("notes.absent", None));
    let rare = || list(&driven, tool("notes.rare", None));
    let (without, control) = counted(&disk, rare);
    assert!(control > 500_000, "{control}");
    refresh_filters(&driven.inner);
    let (page, read) = counted(&disk, absent);
    assert_eq!(page, RecordPage::default());
    assert!(read < FALSE_POSITIVES, "{read}");
    let (page, read) = counted(&disk, rare);
    assert_eq!(page, without);
    assert_eq!(
        page.records.iter().map(|record| record.kind).collect::<Vec<_>>(),
        [RecordKind::Outcome, RecordKind::Intent]
    );
    assert!(read < 40_000, "{read}");
}

/// The control is the page without a bound, which reads more.
#[test]
fn a_page_stops_after_a_bounded_amount_of_work_and_the_next_one_goes_on() {
    let disk = SimDisk::new(1);
    let driven = many(&disk);
    for has_filters in [false, true] {
        if has_filters {
            refresh_filters(&driven.inner);
        }
        let query = |before| RecordQuery {
            before_sequence: before,
            limit: 100_000,
            ..tool("notes.tool_3", None)
        };
        let (whole, control) = counted(&disk, || list(&driven, query(None)));
        assert_eq!((whole.records.len(), whole.next_before), (800, None));
        let (mut pages, mut records, mut before) = (0, Vec::new(), None);
        loop {
            let search = RecordSearch::new(&driven.inner, query(before)).with_budget(1);
            let (page, read) = counted(&disk, || search.list_page().unwrap());
            assert!(read < 200 << 10 && read < control / 5, "{read} {control}");
            assert!(page.next_before.is_none_or(|next| before.is_none_or(|before| next < before)));
            records.extend(page.records);
            (pages, before) = (pages + 1, page.next_before);
            if before.is_none() {
                break;
            }
        }
        assert!(pages > 5, "{pages}");
        assert_eq!(records, whole.records);
    }
}

#[test]
fn the_last_page_has_no_cursor_even_where_it_is_full() {
    let (_disk, mut driven) = driven(options());
    turn(&mut driven, 0..500);
    let all = list(&driven, tool("notes.tool_3", None)).records;
    assert_eq!(all.len(), 200);
    let query = |limit| RecordQuery { limit, ..tool("notes.tool_3", None) };
    assert_eq!(list(&driven, query(200)).next_before, None);
    let page = list(&driven, query(199));
    assert_eq!((page.records.len(), page.next_before), (199, Some(all[198].sequence)));
    assert_eq!(list(&driven, query(0)), RecordPage::default());
}

fn filters(disk: &SimDisk) -> BTreeMap<String, Vec<u8>> {
    let mut files = disk.files();
    files.retain(|name, _| parse_filter_name(name).is_some());
    files
}

fn all_are_found(driven: &Driven) {
    for number in (0..2_000).step_by(61) {
        assert_eq!(of_call(driven, id(number * 10)).len(), 2, "{number}");
    }
    let rare = list(driven, tool("notes.rare", None));
    assert_eq!(rare.records.len(), 2);
    assert_eq!(rare.next_before, None);
}

/// Modifies the bytes of a filter; `None` removes it.
type Change<'a> = &'a dyn Fn(&[u8]) -> Option<Vec<u8>>;

/// A copy of the disk whose filters are changed, and a ledger on it. `is_late`: they were loaded before they are changed.
fn changed(disk: &SimDisk, change: Change<'_>, is_late: bool) -> (SimDisk, Driven) {
    let disk = SimDisk::holding(&disk.files());
    let driven = Driven::open(disk.shared(), options()).unwrap();
    if is_late {
        refresh_filters(&driven.inner);
    }
    for (name, bytes) in filters(&disk) {
        match change(&bytes) {
            Some(bytes) => disk.replace(&name, &bytes),
            None => disk.shared().remove_file(Path::new(&name)).unwrap(),
        }
    }
    if !is_late {
        refresh_filters(&driven.inner);
    }
    (disk, driven)
}

/// A filter that denies everything, and whose checksums hold.
fn forged(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let head = u32::from_le_bytes(bytes[PAGE_BYTES - 4..PAGE_BYTES].try_into().unwrap());
    for (index, page) in (0..).zip(bytes.chunks_exact_mut(PAGE_BYTES)).skip(1) {
        page.fill(0);
        let sum = page_checksum(head, index, page);
        page[PAGE_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// The control is a filter that is wrong and whose checksums hold: the same harness sees that it hides records.
#[test]
fn a_damaged_filter_is_not_believed_and_is_built_anew() {
    let disk = SimDisk::new(1);
    let driven = many(&disk);
    refresh_filters(&driven.inner);
    let good = filters(&disk);
    assert!(good.len() > 10);
    let (_, control) = changed(&disk, &|bytes| Some(forged(bytes)), false);
    assert_eq!(of_call(&control, id(RARE * 10)), [], "the harness sees what a filter hides");

    let other = good.values().next_back().unwrap().clone();
    let changes: [(&str, Change<'_>); 7] = [
        ("removed", &|_| None),
        ("empty", &|_| Some(Vec::new())),
        ("cut", &|bytes| Some(bytes[..bytes.len() / PAGE_BYTES * PAGE_BYTES - 1].to_vec())),
        ("zeros", &|bytes| Some(vec![0; bytes.len()])),
        ("rows of zeros", &|bytes| {
            Some([&bytes[..PAGE_BYTES], &vec![0; bytes.len() - PAGE_BYTES]].concat())
        }),
        ("one bit of each 97 bytes", &|bytes| {
            let mut bytes = bytes.to_vec();
            (PAGE_BYTES..bytes.len()).step_by(97).for_each(|at| bytes[at] ^= 1);
            Some(bytes)
        }),
        ("of another segment", &|_| Some(other.clone())),
    ];
    for (what, change) in changes {
        for is_late in [false, true] {
            let (disk, driven) = changed(&disk, change, is_late);
            all_are_found(&driven);
            // Damaged filters are rebuilt when they are read. Of one that is loaded, this lookup may be the first to read
            // the page that was cut.
            of_call(&driven, id(75));
            refresh_filters(&driven.inner);
            all_are_found(&driven);
            let site = &driven.inner.writer_dir;
            let number = |name: &String| parse_filter_name(name).unwrap().1;
            let is_good = |name: &String| load_header(site, number(name)).unwrap().is_some();
            // Of a filter that was loaded, the page that was cut may not be met.
            assert!(what == "cut" && is_late || good.keys().all(is_good), "{what}, {is_late}");
            let (_, read) = counted(&disk, || of_call(&driven, id(75)));
            assert!(read < 20_000, "{what}, {is_late}: {read}");
        }
    }
}

/// The control is the same call while its record is damaged.
#[test]
fn a_record_that_could_not_be_read_when_the_filter_was_built_is_found_once_it_can() {
    let disk = SimDisk::new(1);
    drop(many(&disk));
    let good = disk.files();
    let call = id(RARE * 10);
    let id_bytes = call.0.as_bytes();
    let holds = |bytes: &Vec<u8>| bytes.windows(16).position(|window| window == id_bytes);
    let (name, at) = good
        .iter()
        .filter(|(name, _)| parse_segment_name(name).is_some())
        .find_map(|(name, bytes)| Some((name.clone(), holds(bytes)?)))
        .unwrap();
    let mut bad = good.clone();
    bad.get_mut(&name).unwrap()[at] ^= 1;
    let disk = SimDisk::holding(&bad);
    let driven = Driven::open(disk.shared(), options()).unwrap();
    refresh_filters(&driven.inner);
    assert_eq!(of_call(&driven, call).len(), 1, "the outcome");
    disk.replace(&name, &good[&name]);
    assert_eq!(of_call(&driven, call).len(), 2);
    assert_eq!(list(&driven, tool("notes.rare", None)).records.len(), 2);
}

#[test]
fn the_filter_of_another_state_of_a_segment_does_not_count() {
    let disk = SimDisk::new(1);
    let driven = many(&disk);
    refresh_filters(&driven.inner);
    let name = filters(&disk).into_keys().next().unwrap();
    let number = parse_filter_name(&name).unwrap().1;
    let site = &driven.inner.writer_dir;
    assert!(load_header(site, number).unwrap().is_some(), "the control");
    let segment = name.replace(".filter", ".seg");
    let bytes = disk.files()[&segment].clone();
    disk.replace(&segment, &[bytes.as_slice(), b"more"].concat());
    assert!(load_header(site, number).unwrap().is_none());
    let mut written_anew = bytes.clone();
    written_anew[105] ^= 1;
    let sum = crc32fast::hash(&written_anew[..124]).to_le_bytes();
    written_anew[124..128].copy_from_slice(&sum);
    disk.replace(&segment, &written_anew);
    assert!(load_header(site, number).unwrap().is_none());
    disk.replace(&segment, &bytes);
    assert!(load_header(site, number).unwrap().is_some());
}

#[tokio::test]
async fn filters_that_a_loss_of_power_left_hide_nothing() {
    for seed in 0..30 {
        let disk = SimDisk::new(seed);
        let ledger = reading::filled(&disk).await;
        refresh_filters(&ledger.inner);
        disk.crash(if seed % 3 == 0 { Crash::Kill } else { Crash::Power });
        drop(ledger);
        let ledger = reading::open(&disk);
        refresh_filters(&ledger.inner);
        reading::check(&ledger).await;
    }
}

#[test]
fn a_filter_goes_with_its_segment() {
    let disk = SimDisk::new(1);
    let driven = many(&disk);
    refresh_filters(&driven.inner);
    let mut names = filters(&disk).into_keys();
    let (first, last) = (names.next().unwrap(), names.next_back().unwrap());
    let site = &driven.inner.writer_dir;
    let number = parse_filter_name(&first).unwrap().1;
    crate::retention::delete_segment_files(site, number).unwrap();
    assert!(!disk.files().contains_key(&first));
    assert!(disk.files().contains_key(&last));
    // One that a crash left is removed at the start.
    driven.inner.lock_index().remove_segments_through(parse_filter_name(&last).unwrap().1 - 1);
    crate::filter_thread::remove_orphans(&driven.inner);
    let left = filters(&disk).into_keys().collect::<Vec<_>>();
    assert_eq!(left, [last]);
}

#[test]
fn a_full_disk_leaves_no_part_of_a_filter_and_searches_read() {
    let disk = SimDisk::new(1);
    let driven = many(&disk);
    let used = disk.world().used();
    disk.world().capacity = Some(used);
    refresh_filters(&driven.inner);
    assert_eq!(filters(&disk).len(), 0);
    assert_eq!(disk.world().used(), used);
    all_are_found(&driven);
    disk.world().capacity = None;
    refresh_filters(&driven.inner);
    assert!(filters(&disk).len() > 10);
    all_are_found(&driven);
}

/// Records of the plain look through all that fit.
fn expected(driven: &Driven, fits: impl Fn(&LedgerRecord, &str) -> bool) -> Vec<LedgerRecord> {
    let all = list(driven, RecordQuery { limit: 100_000, ..RecordQuery::default() }).records;
    let callers: BTreeMap<_, _> = all
        .iter()
        .filter_map(|record| {
            Some((record.call_id?, record.body.decode::<IntentRecord>().ok()?.caller.subject))
        })
        .collect();
    let caller =
        |record: &LedgerRecord| record.call_id.and_then(|call| callers.get(&call).cloned());
    all.into_iter().filter(|it| fits(it, &caller(it).unwrap_or_default())).collect()
}

/// All pages of a list, each within the page limit.
fn pages(driven: &Driven, query: &RecordQuery) -> Vec<LedgerRecord> {
    let (mut records, mut before) = (Vec::new(), None);
    loop {
        let query = RecordQuery { before_sequence: before, ..query.clone() };
        let page =
            RecordSearch::new(&driven.inner, query).with_budget(64 << 10).list_page().unwrap();
        assert!(page.next_before.is_none_or(|next| before.is_none_or(|before| next < before)));
        records.extend(page.records);
        before = page.next_before;
        if before.is_none() {
            return records;
        }
    }
}

/// Calls at the times of the clock, a minute apart.
fn timed(disk: &SimDisk, calls: u64) -> Driven {
    let mut driven = Driven::open(disk.shared(), options()).unwrap();
    for number in 0..calls {
        driven.clock.go(60_000);
        let at = driven.clock.wall_now();
        let intent = IntentRecord { call_id: id(number * 10), recorded_at: at, ..intent(number) };
        let (ticket, _) = driven.begin(&intent, Durability::Written).unwrap();
        let end = OutcomeRecord { recorded_at: at, ..end(number) };
        driven.inner.append_outcome(ticket.mark_complete(), &end, Durability::Written).unwrap();
        if number % 20 == 0 {
            driven.syncer.run_once(false);
        }
    }
    driven.syncer.run_once(true);
    assert!(segments(disk) > 10);
    driven
}

#[test]
fn records_are_found_by_call_caller_kind_status_and_time() {
    let disk = SimDisk::new(1);
    let driven = timed(&disk, 2_000);
    let at =
        |record: &LedgerRecord| record.body.get("at").and_then(|at| at.decode::<WallTime>().ok());
    let all = list(&driven, RecordQuery { limit: 100_000, ..RecordQuery::default() }).records;
    let times: Vec<_> = all.iter().filter_map(at).collect();
    let (low, high) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    let middle = WallTime(u64::midpoint(low.0, high.0));
    for has_filters in [false, true] {
        if has_filters {
            refresh_filters(&driven.inner);
        }
        let base = RecordQuery { limit: 100_000, ..RecordQuery::default() };
        let caller = super::fixture::caller(7).subject;
        let cases: Vec<(RecordQuery, Fits<'_>)> = vec![
            (
                RecordQuery { call: Some(id(70)), ..base.clone() },
                Box::new(|it, _| it.call_id == Some(id(70))),
            ),
            (
                RecordQuery { caller: Some(caller.clone()), ..base.clone() },
                Box::new(|_, by| by == caller),
            ),
            (
                RecordQuery { caller: Some("nobody".to_owned()), ..base.clone() },
                Box::new(|_, _| false),
            ),
            (
                RecordQuery { kind: Some(RecordKind::Outcome), ..base.clone() },
                Box::new(|it, _| it.kind == RecordKind::Outcome),
            ),
            (
                RecordQuery { status: Some(CallStatus::Failed), ..base.clone() },
                Box::new(|_, _| false),
            ),
            (
                RecordQuery {
                    status: Some(CallStatus::Succeeded),
                    caller: Some(caller.clone()),
                    ..base.clone()
                },
                Box::new(|it, by| it.kind == RecordKind::Outcome && by == caller),
            ),
            (
                RecordQuery { since: Some(middle), ..base.clone() },
                Box::new(|it, _| at(it).is_some_and(|at| at >= middle)),
            ),
            (
                RecordQuery { until: Some(middle), ..base.clone() },
                Box::new(|it, _| at(it).is_some_and(|at| at < middle)),
            ),
        ];
        for (query, fits) in cases {
            let expected = expected(&driven, fits);
            assert_eq!(pages(&driven, &query), expected, "{query:?}");
        }
    }
}

/// The control is the same without filters.
#[test]
fn a_caller_that_is_not_on_record_reads_no_sealed_segment() {
    let disk = SimDisk::new(1);
    let driven = many(&disk);
    let nobody = || {
        list(
            &driven,
            RecordQuery { caller: Some("nobody".into()), limit: 10, ..RecordQuery::default() },
        )
    };
    let (_, control) = counted(&disk, nobody);
    refresh_filters(&driven.inner);
    let (page, read) = counted(&disk, nobody);
    assert_eq!(page, RecordPage::default());
    assert!(control > 500_000 && read < control / 10, "{read} {control}");
}

/// The control is the same without a time.
#[test]
fn a_time_beyond_the_record_reads_next_to_none_of_it() {
    let disk = SimDisk::new(1);
    let driven = timed(&disk, 2_000);
    let read = |query: &RecordQuery| counted(&disk, || list(&driven, query.clone())).1;
    let base =
        RecordQuery { limit: 1, kind: Some(RecordKind::Tombstone), ..RecordQuery::default() };
    let control = read(&base);
    assert!(control > 500_000, "{control}");
    let now = driven.clock.wall_now().0;
    // The headers of the segments are read once.
    read(&RecordQuery { since: Some(WallTime(now)), until: Some(WallTime(0)), ..base.clone() });
    for (since, until) in
        [(Some(now + 7_200_000), None), (None, Some(0)), (Some(now - 60_000), None)]
    {
        let query =
            RecordQuery { since: since.map(WallTime), until: until.map(WallTime), ..base.clone() };
        let read = read(&query);
        assert!(read < control / 3, "{since:?} {until:?}: {read} {control}");
    }
}

/// Segments of a clock that was a year ahead for a while hide nothing that came after them.
#[test]
fn a_clock_that_was_ahead_hides_no_record_of_the_right_time() {
    let disk = SimDisk::new(1);
    let driven = timed(&disk, 2_000);
    let ranges = driven.inner.lock_index().ranges_before(u64::MAX);
    let query =
        RecordQuery { until: Some(driven.clock.wall_now()), limit: 10, ..RecordQuery::default() };
    list(&driven, query.clone());
    let ahead = WallTime(driven.clock.wall_now().0 + 365 * 24 * 60 * 60 * 1_000);
    for range in ranges.iter().skip(1) {
        driven.inner.lock_index().set_segment_started_at(range.number, ahead);
    }
    assert_eq!(list(&driven, query.clone()).records.len(), 10);
    // Control: if the newest segment is of that time too, none of them is.
    driven.inner.lock_index().set_segment_started_at(ranges[0].number, ahead);
    assert_eq!(list(&driven, query).records.len(), 0);
}

/// 2,000 calls, of which one has a parent and fails, and a refusal.
fn with_rare_facts(disk: &SimDisk, parent: CallId) -> Driven {
    let mut driven = Driven::open(disk.shared(), options()).unwrap();
    for number in 0..2_000 {
        let (mut intent, mut outcome) = (intent(number), end(number));
        if number == RARE {
            intent.parent_id = Some(parent);
            outcome.status = CallStatus::Failed;
            driven.inner.append_refusal(&refusal(1 << 40));
        }
        let (ticket, _) = driven.begin(&intent, Durability::Written).unwrap();
        let call = ticket.mark_complete();
        driven.inner.append_outcome(call, &outcome, Durability::Written).unwrap();
        if number % 20 == 0 {
            driven.syncer.run_once(false);
        }
    }
    driven.syncer.run_once(true);
    driven
}

fn by_status(status: CallStatus) -> RecordQuery {
    RecordQuery { status: Some(status), limit: 100, ..RecordQuery::default() }
}

fn by_kind(kind: RecordKind) -> RecordQuery {
    RecordQuery { kind: Some(kind), limit: 100, ..RecordQuery::default() }
}

fn by_parent(parent: CallId) -> RecordQuery {
    RecordQuery { parent: Some(parent), limit: 100, ..RecordQuery::default() }
}

/// The calls that a query finds, in one page, and the number of segment bytes read.
fn calls_found(disk: &SimDisk, driven: &Driven, query: &RecordQuery) -> (Vec<CallId>, u64) {
    let (page, read) = counted(disk, || list(driven, query.clone()));
    assert_eq!(page.next_before, None, "{query:?}");
    (page.records.iter().map(|record| record.call_id.unwrap()).collect(), read)
}

/// The control is the same without filters. Facts come from the index, from what left it, from filters and, after
/// a restart, from the records again.
#[test]
fn rare_statuses_kinds_and_parents_read_the_parts_that_have_them() {
    let disk = SimDisk::new(1);
    let parent = id(1 << 50);
    let mut driven = with_rare_facts(&disk, parent);
    let rare = [
        (by_status(CallStatus::Failed), id(RARE)),
        (by_status(CallStatus::Refused), id(1 << 40)),
        (by_kind(RecordKind::Refusal), id(1 << 40)),
        (by_parent(parent), id(RARE)),
    ];
    let absent = [
        by_status(CallStatus::Abandoned),
        by_status(CallStatus::Pending),
        by_kind(RecordKind::AuditEvent),
        by_parent(id(77)),
        RecordQuery { caller: Some("nobody".to_owned()), limit: 100, ..RecordQuery::default() },
    ];
    for (query, call) in &rare {
        let (calls, control) = calls_found(&disk, &driven, query);
        assert_eq!(calls, [*call], "{query:?}");
        assert!(control > 500_000, "{control}");
    }
    refresh_filters(&driven.inner);
    for is_reopened in [false, true] {
        if is_reopened {
            drop(driven);
            driven = Driven::open(disk.shared(), options()).unwrap();
            refresh_filters(&driven.inner);
        }
        for (query, call) in &rare {
            let (calls, read) = calls_found(&disk, &driven, query);
            assert_eq!(calls, [*call], "{query:?}");
            assert!(read < 80_000, "{read} {query:?}");
        }
        for query in &absent {
            let (calls, read) = calls_found(&disk, &driven, query);
            assert_eq!(calls, [], "{query:?}");
            // What left the index before a restart is not known again in the newest segment.
            let bound = if is_reopened { 80_000 } else { FALSE_POSITIVES };
            assert!(read < bound, "{read} {query:?}");
        }
        // The newest records are in the index, with what is searched for.
        let newest = list(&driven, RecordQuery { limit: 1, ..by_status(CallStatus::Succeeded) });
        assert_eq!(newest.records[0].call_id, Some(id(1_999)));
    }
}
