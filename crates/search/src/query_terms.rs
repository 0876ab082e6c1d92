//! The terms of a query with their weights, as a whole and by clause.

use crate::ranking_weights::RankingWeights;
use crate::stop_words::{is_function_word, is_request_word};
use crate::tokenization::{WordKind, for_each_word, stem_word};

/// Maximum number of different terms of a query.
const MAX_TERMS: usize = 128;
/// Maximum number of clauses that are ranked on their own.
const MAX_CLAUSES: u32 = 16;
/// Words with which a new clause begins.
const CLAUSE_WORDS: &[&str] =
    &["and", "then", "also", "but", "finally", "next", "additionally", "afterwards"];

/// A term of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryTerm {
    /// The word as the query has it, in lower case.
    pub(crate) word: String,
    /// The stem by which tools are searched.
    pub(crate) stem: String,
    pub(crate) weight: f32,
    /// Clauses in which it occurs, as bits.
    pub(crate) clauses: u32,
}

/// A query as terms.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QueryTerms {
    pub(crate) terms: Vec<QueryTerm>,
    /// Number of clauses.
    pub(crate) clauses: u32,
}

impl QueryTerms {
    /// Reads a query. Words that only ask are left out, unless the query has no others.
    pub(crate) fn parse(query: &str, weights: &RankingWeights) -> Self {
        let mut read = Self::default();
        for part in split_clauses(query) {
            read.add_part(part, weights, false);
        }
        if read.terms.is_empty() {
            read.add_part(query, weights, true);
        }
        read.clauses =
            read.terms.iter().map(|it| 32 - it.clauses.leading_zeros()).max().unwrap_or(0);
        read
    }

    /// Returns the words of each clause that has at least a number of them.
    pub(crate) fn clause_texts(&self, min_words: usize) -> Vec<String> {
        let words = |clause: u32| {
            let of_clause = self.terms.iter().filter(move |it| it.clauses & (1 << clause) != 0);
            of_clause.map(|it| it.word.as_str()).collect::<Vec<_>>()
        };
        let clauses = (0..self.clauses).map(words).filter(|it| it.len() >= min_words);
        clauses.map(|words| words.join(" ")).collect()
    }

    fn add_part(&mut self, part: &str, weights: &RankingWeights, any_word: bool) {
        let mut clause = self.next_clause();
        let mut size = 0;
        for_each_word(part, |word, kind| {
            if CLAUSE_WORDS.contains(&word) && size > 1 {
                (clause, size) = (self.next_clause(), 0);
            }
            if !any_word && (is_function_word(word) || is_request_word(word)) {
                return;
            }
            size += usize::from(kind != WordKind::Compound);
            self.add_word(word, kind, clause, weights);
        });
    }

    /// Returns the bit of the first clause without terms; the last one takes all that follow.
    fn next_clause(&self) -> u32 {
        let used = self.terms.iter().fold(0, |all, it| all | it.clauses);
        let number = (32 - used.leading_zeros()).min(MAX_CLAUSES - 1);
        1 << number
    }

    fn add_word(&mut self, word: &str, kind: WordKind, clause: u32, weights: &RankingWeights) {
        let stem = stem_word(word);
        if let Some(same) = self.terms.iter_mut().find(|it| it.stem == *stem) {
            same.clauses |= clause;
            return;
        }
        if self.terms.len() >= MAX_TERMS {
            return;
        }
        let weight = match kind {
            _ if !word.chars().any(char::is_alphabetic) => weights.number_weight,
            WordKind::Compound => weights.compound_weight,
            WordKind::Part | WordKind::Bigram => 1.0,
        };
        let stem = stem.into_owned();
        self.terms.push(QueryTerm { word: word.to_owned(), stem, weight, clauses: clause });
    }
}

/// Splits a query at the ends of sentences and list entries, but not within `example.com` or `1,000`.
fn split_clauses(query: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(query);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.char_indices().find(|(at, letter)| ends_clause(text, *at, *letter));
        let (clause, after) = match end {
            Some((at, letter)) => (text.get(..at), text.get(at + letter.len_utf8()..)),
            None => (Some(text), None),
        };
        rest = after;
        clause
    })
}

fn ends_clause(text: &str, at: usize, letter: char) -> bool {
    match letter {
        '?' | '!' | ';' | '\n' | '。' | '，' | '？' | '！' | '；' => true,
        '.' | ',' | ':' => text
            .get(at + 1..)
            .is_none_or(|after| after.chars().next().is_none_or(char::is_whitespace)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_TERMS, QueryTerms, split_clauses};
    use crate::ranking_weights::RankingWeights;

    fn stems(query: &str) -> Vec<(String, u32)> {
        let read = QueryTerms::parse(query, &RankingWeights::default());
        read.terms.into_iter().map(|it| (it.stem, it.clauses)).collect()
    }

    #[test]
    fn clauses_end_at_sentences_and_list_entries_only() {
        let clauses: Vec<&str> = split_clauses("mail a@b.com 1,000 times. Then: stop!").collect();
        assert_eq!(clauses, ["mail a@b.com 1,000 times", " Then", " stop", ""]);
    }

    #[test]
    fn each_term_knows_its_clauses() {
        let found = stems("Please book a flight, book hotels and rent a car");
        let expected =
            [("book", 0b11), ("flight", 0b1), ("hotel", 0b10), ("rent", 0b100), ("car", 0b100)];
        assert_eq!(found, expected.map(|(stem, clauses)| (stem.to_owned(), clauses)));
        assert_eq!(QueryTerms::parse("a, b, c", &RankingWeights::default()).clauses, 2);
    }

    #[test]
    fn words_that_only_ask_count_if_there_are_no_others() {
        assert_eq!(stems("please help me").first().unwrap().0, "pleas");
        assert!(stems("").is_empty() && stems("?!").is_empty());
        let many = (0..10_000).map(|at| format!("w{at}")).collect::<Vec<_>>().join(" ");
        assert_eq!(stems(&many).len(), MAX_TERMS);
        let clauses = "word, other; ".repeat(1_000) + "last, one more, end";
        assert!(QueryTerms::parse(&clauses, &RankingWeights::default()).clauses <= 16);
    }
}
