use proptest::prelude::*;
use tool::CallId;
use uuid::Uuid;

use super::{
    FilterHeader, FilterKey, FilterPart, FilterSource, MAX_PARTS, PAGE_BYTES, ROWS_PER_PAGE,
    SegmentFilter, hash_rows, key_page,
};

fn head(parts: usize) -> FilterHeader {
    let source = FilterSource { header_checksum: 7, nonce: 8, size_bytes: 9 };
    let mut head = FilterHeader::new_empty(3, source, 0x0123_4567_89ab_cdef);
    head.parts = (0..parts as u64)
        .map(|at| FilterPart { offset: at * 100, first_seq: at * 10 + 1 })
        .collect();
    head
}

fn call(number: u64) -> CallId {
    CallId(Uuid::from_u128(u128::from(number) << 40))
}

/// The parts that the rows admit.
fn admitted(filter: &SegmentFilter, hash: u64) -> u64 {
    let page = key_page(hash, filter.head.pages) as usize * ROWS_PER_PAGE;
    hash_rows(hash).into_iter().fold(u64::MAX, |parts, row| parts & filter.rows[page + row])
}

#[test]
fn a_part_admits_each_of_its_keys_and_few_others() {
    let (parts, of_each) = (MAX_PARTS, 2_000);
    let head = head(parts);
    let hash = |number| FilterKey::Call(call(number)).key_hash(head.salt);
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
    let bytes = filter.encode_file().len();
    assert!(bytes < parts * usize::try_from(of_each).unwrap() * 4, "{bytes}");
}

#[test]
fn a_head_reads_back_and_every_changed_bit_is_detected() {
    let mut head = head(64);
    head.call_range = Some((call(4), call(9)));
    (head.unreadable_parts, head.unnamed_parts) = (1 << 5, 1 << 63);
    let bytes = SegmentFilter::new(head.clone(), &[vec![1, 2, 3]]).encode_file();
    let read = FilterHeader::decode_page(&bytes).unwrap();
    (head.pages, head.checksum) = (1, read.checksum);
    assert_eq!(read, head);
    assert_eq!(FilterHeader::decode_page(&bytes[..PAGE_BYTES - 1]), None);
    for bit in 0..PAGE_BYTES * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(FilterHeader::decode_page(&bad), None, "bit {bit}");
    }
}

#[test]
fn names_do_not_run_together() {
    let one = FilterKey::OrgAndTool("ab", "c").key_hash(1);
    assert_eq!(one, FilterKey::OrgAndTool("ab", "c").key_hash(1));
    for other in [FilterKey::OrgAndTool("a", "bc"), FilterKey::Org("abc"), FilterKey::Tool("abc")] {
        assert_ne!(one, other.key_hash(1), "{other:?}");
    }
    assert_ne!(one, FilterKey::OrgAndTool("ab", "c").key_hash(2), "the salt counts");
}

proptest! {
    #[test]
    fn any_bytes_are_a_head_or_none(mut bytes in prop::collection::vec(any::<u8>(), PAGE_BYTES)) {
        prop_assert_eq!(FilterHeader::decode_page(&bytes), None);
        // With valid magic, version and checksum, but arbitrary other content.
        bytes[..10].copy_from_slice(b"tkfilter\x01\0");
        let sum = crc32fast::hash(&bytes[..PAGE_BYTES - 4]).to_le_bytes();
        bytes[PAGE_BYTES - 4..].copy_from_slice(&sum);
        if let Some(head) = FilterHeader::decode_page(&bytes) {
            prop_assert!(head.pages > 0 && (1..=MAX_PARTS).contains(&head.parts.len()));
        }
    }
}
