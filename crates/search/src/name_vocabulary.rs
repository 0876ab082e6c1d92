//! Words of the names in a segment of an index, to correct typing errors in queries.

/// Minimum letters of a word that is corrected, and of one with two errors.
const MIN_LETTERS: (usize, usize) = (5, 9);
/// Maximum number of corrections of one word.
const MAX_CORRECTIONS: usize = 3;

/// A word of names: where it is, and the letters it has as bits.
#[derive(Debug)]
struct NameWord {
    begin: u32,
    length: u32,
    letters: u32,
}

/// The words of the names of some tools, each once: shorter ones first, then in their order.
#[derive(Debug, Default)]
pub(crate) struct NameVocabulary {
    text: Box<str>,
    words: Box<[NameWord]>,
}

impl NameVocabulary {
    /// Creates the vocabulary from words in any order. Those that correct nothing are left out.
    pub(crate) fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let corrects = |word: &&str| word.is_ascii() && word.len() + 1 >= MIN_LETTERS.0;
        let mut all: Vec<&str> = words.filter(corrects).collect();
        all.sort_unstable_by_key(|word| (word.len(), *word));
        all.dedup();
        let text: String = all.concat();
        let mut begin = 0;
        let words = all.iter().map(|word| {
            let length = u32::try_from(word.len()).unwrap_or(u32::MAX);
            let entry = NameWord { begin, length, letters: letter_bits(word) };
            begin = begin.saturating_add(length);
            entry
        });
        Self { words: words.collect(), text: text.into() }
    }

    /// Returns the memory that it takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.words)
    }

    /// Iterates over the words that may be a misspelled one, by their lengths and letters.
    fn candidates(&self, word: &str, max_errors: usize) -> impl Iterator<Item = &str> {
        let length = |it: &NameWord| it.length as usize;
        let begin = self.words.partition_point(|it| length(it) < word.len() - max_errors);
        let end = self.words.partition_point(|it| length(it) <= word.len() + max_errors);
        let letters = letter_bits(word);
        let near = self.words.get(begin..end).unwrap_or_default().iter().filter(move |it| {
            // An edit that adds or removes a letter changes at most one of those that a word has,
            // another at most two.
            let lengthened = length(it).abs_diff(word.len());
            let changed = (it.letters ^ letters).count_ones() as usize;
            changed + lengthened <= 2 * max_errors
        });
        near.filter_map(move |it| {
            let begin = it.begin as usize;
            self.text.get(begin..begin + length(it))
        })
    }
}

/// Returns the words of several vocabularies that a misspelled one may stand for, the nearest first.
pub(crate) fn find_corrections<'a>(
    vocabularies: impl Iterator<Item = &'a NameVocabulary>,
    word: &str,
) -> Vec<&'a str> {
    let length = word.len();
    if length < MIN_LETTERS.0 || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return Vec::new();
    }
    let max_errors: usize = if length < MIN_LETTERS.1 { 1 } else { 2 };
    let mut near: Vec<&str> = vocabularies.flat_map(|it| it.candidates(word, max_errors)).collect();
    near.sort_unstable();
    near.dedup();
    let found = near.into_iter().map(|it| (strsim::damerau_levenshtein(word, it), it));
    let mut found: Vec<(usize, &str)> = found.filter(|it| it.0 <= max_errors).collect();
    found.sort_unstable();
    let nearest = found.first().map_or(0, |it| it.0);
    let words = found.into_iter().take_while(|it| it.0 == nearest).map(|it| it.1);
    words.take(MAX_CORRECTIONS).collect()
}

fn letter_bits(word: &str) -> u32 {
    word.bytes().fold(0, |bits, byte| bits | 1 << (byte % 32))
}

#[cfg(test)]
mod tests {
    use super::{NameVocabulary, find_corrections};

    #[test]
    fn a_typing_error_finds_its_word_and_another_word_none() {
        let words = |words: &[&'static str]| NameVocabulary::from_words(words.iter().copied());
        let all = ["calendar", "weather", "repository", "send", "mail", "repository"];
        let (one, other) = all.split_at(2);
        for (word, expected) in [
            ("calender", &["calendar"][..]),
            ("wether", &["weather"]),
            ("waether", &["weather"]),
            ("reposotiry", &["repository"]),
            ("mails", &["mail"]),
            ("sned", &[]),
            ("weather", &["weather"]),
            ("translate", &[]),
            ("日本語日本語", &[]),
            ("", &[]),
        ] {
            assert_eq!(find_corrections([words(&all)].iter(), word), expected, "{word}");
            let several = [words(other), words(one), words(&all), words(&[])];
            assert_eq!(find_corrections(several.iter(), word), expected, "{word} in several");
        }
    }
}
