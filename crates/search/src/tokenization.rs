//! Words of a text: identifiers are split, English words stemmed, CJK text cut into bigrams.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::LazyLock;

use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Maximum bytes of a word; the rest of a longer one is not read.
const MAX_WORD_BYTES: usize = 40;

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// Hash of a term, the same in every index of a process and across processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TermHash(u64);

impl TermHash {
    /// Hashes a term as it is, after stemming.
    pub(crate) fn of_term(term: &str) -> Self {
        let mut hash = DefaultHasher::new();
        hash.write(term.as_bytes());
        Self(hash.finish())
    }

    /// Returns which of a number of buckets, in the order of the hashes, has the term.
    pub(crate) fn bucket_of(self, buckets: usize) -> usize {
        let product = u128::from(self.0) * buckets as u128;
        usize::try_from(product >> u64::BITS).unwrap_or(usize::MAX)
    }
}

/// Kind of a word within its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordKind {
    /// A word, or a part of an identifier.
    Part,
    /// All parts of an identifier in camel case together, beside its parts.
    Compound,
    /// Two neighbouring CJK characters, or a single one.
    Bigram,
}

/// Visits the words of a text in lower case, without accents, in their order.
pub(crate) fn for_each_word(text: &str, mut visit: impl FnMut(&str, WordKind)) {
    let text: Cow<'_, str> = if text.is_ascii() {
        Cow::Borrowed(text)
    } else {
        text.nfd().filter(|c| !is_combining_mark(*c)).nfc().collect::<String>().into()
    };
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        if run.is_ascii() {
            visit_identifier(run, &mut visit);
        } else {
            visit_mixed_run(run, &mut visit);
        }
    }
}

/// Separates CJK characters from the words around them.
fn visit_mixed_run(run: &str, visit: &mut impl FnMut(&str, WordKind)) {
    let mut rest = run;
    while let Some(first) = rest.chars().next() {
        let is_cjk = is_cjk_letter(first);
        let end = rest.find(|c| is_cjk_letter(c) != is_cjk).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        if is_cjk {
            visit_bigrams(part, visit);
        } else {
            visit_identifier(part, visit);
        }
        rest = after;
    }
}

fn visit_bigrams(text: &str, visit: &mut impl FnMut(&str, WordKind)) {
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let (mut first, mut middle) = (starts.next(), starts.next());
    let mut any = false;
    for end in starts {
        if let Some(pair) = first.and_then(|begin| text.get(begin..end)) {
            visit(pair, WordKind::Bigram);
            any = true;
        }
        (first, middle) = (middle, Some(end));
    }
    if !any {
        visit(text, WordKind::Bigram);
    }
}

/// Splits an identifier in camel case: `getHTTPStatus` has the parts `get`, `http` and `status`.
fn visit_identifier(word: &str, visit: &mut impl FnMut(&str, WordKind)) {
    let mut parts = 0;
    let (mut begin, mut before) = (0, None);
    let mut letters = word.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let follows_lower = before.is_some_and(|c: char| c.is_lowercase() || c.is_numeric());
        let follows_upper = before.is_some_and(char::is_uppercase);
        let begins_lower = letters.peek().is_some_and(|(_, c)| c.is_lowercase());
        if letter.is_uppercase() && (follows_lower || (follows_upper && begins_lower)) {
            visit_lower(word.get(begin..at).unwrap_or_default(), WordKind::Part, visit);
            (begin, parts) = (at, parts + 1);
        }
        before = Some(letter);
    }
    visit_lower(word.get(begin..).unwrap_or_default(), WordKind::Part, visit);
    if parts > 0 {
        visit_lower(word, WordKind::Compound, visit);
    }
}

fn visit_lower(word: &str, kind: WordKind, visit: &mut impl FnMut(&str, WordKind)) {
    let word = word.get(..word.floor_char_boundary(MAX_WORD_BYTES)).unwrap_or(word);
    if word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        visit(word, kind);
    } else {
        visit(&word.to_lowercase(), kind);
    }
}

/// Returns the stem of an English word in lower case. Other words stay as they are.
pub(crate) fn stem_word(word: &str) -> Cow<'_, str> {
    if word.len() > 2 && word.bytes().all(|b| b.is_ascii_lowercase()) {
        STEMMER.stem(word)
    } else {
        Cow::Borrowed(word)
    }
}

/// Whether the character belongs to a script that is written without spaces.
fn is_cjk_letter(letter: char) -> bool {
    matches!(u32::from(letter),
        0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xAC00..=0xD7AF
        | 0xF900..=0xFAFF | 0x20000..=0x2FA1F | 0xFF66..=0xFF9F)
}

#[cfg(test)]
mod tests {
    use super::{TermHash, WordKind, for_each_word, stem_word};

    fn words(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        for_each_word(text, |word, kind| {
            let mark = match kind {
                WordKind::Part => "",
                WordKind::Compound => "+",
                WordKind::Bigram => "~",
            };
            all.push(format!("{mark}{word}"));
        });
        all
    }

    #[test]
    fn identifiers_are_split_at_every_convention() {
        for (text, expected) in [
            ("get_user.name-v2", vec!["get", "user", "name", "v2"]),
            ("getUserName", vec!["get", "user", "name", "+getusername"]),
            ("parseHTTPStatus", vec!["parse", "http", "status", "+parsehttpstatus"]),
            ("GitHub", vec!["git", "hub", "+github"]),
            ("base64Encode", vec!["base64", "encode", "+base64encode"]),
            ("AWS S3", vec!["aws", "s3"]),
            ("café Ünïcode", vec!["cafe", "unicode"]),
            ("", vec![]),
            ("—!?", vec![]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn cjk_text_becomes_bigrams_apart_from_words_beside_it() {
        assert_eq!(words("查询天气 API"), ["~查询", "~询天", "~天气", "api"]);
        assert_eq!(words("用Excel表"), ["~用", "excel", "~表"]);
        assert_eq!(words("東京タワー"), ["~東京", "~京タ", "~タワ", "~ワー"]);
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (one, other) in [("searching", "searches"), ("files", "file"), ("running", "runs")] {
            assert_eq!(stem_word(one), stem_word(other));
            assert_eq!(TermHash::of_term(&stem_word(one)), TermHash::of_term(&stem_word(other)));
        }
        assert_ne!(stem_word("file"), stem_word("filter"));
        for unchanged in ["s3", "mp4s", "äpfel", "is", "天气"] {
            assert_eq!(stem_word(unchanged), unchanged);
        }
    }

    #[test]
    fn a_long_word_is_cut_and_any_text_ends() {
        let long = "é".repeat(10_000) + &"aB".repeat(10_000);
        let all = words(&long);
        assert!(all.iter().all(|word| word.len() <= super::MAX_WORD_BYTES + 1), "{all:?}");
    }
}
