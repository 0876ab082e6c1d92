//! WordPiece tokenizer with BERT's normalizer, as `tokenizer.json` describes them.
//!
//! Supports only the parts of the format that all-MiniLM-L6-v2 uses; another kind of tokenizer is
//! rejected by name. The built-in vectors have the same pieces, in their own file.

use std::collections::HashMap;

use serde::Deserialize;
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization as _;

use crate::vector_table::WordVectors;

/// Default limit of pieces per text.
const MAX_PIECES: usize = 128;
/// Limit of pieces per text for the built-in vectors: more than any text of the tools has words.
const BUILT_IN_MAX_PIECES: usize = 8_192;
/// Maximum letters of a word that is looked up in the built-in vectors, as in the tokenizer they
/// were made with.
const BUILT_IN_MAX_LETTERS: usize = 100;

/// WordPiece tokenizer with its vocabulary.
#[derive(Debug)]
pub struct WordPieceTokenizer {
    vocabulary: Vocabulary,
    /// Bytes of the longest piece.
    longest_piece: usize,
    /// Special tokens, recognised wherever they occur.
    special: Vec<(String, i32)>,
    prefix: String,
    max_word_chars: usize,
    max_tokens: usize,
    unknown: i32,
    /// Tokens before and after each text, if the model requires them.
    ends: Option<(i32, i32)>,
}

/// Vocabulary in which pieces are looked up.
#[derive(Debug)]
enum Vocabulary {
    Read(HashMap<String, i32>),
    BuiltIn(&'static WordVectors),
}

impl Vocabulary {
    fn find(&self, piece: &str) -> Option<i32> {
        match self {
            Self::Read(pieces) => pieces.get(piece).copied(),
            Self::BuiltIn(vectors) => vectors.find(piece),
        }
    }
}

#[derive(Deserialize)]
struct TokenizerFile {
    #[serde(default)]
    truncation: Option<Truncation>,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Normalizer,
    model: Model,
}

#[derive(Deserialize)]
struct Truncation {
    max_length: usize,
}

#[derive(Deserialize)]
struct AddedToken {
    id: i32,
    content: String,
}

#[derive(Deserialize)]
struct Normalizer {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    lowercase: bool,
    #[serde(default)]
    strip_accents: Option<bool>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: HashMap<String, i32>,
}

impl WordPieceTokenizer {
    /// Parses a `tokenizer.json` file.
    pub fn parse_json(text: &[u8]) -> Result<Self, String> {
        let file: TokenizerFile =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let kind = file.model.kind.as_deref().unwrap_or("WordPiece");
        if kind != "WordPiece" || file.normalizer.kind != "BertNormalizer" {
            let found = &file.normalizer.kind;
            return Err(format!("it is a {kind} with {found}, not WordPiece with BertNormalizer"));
        }
        if !file.normalizer.lowercase || file.normalizer.strip_accents == Some(false) {
            return Err(
                "it keeps capitals or accents; use a tokenizer that removes both".to_owned()
            );
        }
        let pieces = file.model.vocab;
        let piece = |name: &str| {
            pieces.get(name).copied().ok_or_else(|| format!("it has no token `{name}`"))
        };
        let (unknown, begin, end) =
            (piece(&file.model.unk_token)?, piece("[CLS]")?, piece("[SEP]")?);
        let max_tokens = file.truncation.map_or(MAX_PIECES, |it| it.max_length).clamp(3, 512);
        let longest_piece = pieces.keys().map(String::len).max().unwrap_or(0);
        Ok(Self {
            special: file.added_tokens.into_iter().map(|it| (it.content, it.id)).collect(),
            prefix: file.model.continuing_subword_prefix,
            max_word_chars: file.model.max_input_chars_per_word,
            max_tokens,
            unknown,
            ends: Some((begin, end)),
            longest_piece,
            vocabulary: Vocabulary::Read(pieces),
        })
    }

    /// Creates the tokenizer of the built-in vectors: each id is a row index.
    pub(crate) fn built_in(vectors: &'static WordVectors) -> Option<Self> {
        Some(Self {
            special: Vec::new(),
            prefix: "##".to_owned(),
            max_word_chars: BUILT_IN_MAX_LETTERS,
            max_tokens: BUILT_IN_MAX_PIECES,
            unknown: vectors.find("[UNK]")?,
            ends: None,
            longest_piece: vectors.longest_piece(),
            vocabulary: Vocabulary::BuiltIn(vectors),
        })
    }

    /// Returns the largest token id.
    pub fn max_token_id(&self) -> i32 {
        match &self.vocabulary {
            Vocabulary::Read(pieces) => pieces.values().copied().max().unwrap_or(0),
            Vocabulary::BuiltIn(vectors) => vectors.last(),
        }
    }

    /// Returns the token ids of a text, between the ids of its ends. A long text is truncated.
    pub fn token_ids(&self, text: &str) -> Vec<i32> {
        let mut ids: Vec<i32> = self.ends.iter().map(|(begin, _)| *begin).collect();
        let mut rest = text;
        while !rest.is_empty() && ids.len() < self.max_tokens {
            let (plain, special) = self.find_special(rest);
            let (before, behind) = rest.split_at(plain);
            self.add_plain_text(before, &mut ids);
            rest = behind;
            if let Some((word, id)) = special {
                ids.push(*id);
                rest = behind.get(word.len()..).unwrap_or_default();
            }
        }
        ids.truncate(self.max_tokens - self.ends.iter().len());
        ids.extend(self.ends.map(|(_, end)| end));
        ids
    }

    /// Returns the distance to the next special token, and that token.
    fn find_special(&self, text: &str) -> (usize, Option<&(String, i32)>) {
        let found = self.special.iter().filter_map(|it| Some((text.find(it.0.as_str())?, it)));
        found.min_by_key(|(at, _)| *at).map_or((text.len(), None), |(at, it)| (at, Some(it)))
    }

    fn add_plain_text(&self, text: &str, ids: &mut Vec<i32>) {
        let mut word = String::new();
        for letter in normalize_text(text) {
            if ids.len() >= self.max_tokens {
                return;
            }
            if letter.is_whitespace() || is_punctuation(letter) || is_ideograph(letter) {
                self.add_word(&word, ids);
                word.clear();
                if !letter.is_whitespace() {
                    self.add_word(letter.encode_utf8(&mut [0; 4]), ids);
                }
            } else {
                word.push(letter);
            }
        }
        self.add_word(&word, ids);
    }

    /// Adds the longest pieces that make up the word, from its beginning, or the unknown token.
    fn add_word(&self, word: &str, ids: &mut Vec<i32>) {
        if word.is_empty() {
            return;
        }
        if word.chars().count() > self.max_word_chars {
            ids.push(self.unknown);
            return;
        }
        let (mut found, mut rest, mut first) = (Vec::new(), word, true);
        while !rest.is_empty() {
            let head = rest.get(..rest.floor_char_boundary(self.longest_piece)).unwrap_or(rest);
            let ends = head.char_indices().map(|(at, letter)| at + letter.len_utf8());
            let longest = ends.rev().find_map(|end| {
                let part = rest.get(..end)?;
                let piece = if first { None } else { Some(format!("{}{part}", self.prefix)) };
                let id = self.vocabulary.find(piece.as_deref().unwrap_or(part))?;
                Some((end, id))
            });
            let Some((end, id)) = longest else {
                ids.push(self.unknown);
                return;
            };
            found.push(id);
            rest = rest.get(end..).unwrap_or_default();
            first = false;
        }
        ids.append(&mut found);
    }
}

/// Removes control characters and accents, and converts to lower case.
fn normalize_text(text: &str) -> Box<dyn Iterator<Item = char> + '_> {
    if text.is_ascii() {
        let kept = text.bytes().filter(|b| !b.is_ascii_control() || b"\t\n\r".contains(b));
        return Box::new(kept.map(|b| match b {
            b'\t' | b'\n' | b'\r' => ' ',
            b => char::from(b.to_ascii_lowercase()),
        }));
    }
    let kept = text.chars().filter(|c| *c != '\0' && *c != '\u{fffd}' && !is_control(*c));
    let spaced = kept.map(|c| if c.is_whitespace() { ' ' } else { c });
    let bare = spaced.nfd().filter(|c| get_general_category(*c) != GeneralCategory::NonspacingMark);
    Box::new(bare.flat_map(char::to_lowercase))
}

fn is_control(letter: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse, Surrogate, Unassigned};
    if matches!(letter, '\t' | '\n' | '\r') {
        return false;
    }
    let category = get_general_category(letter);
    matches!(category, Control | Format | PrivateUse | Surrogate | Unassigned)
}

fn is_punctuation(letter: char) -> bool {
    use GeneralCategory::{
        ClosePunctuation, ConnectorPunctuation, DashPunctuation, FinalPunctuation,
        InitialPunctuation, OpenPunctuation, OtherPunctuation,
    };
    if letter.is_ascii() {
        return letter.is_ascii_punctuation();
    }
    matches!(
        get_general_category(letter),
        ClosePunctuation
            | ConnectorPunctuation
            | DashPunctuation
            | FinalPunctuation
            | InitialPunctuation
            | OpenPunctuation
            | OtherPunctuation
    )
}

/// Whether BERT treats the character as a word of its own.
fn is_ideograph(letter: char) -> bool {
    matches!(u32::from(letter),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F
        | 0x2B740..=0x2B81F | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

#[cfg(test)]
mod tests {
    use super::WordPieceTokenizer;

    /// Returns a tokenizer with a vocabulary of a few words.
    fn small_tokenizer(max_tokens: usize) -> WordPieceTokenizer {
        let pieces = [
            "[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "the", "cafe", "!", "中",
            "a",
        ];
        let vocab: serde_json::Map<String, serde_json::Value> =
            pieces.iter().enumerate().map(|(i, piece)| ((*piece).to_owned(), i.into())).collect();
        let file = serde_json::json!({
            "truncation": { "max_length": max_tokens },
            "added_tokens": [{ "id": 3, "content": "[SEP]" }],
            "normalizer": { "type": "BertNormalizer", "lowercase": true, "strip_accents": null },
            "model": {
                "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": vocab,
            },
        });
        WordPieceTokenizer::parse_json(file.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn words_become_their_longest_pieces() {
        let tokenizer = small_tokenizer(128);
        assert_eq!(tokenizer.token_ids("unaffable"), [2, 4, 5, 6, 3]);
        assert_eq!(tokenizer.token_ids("THE  Café!"), [2, 7, 8, 9, 3]);
        assert_eq!(tokenizer.token_ids("the\u{200b}\u{0}中a"), [2, 7, 10, 11, 3]);
        assert_eq!(tokenizer.token_ids("unaffabled xyz"), [2, 1, 1, 3]);
        assert_eq!(tokenizer.token_ids(&"a".repeat(101)), [2, 1, 3]);
        assert_eq!(tokenizer.token_ids("the [SEP] the"), [2, 7, 3, 7, 3]);
        assert_eq!(tokenizer.token_ids(""), [2, 3]);
    }

    #[test]
    fn the_fast_path_of_ascii_normalizes_as_the_general_one() {
        let ascii: String = (0_u8..128).map(char::from).collect();
        let fast: String = super::normalize_text(&ascii).collect();
        let general: String = super::normalize_text(&(ascii + "é")).collect();
        assert_eq!(fast.clone() + "e", general);
        assert!(fast.contains("abc") && !fast.contains(['A', '\t', '\u{1}']));
    }

    #[test]
    fn long_texts_are_cut_and_cost_no_more() {
        let tokenizer = small_tokenizer(8);
        assert_eq!(tokenizer.token_ids(&"the ".repeat(100_000)), [2, 7, 7, 7, 7, 7, 7, 3]);
    }

    #[test]
    fn other_kinds_of_words_are_refused_by_name() {
        let file = r#"{"normalizer": {"type": "NFC"}, "model": {"type": "BPE", "unk_token": "", "vocab": {},
                       "continuing_subword_prefix": "", "max_input_chars_per_word": 1}}"#;
        let why = WordPieceTokenizer::parse_json(file.as_bytes()).unwrap_err();
        assert_eq!(why, "it is a BPE with NFC, not WordPiece with BertNormalizer");
        assert!(WordPieceTokenizer::parse_json(b"{}").is_err());
    }
}
