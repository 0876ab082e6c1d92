//! Byte search eight bytes at a time, for short texts where starting a SIMD search costs more than
//! it saves. Callers with long texts switch to SIMD after a while.

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = LOW_BITS << 7;

/// Marks bytes equal to `byte` by their highest bit. Marks after the first may be wrong.
pub(super) const fn match_byte(word: u64, byte: u8) -> u64 {
    let differs = word ^ (LOW_BITS * byte as u64);
    differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS
}

/// Marks control characters in the same way.
pub(super) const fn match_control(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS * 0x20) & !word & HIGH_BITS
}

/// Marks bytes beyond ASCII in the same way.
pub(super) const fn match_non_ascii(word: u64) -> u64 {
    word & HIGH_BITS
}

/// Returns the number of bytes before the first marked one; the length if there is none.
pub(super) fn find_first(text: &[u8], mark: impl Fn(u64) -> u64) -> usize {
    let first = |word: [u8; 8]| {
        let marked = mark(u64::from_le_bytes(word));
        (marked != 0).then_some(marked.trailing_zeros() as usize / 8)
    };
    let (words, last) = text.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        if let Some(found) = first(*word) {
            return 8 * at + found;
        }
    }
    let mut padded = [0; 8];
    padded.iter_mut().zip(last).for_each(|(to, from)| *to = *from);
    let found = first(padded).unwrap_or(last.len());
    8 * words.len() + found.min(last.len())
}

#[cfg(test)]
mod tests {
    use super::{find_first, match_byte, match_control, match_non_ascii};

    proptest::proptest! {
        /// Whatever stands around it, and wherever it stands.
        #[test]
        fn the_first_is_found(text in proptest::collection::vec(proptest::num::u8::ANY, 0..40), byte: u8) {
            let found = |is: &dyn Fn(&u8) -> bool| text.iter().position(is).unwrap_or(text.len());
            proptest::prop_assert_eq!(find_first(&text, |word| match_byte(word, byte)), found(&|b| *b == byte));
            proptest::prop_assert_eq!(find_first(&text, match_control), found(&|b| *b < 0x20));
            proptest::prop_assert_eq!(find_first(&text, match_non_ascii), found(&|b| *b >= 0x80));
            let odd = |word| match_byte(word, b'"') | match_byte(word, b'\\') | match_control(word);
            proptest::prop_assert_eq!(
                find_first(&text, odd),
                found(&|b| matches!(b, b'"' | b'\\' | 0..0x20))
            );
        }
    }
}
