//! Escaping of invisible Unicode characters in JSON text.
//!
//! Foreign text goes to models, terminals and logs. Invisible characters can carry instructions to
//! a model, reverse a line or move a cursor. They become `\u{200b}`, in letters; all other bytes
//! stay unchanged. Line ends and tabs are not invisible.

use std::fmt::Write as _;

use super::{Json, byte_search};

impl Json {
    /// Returns the text with invisible characters escaped; `None` if there are none. Costs one
    /// pass, and no copy if nothing is found.
    #[must_use]
    pub fn escape_invisible(&self) -> Option<Self> {
        self.escape_chars_where(is_invisible)
    }

    /// Returns an unreviewed definition with invisible characters escaped. Private-use characters,
    /// which have no defined glyph, and lone carriage returns, which overwrite a line, count as
    /// invisible too.
    #[must_use]
    pub fn escape_invisible_in_definition(&self) -> Option<Self> {
        self.escape_chars_where(|c, before, rest| {
            let lone = || !rest.starts_with("\\n") && !rest.starts_with("\\u000a");
            let private =
                matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..);
            is_invisible(c, before, rest) || private || (c == '\r' && lone())
        })
    }

    /// Escapes the characters that `is_hidden` selects by the character, the preceding one and the
    /// remaining text.
    fn escape_chars_where(
        &self,
        is_hidden: impl Fn(char, PrecedingChar, &str) -> bool,
    ) -> Option<Self> {
        let mut out = String::new();
        let mut kept = 0;
        let mut before = PrecedingChar::Ascii;
        let mut at = 0;
        while let Some((found, next)) = next_special_char(self.0.as_bytes(), at) {
            if found > at {
                before = PrecedingChar::Ascii;
            }
            let Some((c, end)) = next else { break };
            if is_hidden(c, before, self.0.get(end..).unwrap_or_default()) {
                out.push_str(self.0.get(kept..found).unwrap_or_default());
                // Writing to a string never fails.
                write!(out, "\\\\u{{{:x}}}", u32::from(c)).unwrap_or_default();
                kept = end;
                before = PrecedingChar::Ascii;
            } else {
                before = PrecedingChar::from_char(c);
            }
            at = end;
        }
        if kept == 0 {
            return None;
        }
        out.push_str(self.0.get(kept..).unwrap_or_default());
        Some(Self(out.into()))
    }
}

/// Returns a text of a definition with invisible characters escaped, as
/// [`Json::escape_invisible_in_definition`] does; `None` if there are none.
#[must_use]
pub fn escape_invisible_text(text: &str) -> Option<String> {
    let quick = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'));
    if quick { None } else { Json::encode(text).escape_invisible_in_definition()?.decode().ok() }
}

/// Returns a JSON document with invisible characters as JSON escapes: equal for parsers, and
/// harmless when displayed raw on a terminal. `None` if there are none.
#[must_use]
pub fn escape_invisible_as_json(document: &str) -> Option<String> {
    let mut out = String::new();
    let mut kept = 0;
    let mut before = PrecedingChar::Ascii;
    let mut at = 0;
    while let Some((found, Some((c, end)))) = next_special_char(document.as_bytes(), at) {
        if found > at {
            before = PrecedingChar::Ascii;
        }
        let is_escape = document.as_bytes().get(found) == Some(&b'\\');
        if !is_escape && is_invisible(c, before, "") {
            out.push_str(document.get(kept..found).unwrap_or_default());
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string never fails.
                write!(out, "\\u{unit:04x}").unwrap_or_default();
            }
            kept = end;
            before = PrecedingChar::Ascii;
        } else {
            before = PrecedingChar::from_char(c);
        }
        at = end;
    }
    if kept == 0 {
        return None;
    }
    out.push_str(document.get(kept..).unwrap_or_default());
    Some(out)
}

/// Kind of the preceding character, on which joiners depend.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrecedingChar {
    /// ASCII, or an escaped character.
    Ascii,
    /// Any other letter or symbol.
    Letter,
    /// A variation selector, which a joiner may follow.
    VariationSelector,
}

impl PrecedingChar {
    /// One joiner belongs to a letter; a sequence of joiners could carry a message.
    fn from_char(kept: char) -> Self {
        match kept {
            '\u{fe0e}' | '\u{fe0f}' => Self::VariationSelector,
            '\u{200c}' | '\u{200d}' => Self::Ascii,
            _ if kept.is_ascii() => Self::Ascii,
            _ => Self::Letter,
        }
    }
}

/// Returns the next character that is not plain ASCII or is an escape, with its start and end.
fn next_special_char(text: &[u8], at: usize) -> Option<(usize, Option<(char, usize)>)> {
    let found = at + byte_search::find_first(text.get(at..)?, match_special);
    let tail = text.get(found..).unwrap_or_default();
    let odd = match tail.first()? {
        b'\\' => decode_escape(tail).map(|(c, length)| (c, found + length)),
        byte if byte.is_ascii() => Some((char::from(*byte), found + 1)),
        _ => decode_first_char(tail).map(|c| (c, found + c.len_utf8())),
    };
    Some((found, odd))
}

/// Marks bytes that are not plain ASCII, and backslashes.
fn match_special(word: u64) -> u64 {
    byte_search::match_control(word)
        | byte_search::match_non_ascii(word)
        | byte_search::match_byte(word, b'\\')
        | byte_search::match_byte(word, 0x7f)
}

fn decode_first_char(text: &[u8]) -> Option<char> {
    let head = text.get(..4).unwrap_or(text);
    match std::str::from_utf8(head) {
        Ok(text) => text.chars().next(),
        // The first four bytes may end within the next character.
        Err(error) => std::str::from_utf8(head.get(..error.valid_up_to())?).ok()?.chars().next(),
    }
}

/// Decodes a JSON escape and returns its length in bytes.
pub(super) fn decode_escape(text: &[u8]) -> Option<(char, usize)> {
    match text.get(1)? {
        b'u' => {
            let high = parse_utf16_unit(text, 2)?;
            let low = (text.get(6) == Some(&b'\\')).then(|| parse_utf16_unit(text, 8)).flatten();
            let pair = char::decode_utf16([high].into_iter().chain(low)).next()?.ok()?;
            Some((pair, if pair.len_utf16() == 2 { 12 } else { 6 }))
        }
        b'b' => Some(('\u{8}', 2)),
        b'f' => Some(('\u{c}', 2)),
        b'n' => Some(('\n', 2)),
        b'r' => Some(('\r', 2)),
        b't' => Some(('\t', 2)),
        other => Some((char::from(*other), 2)),
    }
}

fn parse_utf16_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = std::str::from_utf8(text.get(at..at + 4)?).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

fn is_invisible(c: char, before: PrecedingChar, _: &str) -> bool {
    match c {
        '\n' | '\r' | '\t' => false,
        // Joiners and variation selectors belong to the preceding letter.
        '\u{200d}' => before == PrecedingChar::Ascii,
        '\u{200c}' | '\u{fe0e}' | '\u{fe0f}' => before != PrecedingChar::Letter,
        _ if c.is_control() => true,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0d}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Json, JsonLimits};

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap()
    }

    fn seen(text: &str) -> String {
        json(text).escape_invisible().unwrap().as_str().to_owned()
    }

    #[test]
    fn what_is_plain_is_not_touched() {
        for text in [
            r#"{"a":"b\n\t\r\"\\ \/ \u0041","c":[1.0e2,null]}"#,
            r#""größe 世界 🙂""#,
            // A family, a keycap after a letter sign, Persian with its joiner.
            r#""👩‍👩‍👧 ❤️ می‌خواهم""#,
            r#""\ud83d\ude42""#,
        ] {
            assert_eq!(json(text).escape_invisible(), None, "{text}");
        }
    }

    #[test]
    fn what_is_hidden_is_written_out() {
        for (text, expected) in [
            ("\"a\u{200b}b\"", r#""a\\u{200b}b""#),
            (r#""a\u200bb""#, r#""a\\u{200b}b""#),
            (r#""\u001b[31mred\u0007""#, r#""\\u{1b}[31mred\\u{7}""#),
            (r#""\b\f""#, r#""\\u{8}\\u{c}""#),
            ("\"\u{7f}\u{85}\"", r#""\\u{7f}\\u{85}""#),
            ("\"\u{202e}abc\u{2028}\"", r#""\\u{202e}abc\\u{2028}""#),
            ("\"\u{e0041}\u{e0042}\"", r#""\\u{e0041}\\u{e0042}""#),
            (r#""\udb40\udc41""#, r#""\\u{e0041}""#),
            // A joiner that joins nothing, and one after another.
            ("\"a\u{200d}b\"", r#""a\\u{200d}b""#),
            ("\"é\u{200d}\u{200c}\u{200d}\"", "\"é\u{200d}\\\\u{200c}\\\\u{200d}\""),
            ("{\"k\u{feff}\":1, \"x\" : 1.0}", r#"{"k\\u{feff}":1, "x" : 1.0}"#),
        ] {
            assert_eq!(seen(text), expected);
        }
    }

    #[test]
    fn what_was_made_visible_stays_so() {
        let once = json(&seen(r#""\u0000\u200b\u00ad\u2066""#));
        assert_eq!(once.escape_invisible(), None);
        assert_eq!(once.to_value(), r"\u{0}\u{200b}\u{ad}\u{2066}");
    }

    #[test]
    fn of_a_definition_more_is_made_visible() {
        let text = "good\r\n\rbad \u{e000}x\u{10fffd}";
        assert_eq!(json(Json::encode(text).as_str()).escape_invisible(), None);
        let seen = super::escape_invisible_text(text).unwrap();
        assert_eq!(seen, "good\r\n\\u{d}bad \\u{e000}x\\u{10fffd}");
        assert_eq!(super::escape_invisible_text(&seen), None);
        assert_eq!(super::escape_invisible_text("plain\r\n\ttext, größe"), None);
    }

    proptest::proptest! {
        /// The result is JSON again, and nothing hidden is left in any form.
        #[test]
        fn any_text(text in "\\PC{0,8}[\\x00-\\x1f\u{7f}\u{200b}-\u{200f}\u{e0000}-\u{e0fff}é🙂\\\\\"]{0,12}") {
            let json = Json::encode(&text);
            let seen = json.escape_invisible().unwrap_or(json);
            let again = Json::parse(seen.bytes().clone(), JsonLimits::DOCUMENT).unwrap();
            proptest::prop_assert_eq!(again.escape_invisible(), None);
        }
    }

    #[test]
    fn a_document_with_hidden_characters_escaped_is_the_same_document() {
        let value = "a\u{202e}b\u{9b}31m\u{7f}\u{200b}\u{e0041}\\ \u{1b} 世\u{fe0f} \u{85}\n";
        let document = serde_json::json!({ value: [value] }).to_string();
        let escaped = super::escape_invisible_as_json(&document).unwrap();
        assert!(document.contains('\u{9b}'), "the control: serde writes them as they are");
        let control = |c: char| c.is_control() || ('\u{200b}'..='\u{206f}').contains(&c);
        assert!(!escaped.contains(control), "{escaped:?}");
        assert!(escaped.contains(r"a\u202eb\u009b31m\u007f\u200b\udb40\udc41"), "{escaped}");
        let same: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(same, serde_json::from_str::<serde_json::Value>(&document).unwrap());
        assert_eq!(super::escape_invisible_as_json("{\"a\":\n[\"\\u202e 世界\"]}"), None);
    }
}
