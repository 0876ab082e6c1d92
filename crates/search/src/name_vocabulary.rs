//! Words of all names in an index, to correct typing errors in queries.

use std::collections::BTreeMap;

/// Minimum letters of a word that is corrected, and of one with two errors.
const MIN_LETTERS: (usize, usize) = (5, 9);
/// Maximum number of corrections of one word.
const MAX_CORRECTIONS: usize = 3;

/// A word of names, with the letters it has as bits.
#[derive(Debug)]
struct NameWord {
    word: Box<str>,
    letters: u32,
}

/// All words of the names of an index, in order.
#[derive(Debug, Default)]
pub(crate) struct NameVocabulary {
    /// Words by their number of bytes.
    by_length: BTreeMap<usize, Vec<NameWord>>,
}

impl NameVocabulary {
    /// Creates the vocabulary from words in any order.
    pub(crate) fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut all: Vec<&str> = words.filter(|word| word.is_ascii()).collect();
        all.sort_unstable();
        all.dedup();
        let mut by_length: BTreeMap<usize, Vec<NameWord>> = BTreeMap::new();
        for word in all {
            let entry = NameWord { word: word.into(), letters: letter_bits(word) };
            by_length.entry(word.len()).or_default().push(entry);
        }
        Self { by_length }
    }

    /// Returns the words that a misspelled one may stand for, the nearest first.
    pub(crate) fn corrections(&self, word: &str) -> Vec<&str> {
        let length = word.len();
        if length < MIN_LETTERS.0 || !word.bytes().all(|b| b.is_ascii_lowercase()) {
            return Vec::new();
        }
        let max_errors: usize = if length < MIN_LETTERS.1 { 1 } else { 2 };
        let letters = letter_bits(word);
        let near = self.by_length.range(length - max_errors..=length + max_errors);
        let candidates = near.flat_map(|(_, words)| words).filter(|it| {
            // An edit changes at most two of the letters that a word has.
            (it.letters ^ letters).count_ones() as usize <= 2 * max_errors
        });
        let distance = |it: &&NameWord| strsim::damerau_levenshtein(word, &it.word);
        let found = candidates.map(|it| (distance(&it), &*it.word));
        let mut found: Vec<(usize, &str)> = found.filter(|it| it.0 <= max_errors).collect();
        found.sort_unstable();
        let nearest = found.first().map_or(0, |it| it.0);
        let words = found.into_iter().take_while(|it| it.0 == nearest).map(|it| it.1);
        words.take(MAX_CORRECTIONS).collect()
    }
}

fn letter_bits(word: &str) -> u32 {
    word.bytes().fold(0, |bits, byte| bits | 1 << (byte % 32))
}

#[cfg(test)]
mod tests {
    use super::NameVocabulary;

    #[test]
    fn a_typing_error_finds_its_word_and_another_word_none() {
        let words = NameVocabulary::from_words(
            ["calendar", "weather", "repository", "send", "mail"].into_iter(),
        );
        for (word, expected) in [
            ("calender", &["calendar"][..]),
            ("wether", &["weather"]),
            ("waether", &["weather"]),
            ("reposotiry", &["repository"]),
            ("sned", &[]),
            ("weather", &["weather"]),
            ("translate", &[]),
            ("日本語日本語", &[]),
            ("", &[]),
        ] {
            assert_eq!(words.corrections(word), expected, "{word}");
        }
    }
}
