//! Typed access to the fields of one entry, with errors that name the field.

use std::str::FromStr;

use tool::traits::UnknownWord;
use tool::{Json, Problem};

/// Error of one tool entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) fix: Option<String>,
}

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), fix: None }
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self { place: String::new(), message: fault.message, fix: fault.fix }
    }
}

pub(super) type Result<T> = std::result::Result<T, Fault>;

/// Maximum words of a list.
const MAX_WORDS: usize = 32;

/// Members of an object.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, Json)>);

impl Fields {
    /// Returns the members of `json`; empty if it is not an object.
    pub(super) fn of(json: &Json) -> Self {
        Self(json.members())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// Returns the value of `key`; `null` counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        let found = self.0.iter().find(|(name, _)| name == key).map(|(_, json)| json);
        found.filter(|json| json.kind() != "null")
    }

    /// Returns the value of `key`, which may be `null`.
    pub(super) fn any(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, json)| json)
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>> {
        let Some(json) = self.get(key) else { return Ok(None) };
        let text = json.read::<String>().map_err(|_| kind(key, json, "a text"))?;
        Ok(Some(text))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(json) = self.get(key) else { return Ok(None) };
        let flag = json.read::<bool>();
        flag.map(Some).map_err(|_| kind(key, json, "true or false"))
    }

    /// Parses one keyword of a fixed set.
    pub(super) fn word<T: FromStr<Err = UnknownWord>>(&self, key: &str) -> Result<Option<T>> {
        self.text(key)?.map(|word| parse(key, &word)).transpose()
    }

    /// Parses a list of keywords of a fixed set, without duplicates.
    pub(super) fn words<T>(&self, key: &str) -> Result<Option<Vec<T>>>
    where
        T: FromStr<Err = UnknownWord> + PartialEq,
    {
        let Some(texts) = self.texts(key)? else { return Ok(None) };
        let mut words = Vec::new();
        for text in texts {
            let word = parse(key, &text)?;
            if !words.contains(&word) {
                words.push(word);
            }
        }
        Ok(Some(words))
    }

    /// Returns a list of strings; a single string is a list of one.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        let Some(json) = self.get(key) else { return Ok(None) };
        if let Ok(one) = json.read::<String>() {
            return Ok(Some(vec![one]));
        }
        let texts = json.read::<Vec<String>>().map_err(|_| kind(key, json, "a list of words"))?;
        if texts.len() > MAX_WORDS {
            let message = format!("`{key}` has {} words; {MAX_WORDS} are allowed", texts.len());
            return Err(Fault::new(message));
        }
        Ok(Some(texts))
    }
}

fn parse<T: FromStr<Err = UnknownWord>>(key: &str, word: &str) -> Result<T> {
    let shown = || word.chars().take(64).collect::<String>().escape_debug().to_string();
    word.parse().map_err(|error: UnknownWord| {
        Fault::new(format!("`{key}`: unknown {} `{}`", error.what, shown()))
            .fix(format!("use one of {}", error.allowed))
    })
}

pub(super) fn kind(key: &str, found: &Json, expected: &str) -> Fault {
    Fault::new(format!("`{key}` is {}; expected {expected}", found.kind()))
}

/// Returns the known field that `word` most likely means: equal except for case and separators, or
/// at most two edits away.
pub(super) fn likely(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let plain = |word: &str| {
        word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let word = plain(word);
    if word.len() < 4 || word.len() > 40 {
        return None;
    }
    known.iter().copied().find(|known| distance(&word, &plain(known)) <= 2)
}

/// Returns the edit distance of two words.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, x) in a.bytes().enumerate() {
        let mut left = index + 1;
        let mut corner = index;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let changed = corner + usize::from(x != y);
            corner = *cell;
            left = changed.min(left + 1).min(*cell + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{distance, likely};

    #[test]
    fn letters_are_counted() {
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["required_permission", "destructive", "safety"];
        assert_eq!(likely("requiredPermision", &known), Some("required_permission"));
        assert_eq!(likely("Destructive", &known), Some("destructive"));
        assert_eq!(likely("owner", &known), None);
        assert_eq!(likely("examples", &known), None);
    }
}
