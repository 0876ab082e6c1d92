//! Built-in word vectors: one row per word piece, in the binary, so that the tools work without a
//! model.
//!
//! `word_vectors/make.py` generates the file; `word_vectors/README.md` describes its source. The
//! file is read in place without a copy, and a lookup is a binary search over sorted names.

use std::sync::LazyLock;

use crate::embedding_vector::{TextEmbedding, normalize_vector};
use crate::wordpiece_tokenizer::WordPieceTokenizer;

/// Bytes of the file's header: magic bytes, rows, dimensions, and bytes of the names.
const HEAD: usize = 16;
const MARK: &[u8] = b"TKWV";

static BYTES: &[u8] = include_bytes!("../word_vectors/word_vectors.bin");
static BUILT_IN: LazyLock<BuiltIn> = LazyLock::new(built_in);

struct BuiltIn {
    tokenizer: WordPieceTokenizer,
    vectors: &'static WordVectors,
}

#[expect(clippy::expect_used, reason = "the file is a constant, and every test reads it")]
fn built_in() -> BuiltIn {
    static VECTORS: LazyLock<WordVectors> =
        LazyLock::new(|| WordVectors::read(BYTES).expect("the word vectors are sound"));
    let vectors: &'static WordVectors = &VECTORS;
    BuiltIn {
        tokenizer: WordPieceTokenizer::built_in(vectors)
            .expect("they have a row for what is unknown"),
        vectors,
    }
}

/// Returns the dimensions of a vector.
pub fn dimensions() -> usize {
    BUILT_IN.vectors.dimensions
}

/// Returns true if the word, in lower case, is in the vocabulary as a whole.
pub fn is_known_word(word: &str) -> bool {
    BUILT_IN.vectors.find(word).is_some()
}

/// Returns the mean of the vectors of a text's pieces, scaled to length 1.
///
/// # Errors
/// Fails if the text has no word.
pub fn embed(text: &str) -> Result<TextEmbedding, String> {
    let BuiltIn { tokenizer, vectors } = &*BUILT_IN;
    let mut sum = vec![0.0_f32; vectors.dimensions];
    for row in tokenizer.token_ids(text) {
        vectors.add(row, &mut sum);
    }
    normalize_vector(sum).ok_or_else(|| "the text has no known word".to_owned())
}

/// Sections of the file. Numbers are little-endian.
pub(crate) struct WordVectors {
    dimensions: usize,
    /// End offset of each name, 32 bits.
    ends: &'static [[u8; 4]],
    /// Scale of each row's bytes, 32-bit floats.
    scales: &'static [[u8; 4]],
    /// All names, sorted and concatenated.
    names: &'static [u8],
    /// Rows, one byte per number.
    matrix: &'static [u8],
    longest: usize,
}

impl WordVectors {
    fn read(bytes: &'static [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let (mark, numbers) = head.split_at_checked(MARK.len())?;
        let mut numbers = numbers.as_chunks::<4>().0.iter().map(|it| number(*it));
        let [rows, dimensions, names] = [numbers.next()??, numbers.next()??, numbers.next()??];
        let (offsets, rest) = rest.split_at_checked(rows.checked_add(1)?.checked_mul(4)?)?;
        let (scales, rest) = rest.split_at_checked(rows.checked_mul(4)?)?;
        let (names, matrix) = rest.split_at_checked(names)?;
        // The first offset is 0: a name begins where the previous one ends.
        let (_, ends) = offsets.as_chunks::<4>().0.split_first()?;
        let scales = scales.as_chunks::<4>().0;
        let mut read = Self { dimensions, ends, scales, names, matrix, longest: 0 };
        let sound =
            mark == MARK && dimensions > 0 && matrix.len() == rows.checked_mul(dimensions)?;
        read.longest = (0..rows).filter_map(|row| Some(read.name(row)?.len())).max()?;
        sound.then_some(read)
    }

    /// Returns the row of a word piece.
    pub(crate) fn find(&self, piece: &str) -> Option<i32> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.name(middle)?.cmp(piece.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return i32::try_from(middle).ok(),
            }
        }
        None
    }

    /// Returns the bytes of the longest piece.
    pub(crate) fn longest_piece(&self) -> usize {
        self.longest
    }

    /// Returns the index of the last row.
    pub(crate) fn last(&self) -> i32 {
        i32::try_from(self.ends.len()).unwrap_or(i32::MAX).saturating_sub(1)
    }

    fn name(&self, row: usize) -> Option<&'static [u8]> {
        let begin = match row.checked_sub(1) {
            Some(before) => number(*self.ends.get(before)?)?,
            None => 0,
        };
        self.names.get(begin..number(*self.ends.get(row)?)?)
    }

    /// Adds a row to a sum.
    fn add(&self, row: i32, sum: &mut [f32]) {
        let row = usize::try_from(row).ok();
        let found = row.and_then(|row| {
            let begin = row.checked_mul(self.dimensions)?;
            let bytes = self.matrix.get(begin..begin.checked_add(self.dimensions)?)?;
            Some((bytes, f32::from_le_bytes(*self.scales.get(row)?)))
        });
        let Some((bytes, scale)) = found else { return };
        for (sum, byte) in sum.iter_mut().zip(bytes) {
            *sum += f32::from(byte.cast_signed()) * scale;
        }
    }
}

impl std::fmt::Debug for WordVectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows = self.ends.len();
        f.debug_struct("WordVectors")
            .field("rows", &rows)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

fn number(bytes: [u8; 4]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::{BUILT_IN, BYTES, WordVectors, embed, is_known_word};
    use crate::embedding_vector::cosine_similarity;

    #[test]
    fn every_row_is_found_by_its_name_and_a_broken_file_is_refused() {
        let vectors = BUILT_IN.vectors;
        for row in 0..vectors.ends.len() {
            let name = std::str::from_utf8(vectors.name(row).unwrap()).unwrap();
            assert_eq!(vectors.find(name), i32::try_from(row).ok(), "{name}");
        }
        assert_eq!((vectors.find("zzzz-no-piece"), vectors.find("")), (None, None));
        assert!(is_known_word("weather") && !is_known_word("waether"));
        assert!(BYTES.len() <= 7_800_000, "{}", BYTES.len());
        assert!(WordVectors::read(BYTES).is_some());
        for broken in [&BYTES[..BYTES.len() - 1], &BYTES[..20], &BYTES[1..], b""] {
            assert!(WordVectors::read(broken).is_none());
        }
    }

    #[test]
    fn any_text_has_a_vector_of_length_1_or_a_reason() {
        let long = "x".repeat(20_000);
        for text in ["cat", "中文字符", "😀", "ÀÉÎ", "don't", "a\u{0}b", long.as_str()] {
            let vector = embed(text).unwrap();
            let length: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
            assert!((length - 1.0).abs() < 1e-5 && vector.len() == super::dimensions(), "{text}");
        }
        assert!(embed("\u{0}\u{200b}").unwrap_err().contains("no known word"));
        // The end of a long text counts too.
        let [plain, more] =
            ["bread ".repeat(2_000), "bread ".repeat(1_000) + &"tax ".repeat(1_000)]
                .map(|text| embed(&text).unwrap());
        assert!(cosine_similarity(&plain, &more) < 0.95);
    }
}
