//! Tests of tails that version 0.1 left, and of their migration.

use std::path::Path;

use tool::Durability;

use super::{FRAMES_OFFSET, MAGIC, TAIL_BYTES, unmask_checksum};
use crate::frame::{iter_frames, write_array};
use crate::integrity_finding::DamageKind;
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::tests::fixture::{DIR, Driven, Random, end, intent, small};
use crate::tests::sim_disk::{Crash, SimDisk};
use crate::tests::tamper::Files;
use crate::verification::{VerificationReport, verify_record};

const CALLS: u64 = 40;
const TAIL: &str = "main.tail";

/// A tail with these frames for the segment whose header begins `segment`.
fn tail(segment: &[u8], (from, first): (u64, u64), own: &[u8]) -> Vec<u8> {
    let sum: [u8; 4] = segment[SEGMENT_HEADER_BYTES - 4..SEGMENT_HEADER_BYTES].try_into().unwrap();
    let mut bytes = vec![0; TAIL_BYTES];
    write_array(&mut bytes, 0, MAGIC);
    write_array(&mut bytes, 8, sum);
    write_array(&mut bytes, 16, from.to_le_bytes());
    write_array(&mut bytes, 24, first.to_le_bytes());
    let own_sum = crc32fast::hash(&bytes[..32]);
    write_array(&mut bytes, 32, own_sum.to_le_bytes());
    let mut at = FRAMES_OFFSET;
    for frame in iter_frames(own) {
        let mut whole = frame.bytes.to_vec();
        unmask_checksum(&mut whole, u32::from_le_bytes(sum));
        bytes[at..at + whole.len()].copy_from_slice(&whole);
        at += whole.len();
    }
    bytes
}

/// Creates the files of a killed older version: this many of the newest records are in the tail,
/// and this many of their bytes are in the segment too.
fn left(in_tail: usize, as_well: usize) -> Files {
    let disk = SimDisk::new(1);
    let mut options = small();
    options.segment_bytes = 1 << 20;
    options.checkpoint_records = 1_000;
    let driven = Driven::open(disk.shared(), options).unwrap();
    for number in 0..CALLS {
        let (ticket, _) = driven.begin(&intent(number), Durability::Written).unwrap();
        driven
            .inner
            .append_outcome(ticket.mark_complete(), &end(number), Durability::Written)
            .unwrap();
    }
    disk.crash(Crash::Kill);
    let mut files = disk.files();
    files.retain(|name, _| std::path::Path::new(name).extension().is_some_and(|it| it == "seg"));
    let (_, segment) = files.iter_mut().next().unwrap();
    let header =
        SegmentHeader { has_progress: false, ..SegmentHeader::decode_header(segment).unwrap() };
    segment[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.encode_header());
    let all: Vec<_> = iter_frames(&segment[SEGMENT_HEADER_BYTES..])
        .map(|frame| (frame.seq, frame.bytes.len()))
        .collect();
    let first = all[all.len() - in_tail].0;
    let from = SEGMENT_HEADER_BYTES
        + all.iter().take(all.len() - in_tail).map(|(_, length)| length).sum::<usize>();
    let tail = tail(segment, (from as u64, first), &segment[from..]);
    segment.truncate(from + as_well);
    files.insert(TAIL.to_owned(), tail);
    files
}

fn look(disk: &SimDisk) -> VerificationReport {
    verify_record(Path::new(DIR), &disk.shared(), &[]).unwrap()
}

#[test]
fn records_in_an_old_tail_are_on_record_and_go_to_their_segment() {
    for (in_tail, as_well) in [(1, 0), (30, 0), (30, 1_000), (80, 0), (80, 3_333)] {
        let files = left(in_tail, as_well);
        let disk = SimDisk::holding(&files);
        let report = look(&disk);
        assert!(report.is_sound(), "{report:?}");
        assert_eq!((report.writers[0].intents, report.writers[0].outcomes), (CALLS, CALLS));
        assert_eq!(report.writers[0].discarded, []);
        // The control: the segment alone does not have them.
        let mut alone = files.clone();
        alone.remove(TAIL);
        assert!(look(&SimDisk::holding(&alone)).writers[0].outcomes < CALLS);
        let driven = Driven::open(disk.shared(), small()).unwrap();
        assert_eq!((driven.recovery.findings.len(), driven.recovery.records), (0, 2 * CALLS));
        assert!(!disk.files().contains_key(TAIL));
        driven.call(1_000);
        driven.close();
        let report = look(&disk);
        assert!(report.is_sound(), "{report:?}");
        assert_eq!(report.writers[0].outcomes, CALLS + 1);
    }
}

/// A loss of power left them torn in the segment, and whole in the tail.
#[test]
fn a_torn_segment_is_completed_by_what_its_old_tail_has_whole() {
    let mut files = left(30, 4_000);
    let segment = files.values_mut().next().unwrap();
    let end = segment.len();
    segment[end - 2_000..end - 1_500].fill(0);
    let disk = SimDisk::holding(&files);
    assert!(look(&disk).is_sound());
    let driven = Driven::open(disk.shared(), small()).unwrap();
    assert_eq!((driven.recovery.findings.len(), driven.recovery.records), (0, 2 * CALLS));
}

#[test]
fn a_damaged_old_tail_is_a_finding_and_stays() {
    let good = left(60, 0);
    let used = FRAMES_OFFSET
        + good[TAIL][FRAMES_OFFSET..].iter().rposition(|byte| *byte != 0).unwrap()
        + 1;
    let last = end_of_the_last_but_one(&good[TAIL]);
    let mut random = Random::new(3);
    for round in 0..400 {
        let mut files = good.clone();
        let bytes = files.get_mut(TAIL).unwrap();
        match round % 4 {
            // The 28 bytes after the header have no meaning. The last record cannot be
            // distinguished from an interrupted write.
            0 | 1 => {
                let at = random.index(last - 28);
                bytes[if at < 36 { at } else { at + 28 }] ^= 1 << random.index(8);
            }
            2 => bytes.truncate(1 + random.index(used)),
            _ => bytes[random.index(36)..last - 1].fill(0),
        }
        let damaged = bytes.clone();
        let disk = SimDisk::holding(&files);
        let found = look(&disk).findings;
        assert!(
            found.iter().any(|found| found.damage == DamageKind::InvalidTail),
            "{round}: {found:?}"
        );
        assert_eq!(found[0].segment, TAIL);
        let driven = Driven::open(disk.shared(), small()).unwrap();
        let found = driven.recovery.findings;
        assert!(
            found.iter().any(|found| found.damage == DamageKind::InvalidTail),
            "{round}: {found:?}"
        );
        let files = disk.files();
        let kept = files.iter().find(|(name, _)| name.strip_suffix(".damaged").is_some());
        assert_eq!(kept.map(|(_, bytes)| bytes), Some(&damaged), "{round}");
    }
}

/// Where the last frame in a tail begins.
fn end_of_the_last_but_one(tail: &[u8]) -> usize {
    let (mut at, mut last) = (FRAMES_OFFSET, FRAMES_OFFSET);
    while let Ok(length) = crate::frame::frame_length(&tail[at..]) {
        last = at;
        at += length;
    }
    last
}

#[test]
fn an_old_tail_without_its_segment_is_a_finding_and_one_of_zeros_is_none() {
    let mut files = left(20, 0);
    files.retain(|name, _| name == TAIL);
    let disk = SimDisk::holding(&files);
    let found = look(&disk).findings;
    assert_eq!((found.len(), found[0].damage), (1, DamageKind::InvalidTail), "{found:?}");
    assert!(found[0].message.contains("records up to 80"), "{found:?}");
    files.insert(TAIL.to_owned(), vec![0; TAIL_BYTES]);
    assert_eq!(look(&SimDisk::holding(&files)).findings, []);
}
