use std::sync::Arc;

use tool::Wall;

use super::{BODY, Head, SIZE, Tail};
use crate::disk::{Disk, DiskFile, Open, RealDisk, sharing_dir};
use crate::frame::Draft;
use crate::segment::{Header, Room, Site, create};
use crate::tests::fixture::{Random, intent};

/// A segment with nothing in it, and a tail that goes on from it.
struct Place {
    dir: tempfile::TempDir,
    site: Site,
    file: Arc<dyn DiskFile>,
    tail: Tail,
    sum: u32,
}

impl Place {
    fn new() -> Self {
        let dir = sharing_dir();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let site = Site { disk, dir: dir.path().to_owned(), writer: "main".to_owned() };
        let header = Header {
            writer: "main".to_owned(),
            number: 1,
            session: 1,
            synced: 0,
            at: Wall(7),
            nonce: 9,
        };
        let made = create(&site, &header, &[], Room { bytes: 1 << 20, needed: true }).unwrap();
        let tail = Tail::new(&site).expect("these tests need a file system with `fallocate`");
        Self { dir, site, file: made.file, tail, sum: made.sum }
    }

    fn head(&self, from: u64, first: u64) -> Head {
        Head { segment: self.sum, from, first }
    }

    /// The frames with these numbers that a reader finds, one after the other.
    fn read(&self) -> Vec<u8> {
        let file = self.site.open(1, Open::Read).unwrap();
        let size = usize::try_from(file.size().unwrap()).unwrap();
        let read = super::bytes(file.as_ref(), (0, size)).unwrap();
        assert_eq!(read.len(), size);
        read[crate::segment::HEADER..].to_vec()
    }

    /// Puts the frames up to this number, from the first on, and gives their bytes.
    fn fill(&mut self, last: u64) -> Vec<u8> {
        let mut all = Vec::new();
        for seq in 1..=last {
            let bytes = frame(seq);
            assert!(self.tail.put(self.head(FROM + all.len() as u64, seq), &bytes));
            all.extend_from_slice(&bytes);
        }
        all
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("main.tail")
    }
}

fn frame(seq: u64) -> Vec<u8> {
    Draft::intent(&intent(seq)).unwrap().seal(seq).to_vec()
}

const FROM: u64 = crate::segment::HEADER as u64;

#[test]
fn what_is_in_the_tail_follows_its_segment() {
    let mut place = Place::new();
    let mut all = Vec::new();
    for seq in 1..40 {
        let bytes = frame(seq);
        assert!(place.tail.put(place.head(FROM + all.len() as u64, seq), &bytes));
        all.extend_from_slice(&bytes);
        assert_eq!(place.read(), all, "{seq}");
    }
    // Any part of it may be in the segment too.
    let mut written = 0;
    for part in [1, 500, 3_000, all.len()] {
        place.file.append(&all[written..part]).unwrap();
        written = part;
        assert_eq!(place.read(), all, "{part}");
    }
    place.tail.begin(place.head(FROM + all.len() as u64, 40));
    assert_eq!(place.read(), all, "the older ones in the tail are no frames of it now");
    let bytes = frame(40);
    assert!(place.tail.put(place.head(FROM + all.len() as u64, 40), &bytes));
    assert_eq!(place.read(), [all, bytes].concat());
}

/// The same file is given in any way a fault may leave it: what is read is a beginning of the frames.
#[test]
fn a_damaged_tail_shows_nothing_that_is_none() {
    let mut place = Place::new();
    let all = place.fill(19);
    let mut ends = vec![0];
    ends.extend((1..20).scan(0, |end, seq| {
        *end += frame(seq).len();
        Some(*end)
    }));
    let whole = std::fs::read(place.path()).unwrap();
    let (mut random, mut short) = (Random::new(5), 0);
    for _ in 0..500 {
        let mut bad = whole.clone();
        bad[random.index(BODY + all.len())] ^= 1 << random.index(8);
        std::fs::write(place.path(), bad).unwrap();
        let read = place.read();
        assert!(all.starts_with(&read) && ends.contains(&read.len()));
        short += u64::from(read.len() < all.len());
    }
    assert!(short > 300, "{short}");
    for bytes in [&whole[..0], &whole[..50], &whole[..BODY + 3], b"nothing of the kind"] {
        std::fs::write(place.path(), bytes).unwrap();
        assert!(place.read().is_empty());
    }
}

#[test]
fn a_tail_of_another_segment_or_behind_its_end_follows_none() {
    let mut place = Place::new();
    let bytes = frame(1);
    assert!(place.tail.put(place.head(FROM, 1), &bytes));
    assert_eq!(place.read(), bytes);
    assert!(place.tail.put(place.head(FROM + 1, 1), &bytes));
    assert!(place.read().is_empty(), "a byte before it is missing");
    let other = Head { segment: place.sum ^ 1, ..place.head(FROM, 1) };
    assert!(place.tail.put(other, &bytes));
    assert!(place.read().is_empty());
}

/// What a loss of power leaves: the head of one writing, and the frames of another.
#[test]
fn frames_that_were_put_for_another_segment_are_none_of_this_one() {
    let mut place = Place::new();
    let bytes = frame(1);
    assert!(place.tail.put(place.head(FROM, 1), &bytes));
    let ours = std::fs::read(place.path()).unwrap();
    assert!(place.tail.put(Head { segment: place.sum ^ 1, ..place.head(FROM, 1) }, &bytes));
    let theirs = std::fs::read(place.path()).unwrap();
    for (body, counts) in [(&ours, true), (&theirs, false)] {
        std::fs::write(place.path(), [&ours[..BODY], &body[BODY..]].concat()).unwrap();
        let expected = if counts { &*bytes } else { &[] };
        assert_eq!(place.read(), expected);
    }
}

#[test]
fn a_tail_is_full_once_and_a_new_one_has_nothing() {
    let mut place = Place::new();
    let (mut from, mut seq) = (FROM, 1);
    loop {
        let bytes = frame(seq);
        if !place.tail.put(place.head(from, seq), &bytes) {
            break;
        }
        from += bytes.len() as u64;
        seq += 1;
    }
    assert!(from > SIZE as u64 - 1_000 && from <= SIZE as u64, "{from}");
    assert_eq!(std::fs::metadata(place.path()).unwrap().len(), SIZE as u64);
    let all = place.read();
    assert_eq!(all.len() as u64, from - FROM);
    place.tail = Tail::new(&place.site).unwrap();
    assert!(std::fs::read(place.path()).unwrap().iter().all(|byte| *byte == 0));
    // What is not there is nothing that follows.
    std::fs::remove_file(place.path()).unwrap();
    assert!(place.read().is_empty());
}

#[test]
fn a_tail_that_cannot_be_read_is_named() {
    let place = Place::new();
    std::fs::remove_file(place.path()).unwrap();
    std::fs::create_dir(place.path()).unwrap();
    let error = place.site.open(1, Open::Read).unwrap_err().to_string();
    assert!(error.contains("main.tail`: Is a directory"), "{error}");
}

/// What a loss of power left torn in the segment and whole in the tail.
#[test]
fn a_segment_is_completed_by_what_the_tail_has_whole() {
    let mut place = Place::new();
    let all = place.fill(9);
    let mut torn = all[..2_000].to_vec();
    torn[700..900].fill(0);
    place.file.append(&torn).unwrap();
    assert_eq!(place.read(), all);
    super::complete(&place.site, 1, place.file.as_ref()).unwrap();
    std::fs::remove_file(place.path()).unwrap();
    assert_eq!(place.read(), all);
    super::complete(&place.site, 1, place.file.as_ref()).unwrap();
    assert_eq!(place.read(), all);
}

#[test]
fn heads_that_cannot_be_are_none() {
    let place = Place::new();
    let good = place.head(FROM, 1);
    assert_eq!(Head::decode(&good.encode()), Some(good));
    for bad in [
        Head { from: FROM - 1, ..good },
        Head { first: u64::MAX, ..good },
        Head { first: 1 << 62, ..good },
    ] {
        assert_eq!(Head::decode(&bad.encode()), None, "{bad:?}");
    }
    let far = Head { from: u64::MAX, ..good };
    let mut place = place;
    assert!(place.tail.put(good, &frame(1)));
    let mut bytes = std::fs::read(place.path()).unwrap();
    bytes[..36].copy_from_slice(&far.encode());
    std::fs::write(place.path(), bytes).unwrap();
    assert!(place.read().is_empty());
}
