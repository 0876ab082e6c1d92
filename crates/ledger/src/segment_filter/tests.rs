use proptest::prelude::*;
use tool::CallId;
use uuid::Uuid;

use super::{FilterHead, Key, PAGE, PARTS, Part, ROWS, SegmentFilter, Source, page_of, rows_of};

fn head(parts: usize) -> FilterHead {
    let source = Source { sum: 7, nonce: 8, size: 9 };
    let mut head = FilterHead::empty(3, source, 0x0123_4567_89ab_cdef);
    head.parts =
        (0..parts as u64).map(|at| Part { offset: at * 100, first: at * 10 + 1 }).collect();
    head
}

fn call(number: u64) -> CallId {
    CallId(Uuid::from_u128(u128::from(number) << 40))
}

/// The parts that the rows admit.
fn admitted(filter: &SegmentFilter, hash: u64) -> u64 {
    let page = page_of(hash, filter.head.pages) as usize * ROWS;
    rows_of(hash).into_iter().fold(u64::MAX, |parts, row| parts & filter.rows[page + row])
}

#[test]
fn a_part_admits_each_of_its_keys_and_few_others() {
    let (parts, of_each) = (PARTS, 2_000);
    let head = head(parts);
    let hash = |number| Key::Call(call(number)).hash(head.salt);
    let keys: Vec<Vec<u64>> = (0..parts as u64)
        .map(|part| (0..of_each).map(|at| hash(part * of_each + at)).collect())
        .collect();
    let filter = SegmentFilter::new(head.clone(), &keys);
    for (part, keys) in keys.iter().enumerate() {
        assert!(keys.iter().all(|key| admitted(&filter, *key) & (1 << part) != 0), "{part}");
    }
    // A segment that holds 128,000 calls admits fewer than one in 50 foreign ones to any part.
    let foreign = (1_000_000..1_020_000).filter(|call| admitted(&filter, hash(*call)) != 0).count();
    assert!(foreign < 400, "{foreign} of 20,000");
    let bytes = filter.encode().len();
    assert!(bytes < parts * usize::try_from(of_each).unwrap() * 4, "{bytes}");
}

#[test]
fn a_head_reads_back_and_every_changed_bit_is_detected() {
    let mut head = head(64);
    head.calls = Some((call(4), call(9)));
    (head.unreadable, head.unnamed) = (1 << 5, 1 << 63);
    let bytes = SegmentFilter::new(head.clone(), &[vec![1, 2, 3]]).encode();
    let read = FilterHead::decode(&bytes).unwrap();
    (head.pages, head.sum) = (1, read.sum);
    assert_eq!(read, head);
    assert_eq!(FilterHead::decode(&bytes[..PAGE - 1]), None);
    for bit in 0..PAGE * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(FilterHead::decode(&bad), None, "bit {bit}");
    }
}

#[test]
fn names_do_not_run_together() {
    let one = Key::OrgAndTool("ab", "c").hash(1);
    assert_eq!(one, Key::OrgAndTool("ab", "c").hash(1));
    for other in [Key::OrgAndTool("a", "bc"), Key::Org("abc"), Key::Tool("abc")] {
        assert_ne!(one, other.hash(1), "{other:?}");
    }
    assert_ne!(one, Key::OrgAndTool("ab", "c").hash(2), "the salt counts");
}

proptest! {
    #[test]
    fn any_bytes_are_a_head_or_none(mut bytes in prop::collection::vec(any::<u8>(), PAGE)) {
        prop_assert_eq!(FilterHead::decode(&bytes), None);
        // With magic, version and checksum, whatever else they say.
        bytes[..10].copy_from_slice(b"tkfilter\x01\0");
        let sum = crc32fast::hash(&bytes[..PAGE - 4]).to_le_bytes();
        bytes[PAGE - 4..].copy_from_slice(&sum);
        if let Some(head) = FilterHead::decode(&bytes) {
            prop_assert!(head.pages > 0 && (1..=PARTS).contains(&head.parts.len()));
        }
    }
}
