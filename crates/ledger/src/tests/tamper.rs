//! Deliberate changes to the files, and the findings of `verify`.

use std::collections::BTreeMap;
use std::path::Path;

use tool::ledger::RecordKind;
use tool::{Durability, WallTime};

use super::fixture::{DIR, Driven, Random, end, intent, seeds, small};
use super::sim_disk::SimDisk;
use crate::frame::{decode_frame, iter_frames, write_array};
use crate::hash_chain::{HashChain, LedgerCheckpoint};
use crate::integrity_finding::DamageKind;
use crate::segment::{SEGMENT_HEADER_BYTES, parse_segment_name, segment_name};
use crate::verification::{VerificationReport, verify_record};
use crate::writer_progress::WriterProgress;

pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// A record that was closed in order: 300 calls in many segments.
fn record() -> (Files, LedgerCheckpoint) {
    record_of(0)
}

fn record_of(shift: u64) -> (Files, LedgerCheckpoint) {
    let disk = SimDisk::new(1);
    let mut driven = Driven::open(disk.shared(), small()).unwrap();
    for number in 0..300 {
        let (ticket, _) = driven.begin(&intent(number), Durability::Synced).unwrap();
        driven
            .inner
            .append_outcome(ticket.mark_complete(), &end(number + shift), Durability::Written)
            .unwrap();
        driven.syncer.run_once(false);
    }
    driven.syncer.close_writer();
    let checkpoint = driven.inner.lock_checkpoint().clone().unwrap();
    (disk.files(), checkpoint)
}

fn check(files: &Files, kept: &[LedgerCheckpoint]) -> VerificationReport {
    verify_record(Path::new(DIR), &SimDisk::holding(files).shared(), kept).unwrap()
}

/// Where a frame lies.
#[derive(Debug, Clone)]
struct Lies {
    file: String,
    at: usize,
    length: usize,
}

impl Lies {
    fn range(&self) -> std::ops::Range<usize> {
        self.at..self.at + self.length
    }
}

fn all_frames(files: &Files) -> Vec<Lies> {
    let mut all = Vec::new();
    for (file, bytes) in files.iter().filter(|(file, _)| parse_segment_name(file).is_some()) {
        let mut at = SEGMENT_HEADER_BYTES;
        for frame in iter_frames(&bytes[SEGMENT_HEADER_BYTES..]) {
            let length = frame.bytes.len();
            all.push(Lies { file: file.clone(), at, length });
            at += length;
        }
        assert_eq!(at, bytes.len());
    }
    all
}

/// Makes the checksum of a frame right again.
fn sum(frame: &mut [u8]) {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&frame[..4]);
    sum.update(&frame[8..]);
    write_array(frame, 4, sum.finalize().to_le_bytes());
    decode_frame(frame).unwrap();
}

pub(super) const KINDS: [&str; 12] = [
    "flip a bit",
    "flip a bit of a body, with its checksum",
    "flip a bit of a header",
    "delete a record",
    "delete records, with all numbers behind",
    "insert a copy",
    "insert bytes",
    "change the order",
    "change the order, with the numbers",
    "cut a segment that is not the last",
    "swap two segments",
    "delete a segment",
];

/// Changes by an attacker who knows the format, including the progress file.
pub(super) fn fit_progress(files: &mut Files) {
    let segments =
        files.iter().filter_map(|(file, bytes)| Some((parse_segment_name(file)?.1, bytes)));
    let (mut written, mut segment) = (0, 0);
    for (number, bytes) in segments {
        segment = number;
        let own = bytes.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
        written = iter_frames(own).last().map_or(written, |frame| frame.seq);
    }
    let progress = WriterProgress {
        written_seq: written,
        synced_seq: written,
        segment_number: segment,
        is_closed: true,
        ..WriterProgress::default()
    };
    files.insert("main.progress".to_owned(), progress.encode().to_vec());
}

/// Does one of [`KINDS`] to anything but the last frame, which no checkpoint covers.
pub(super) fn edit(kind: usize, files: &mut Files, random: &mut Random) {
    let mut segments = files.clone();
    segments.retain(|name, _| parse_segment_name(name).is_some());
    files.retain(|name, _| parse_segment_name(name).is_none());
    edit_segments(kind, &mut segments, random);
    files.extend(segments);
}

fn edit_segments(kind: usize, files: &mut Files, random: &mut Random) {
    let all = all_frames(files);
    let sealed = &all[..all.len() - 1];
    let pick = random.index(sealed.len());
    let one = &sealed[pick];
    let names = files.keys().cloned().collect::<Vec<_>>();
    let segment = names[random.index(names.len() - 1)].clone();
    let bytes = files.get_mut(&one.file).unwrap();
    match kind {
        0 => bytes[one.at + random.index(one.length)] ^= 1 << random.below(8),
        1 => {
            let frame = &mut bytes[one.range()];
            frame[36 + random.index(one.length - 36)] ^= 1 << random.below(8);
            sum(frame);
        }
        2 => {
            let at = random.index(SEGMENT_HEADER_BYTES);
            files.get_mut(&segment).unwrap()[at] ^= 1 << random.below(8);
        }
        3 => drop(bytes.drain(one.range())),
        4 => {
            // Some less than would reach the end.
            let many = (all.len() - 1 - pick).min(1 + random.index(3));
            renumber(files, one, many as u64);
        }
        5 => {
            let copy = sealed[random.index(sealed.len())].clone();
            let copied = files[&copy.file][copy.range()].to_vec();
            files.get_mut(&one.file).unwrap().splice(one.at..one.at, copied);
        }
        6 => {
            let many = 1 + random.index(60);
            let junk = (0..many).map(|_| random.next().to_le_bytes()[0]).collect::<Vec<_>>();
            bytes.splice(one.at..one.at, junk);
        }
        7 | 8 => swap_frames(files, sealed, kind == 8, random),
        9 => {
            let bytes = files.get_mut(&segment).unwrap();
            let keep = random.index(bytes.len());
            bytes.truncate(keep);
        }
        10 => {
            let other = names.iter().rfind(|name| **name != segment).unwrap().clone();
            let (a, b) = (files[&segment].clone(), files[&other].clone());
            files.insert(segment, b);
            files.insert(other, a);
        }
        _ => drop(files.remove(&segment)),
    }
}

/// Deletes frames and gives all that follow new numbers.
fn renumber(files: &mut Files, from: &Lies, many: u64) {
    let mut left = many;
    for (_, bytes) in files.range_mut(from.file.clone()..) {
        let mut kept = bytes[..SEGMENT_HEADER_BYTES].to_vec();
        let mut at = SEGMENT_HEADER_BYTES;
        for frame in iter_frames(&bytes.clone()[SEGMENT_HEADER_BYTES..]) {
            let here = at >= from.at || left < many;
            at += frame.bytes.len();
            if here && left > 0 {
                left -= 1;
                continue;
            }
            let mut whole = frame.bytes.to_vec();
            if here {
                write_array(&mut whole, 12, (frame.seq - many).to_le_bytes());
                sum(&mut whole);
            }
            kept.extend(whole);
        }
        *bytes = kept;
    }
}

/// Swaps two frames of one segment.
fn swap_frames(files: &mut Files, sealed: &[Lies], numbers: bool, random: &mut Random) {
    let (a, b) = loop {
        let a = &sealed[random.index(sealed.len())];
        let near = sealed.iter().filter(|b| b.file == a.file && b.at > a.at).collect::<Vec<_>>();
        if !near.is_empty() {
            break (a, near[random.index(near.len())]);
        }
    };
    let bytes = files.get_mut(&a.file).unwrap();
    let (mut first, mut second) = (bytes[a.range()].to_vec(), bytes[b.range()].to_vec());
    if numbers {
        let (x, y) = (decode_frame(&first).unwrap().seq, decode_frame(&second).unwrap().seq);
        write_array(&mut first, 12, y.to_le_bytes());
        write_array(&mut second, 12, x.to_le_bytes());
        sum(&mut first);
        sum(&mut second);
    }
    bytes.splice(b.range(), first);
    bytes.splice(a.range(), second);
}

#[test]
fn every_change_of_what_is_sealed_is_found() {
    let (good, kept) = record();
    let report = check(&good, &[kept]);
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(
        (report.writers[0].external_checkpoints, report.writers[0].unsealed_records),
        (1, 1)
    );
    assert!(good.len() > 20, "{} segments", good.len());
    let mut found = [(0, 0); KINDS.len()];
    let mut missed = Vec::new();
    for seed in 0..seeds() {
        let mut random = Random::new(seed);
        let kind = usize::try_from(seed).unwrap() % KINDS.len();
        let mut files = good.clone();
        edit(kind, &mut files, &mut random);
        if files == good {
            continue;
        }
        let report = check(&files, &[]);
        found[kind].1 += 1;
        // The last record of a segment, copied to the beginning of the next one, is what a record looks like that was
        // carried over after a failed sync: no record is changed or missing, and the report names the place.
        if report.is_sound() && report.writers[0].discarded.is_empty() {
            missed.push((seed, KINDS[kind]));
        } else {
            found[kind].0 += 1;
        }
    }
    for (name, (found, tried)) in KINDS.iter().zip(found) {
        println!("{found:4} of {tried:4}  {name}");
    }
    assert_eq!(missed, []);
    assert!(found.iter().all(|(_, tried)| *tried > 20), "{found:?}");
}

/// Changes that no check detects by itself; [`VerificationReport::LIMITS`] states each of them.
const UNSEEN: [(&str, &str); 3] = [
    ("cut the end off", "an end that was cut off"),
    ("put an older copy back", "a restored older copy"),
    ("write all of it anew", "a completely rewritten record"),
];

/// Does one of [`KINDS`] or of [`UNSEEN`].
fn tamper(kind: usize, good: &Files, forged: &Files, random: &mut Random) -> Files {
    let mut files = good.clone();
    match kind.checked_sub(KINDS.len()) {
        None => edit(kind, &mut files, random),
        Some(2) => files.clone_from(forged),
        Some(how) => {
            // An older copy ends where a segment did, a cut anywhere.
            let all = all_frames(good);
            let mut end = all[1 + random.index(all.len() - 2)].clone();
            if how == 1 {
                end.at = SEGMENT_HEADER_BYTES.max(end.at);
                let first = all.iter().find(|lies| lies.file == end.file).unwrap();
                end = first.clone();
            }
            cut_at(&mut files, &end);
            fit_progress(&mut files);
        }
    }
    files
}

/// Takes a frame away, and all behind it.
fn cut_at(files: &mut Files, end: &Lies) {
    files.retain(|name, _| *name <= end.file || parse_segment_name(name).is_none());
    files.get_mut(&end.file).unwrap().truncate(end.at);
}

/// With an external checkpoint every change is found. Without one, undetected changes are exactly
/// those that the report excludes.
#[test]
fn with_a_kept_checkpoint_every_edit_is_found_and_without_one_what_is_told_is_missed() {
    let (good, kept) = record();
    let (forged, _) = record_of(1);
    let kinds = KINDS.len() + UNSEEN.len();
    let (mut tried, mut alone, mut missed) = (0, 0, [0; UNSEEN.len()]);
    for seed in 0..seeds() / 5 {
        let mut random = Random::new(seed ^ 0x5eed);
        let kind = usize::try_from(seed).unwrap() % kinds;
        let files = tamper(kind, &good, &forged, &mut random);
        if files == good {
            continue;
        }
        tried += 1;
        let report = check(&files, std::slice::from_ref(&kept));
        assert!(!report.is_sound(), "seed {seed}, kind {kind} is not found with a kept checkpoint");
        if check(&files, &[]).is_sound() {
            let unseen = kind.checked_sub(KINDS.len());
            let unseen = unseen.unwrap_or_else(|| panic!("{} is not found", KINDS[kind]));
            assert!(VerificationReport::LIMITS.contains(UNSEEN[unseen].1));
            missed[unseen] += 1;
        } else {
            alone += 1;
        }
    }
    println!("{tried} edits: all found with a kept checkpoint, {alone} without one");
    for ((name, _), missed) in UNSEEN.iter().zip(missed) {
        println!("{missed:4} not found without one: {name}");
        assert!(missed > 0, "the report claims not to see what it sees: {name}");
    }
    assert!(tried >= 190, "{tried}");
}

/// Checkpoints are consistent if the later one extends the earlier one; otherwise the difference is
/// located.
#[test]
fn any_two_checkpoints_fit_together_or_it_is_told() {
    let sealed = |files: &Files| {
        let frames = files.values().flat_map(|bytes| {
            let of_kind = iter_frames(bytes.get(SEGMENT_HEADER_BYTES..).unwrap_or_default())
                .filter(|f| f.kind == RecordKind::Checkpoint);
            let bodies =
                of_kind.map(|f| serde_json::from_slice::<LedgerCheckpoint>(f.body).unwrap());
            bodies.collect::<Vec<_>>()
        });
        frames.collect::<Vec<_>>()
    };
    let ((good, _), (other, _)) = (record(), record_of(1));
    let (ours, theirs) = (sealed(&good), sealed(&other));
    assert!(ours.len() > 30, "{}", ours.len());
    let mut random = Random::new(4);
    for _ in 0..seeds() / 20 {
        let (a, b) = (random.index(ours.len()), random.index(ours.len()));
        // As they come from signed notes: without the roots of subtrees.
        let pair =
            [&ours[a], &ours[b]].map(|it| LedgerCheckpoint { peaks: Vec::new(), ..it.clone() });
        let report = check(&good, &pair);
        assert!(report.is_sound() && report.writers[0].external_checkpoints == 2, "{report:?}");
        let of_other =
            LedgerCheckpoint { peaks: Vec::new(), ..theirs[b.min(theirs.len() - 1)].clone() };
        let report = check(&good, &[pair[0].clone(), of_other]);
        assert_eq!(report.writers[0].external_checkpoints, 1, "{report:?}");
        assert_eq!(
            report
                .findings
                .iter()
                .filter(|f| f.damage == DamageKind::ExternalCheckpointMismatch)
                .count(),
            1
        );
    }
}

#[test]
fn a_finding_names_the_place() {
    let (good, _) = record();
    let all = all_frames(&good);
    let one = &all[100];
    let mut files = good.clone();
    files.get_mut(&one.file).unwrap()[one.at + 40] ^= 1;
    let report = check(&files, &[]);
    let found = &report.findings[0];
    assert_eq!((found.damage, found.seq), (DamageKind::CorruptRecord, Some(101)));
    assert_eq!((&found.segment, found.offset), (&one.file, one.at as u64));
    // One change in what is whole is one finding, at the checkpoint that does not fit.
    let mut files = good;
    let bytes = &mut files.get_mut(&one.file).unwrap()[one.range()];
    bytes[one.length - 2] ^= 1;
    sum(bytes);
    let report = check(&files, &[]);
    assert_eq!(report.findings.len(), 1, "{report:?}");
    assert_eq!(report.findings[0].damage, DamageKind::ChainMismatch);
    assert!(report.findings[0].message.starts_with("the records "), "{report:?}");
}

/// Pretends that the writer was killed during the current boot, with the last record unsynced.
fn killed(files: &mut Files) {
    let progress = files.get_mut("main.progress").unwrap();
    let closed = WriterProgress::decode(progress).unwrap();
    assert!(closed.is_closed && closed.synced_seq == closed.written_seq, "{closed:?}");
    // The boot of a simulated disk.
    let boot = Some([1; 16]);
    let synced = closed.synced_seq - 1;
    *progress = WriterProgress { boot_id: boot, synced_seq: synced, is_closed: false, ..closed }
        .encode()
        .to_vec();
}

#[test]
fn a_torn_end_is_told_and_is_no_tampering_after_a_loss_of_power_only() {
    let (good, _) = record();
    let (last, bytes) = good.iter().rfind(|(name, _)| parse_segment_name(name).is_some()).unwrap();
    for cut in 1..60 {
        let mut files = good.clone();
        files.insert(last.clone(), bytes[..bytes.len() - cut].to_vec());
        assert!(
            !check(&files, &[]).is_sound(),
            "a record that was closed in order has no torn end"
        );
        killed(&mut files);
        assert!(!check(&files, &[]).is_sound(), "what was written is there while the system runs");
        killed_elsewhere(&mut files);
        let report = check(&files, &[]);
        assert!(report.is_sound(), "{report:?}");
        assert_eq!(report.writers[0].discarded.len(), 1, "{report:?}");
        assert!(report.writers[0].unsealed_records > 1, "{report:?}");
        assert_eq!(report.writers[0].lost_records, 1, "{report:?}");
    }
    // A write in progress when the process was killed, which no caller saw acknowledged.
    let mut files = good.clone();
    killed(&mut files);
    for (added, sound) in
        [(&bytes[SEGMENT_HEADER_BYTES..SEGMENT_HEADER_BYTES + 40], true), (&[7; 40][..], false)]
    {
        files.insert(last.clone(), [bytes.as_slice(), added].concat());
        let report = check(&files, &[]);
        assert_eq!(report.is_sound(), sound, "{report:?}");
    }
}

fn killed_elsewhere(files: &mut Files) {
    let progress = files.get_mut("main.progress").unwrap();
    let there = WriterProgress::decode(progress).unwrap();
    *progress = WriterProgress { boot_id: Some([2; 16]), ..there }.encode().to_vec();
}

#[test]
fn an_end_that_was_cut_off_is_found_against_a_kept_checkpoint_only() {
    let (good, kept) = record();
    let all = all_frames(&good);
    let (mut alone, mut tried) = (0, 0);
    for keep in (1..all.len()).step_by(7) {
        let mut files = good.clone();
        let end = &all[keep];
        cut_at(&mut files, end);
        let report = check(&files, &[]);
        assert!(!report.is_sound(), "{keep}: what stands beside the segments goes further");
        fit_progress(&mut files);
        let report = check(&files, &[]);
        tried += 1;
        alone += usize::from(!report.is_sound());
        // A checkpoint of before the cut fits still; the one of the end does not.
        let report = check(&files, std::slice::from_ref(&kept));
        if keep as u64 <= kept.last_seq {
            let faults = report
                .findings
                .iter()
                .filter(|found| found.damage == DamageKind::ExternalCheckpointMismatch)
                .count();
            assert_eq!(faults, 1, "kept {keep} of {}: {report:?}", all.len());
        }
    }
    println!("{alone} of {tried} cuts at the end are seen without a kept checkpoint, all with one");
    assert!(alone < tried, "the record claims to see what it cannot");
    assert!(VerificationReport::LIMITS.contains("an end that was cut off"));
}

#[test]
fn a_record_written_anew_is_found_against_a_kept_checkpoint_only() {
    let (_, kept) = record();
    let (forged, _) = record_of(1);
    assert!(check(&forged, &[]).is_sound());
    let report = check(&forged, std::slice::from_ref(&kept));
    assert_eq!(report.findings.len(), 1, "{report:?}");
    assert_eq!(report.findings[0].damage, DamageKind::ExternalCheckpointMismatch);
    let gone = check(&Files::new(), &[kept]);
    assert_eq!(gone.findings[0].damage, DamageKind::ExternalCheckpointMismatch, "{gone:?}");
}

#[test]
fn a_second_intent_or_outcome_is_found() {
    let (mut files, _) = record();
    files.retain(|file, _| *file == segment_name("main", 1));
    let bytes = files.get_mut(&segment_name("main", 1)).unwrap();
    let read =
        iter_frames(&bytes[SEGMENT_HEADER_BYTES..]).map(|f| f.bytes.to_vec()).collect::<Vec<_>>();
    // A consistent record with wrong content: two calls begin and end twice.
    let mut chain = HashChain::new("main");
    bytes.truncate(SEGMENT_HEADER_BYTES);
    let first = [0, 1, 0, 1, 1].map(|at| read[at].clone());
    for (seq, mut frame) in (1..).zip(first) {
        write_array(&mut frame, 12, u64::to_le_bytes(seq));
        sum(&mut frame);
        chain.append_frame(seq, &frame);
        bytes.extend(frame);
    }
    fit_progress(&mut files);
    let report = check(&files, &[chain.to_checkpoint("main", WallTime(0))]);
    let faults = report.findings.iter().map(|f| (f.damage, f.seq.unwrap())).collect::<Vec<_>>();
    assert_eq!(
        faults,
        [
            (DamageKind::CallMismatch, 3),
            (DamageKind::CallMismatch, 4),
            (DamageKind::CallMismatch, 5)
        ],
        "{report:?}"
    );
}

#[test]
fn a_damaged_record_goes_on_and_keeps_its_evidence() {
    let (good, _) = record();
    let all = all_frames(&good);
    let mut files = good;
    let one = &all[200];
    files.get_mut(&one.file).unwrap()[one.at + 50] ^= 1;
    let disk = SimDisk::holding(&files);
    let driven = Driven::open(disk.shared(), small()).unwrap();
    assert_eq!(driven.recovery.findings.len(), 1, "{:?}", driven.recovery);
    assert_eq!(driven.recovery.findings[0].seq, Some(201));
    driven.call(9_000);
    driven.close();
    let report = verify_record(Path::new(DIR), &disk.shared(), &[]).unwrap();
    assert_eq!(disk.files()[&one.file], files[&one.file], "evidence was changed");
    assert!(report.findings.iter().all(|found| found.seq <= Some(all.len() as u64)), "{report:?}");
    assert_eq!(report.findings[0].seq, Some(201));
    assert_eq!(report.writers[0].unsealed_records, 1);
}
