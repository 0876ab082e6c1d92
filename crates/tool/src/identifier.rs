//! Validates texts that identify subjects, roles and organisations to people.
//!
//! Such texts appear in approvals, records, logs and tables. Two that a reader cannot distinguish
//! must not name two subjects, and none may contain invisible characters.

use unicode_normalization::is_nfkc;
use unicode_security::MixedScript as _;

use crate::confusable_text::confusable_skeletons;
use json::escape_invisible_text;

/// Errors of an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// Empty, or longer than the limit.
    #[error("must have 1 to {0} bytes")]
    Length(usize),
    /// A character that is not visible: a control, a direction mark, a joiner without a letter.
    #[error("must have only visible characters: `{}`", .0.escape_debug())]
    InvisibleCharacter(String),
    /// A space at one end, or one that is not U+0020.
    #[error("must not begin or end with a space, and must contain only plain spaces")]
    InvalidSpace,
    /// Written with compatibility or decomposed characters (Unicode NFKC).
    #[error("must be in Unicode normal form NFKC")]
    NotNormalized,
    /// Letters of several scripts, such as a Cyrillic one among Latin ones (UTS 39).
    #[error("must not mix letters of several scripts")]
    MixedScripts,
}

/// Validates a display line, such as a label: visible characters, on one line.
///
/// # Errors
/// [`IdentifierError::Length`] and [`IdentifierError::InvisibleCharacter`].
pub fn validate_line(text: &str, limit: usize) -> Result<(), IdentifierError> {
    if !(1..=limit).contains(&text.len()) {
        return Err(IdentifierError::Length(limit));
    }
    let shown = escape_invisible_text(text);
    if shown.is_some() || text.chars().any(char::is_control) {
        let shown = shown.unwrap_or_else(|| text.to_owned());
        return Err(IdentifierError::InvisibleCharacter(shown.chars().take(64).collect()));
    }
    Ok(())
}

/// Validates a name given by a third party, such as the subject of a token: a line in normal form,
/// with plain spaces inside only.
///
/// # Errors
/// All of [`IdentifierError`] but [`IdentifierError::MixedScripts`].
pub fn validate_foreign_name(text: &str, limit: usize) -> Result<(), IdentifierError> {
    validate_line(text, limit)?;
    let odd_space = |c: char| c.is_whitespace() && c != ' ';
    if text.trim() != text || text.contains(odd_space) {
        return Err(IdentifierError::InvalidSpace);
    }
    if text.is_ascii() || is_nfkc(text) { Ok(()) } else { Err(IdentifierError::NotNormalized) }
}

/// Validates a name given here: as [`validate_foreign_name`], with letters of one script. ASCII
/// letters may occur together with Chinese, Japanese and Korean ones.
///
/// # Errors
/// [`IdentifierError`].
pub fn validate_name(text: &str, limit: usize) -> Result<(), IdentifierError> {
    validate_foreign_name(text, limit)?;
    if text.is_ascii() || text.is_single_script() {
        return Ok(());
    }
    let beside: String = text.chars().filter(|c| !c.is_ascii()).collect();
    let scripts = beside.as_str().resolve_script_set();
    let east_asian = scripts.hanb || scripts.jpan || scripts.kore;
    if east_asian { Ok(()) } else { Err(IdentifierError::MixedScripts) }
}

/// Returns true if a reader may confuse two different names. Two ASCII names never count as
/// confusable: people choose `ann1` beside `annl`, and tables show both.
pub fn is_confusable(name: &str, other_name: &str) -> bool {
    name != other_name
        && !(name.is_ascii() && other_name.is_ascii())
        && confusable_skeletons(name)
            .any(|look| confusable_skeletons(other_name).any(|second| look == second))
}

#[cfg(test)]
mod tests {
    use super::{
        IdentifierError, is_confusable, validate_foreign_name, validate_line, validate_name,
    };

    #[test]
    fn names_that_a_reader_sees_whole_are_good() {
        for name in [
            "ann",
            "corp:ann@example.org",
            "Ann Smith",
            "Zoë",
            "Анна",
            "世界",
            "チームA",
            "team-世界",
            "x",
        ] {
            assert_eq!(validate_name(name, 256), Ok(()), "{name}");
        }
        assert_eq!(validate_line("for tests: größe 🙂", 256), Ok(()));
    }

    #[test]
    fn names_with_what_a_reader_does_not_see_are_refused() {
        for hidden in [
            "ann\u{202e}",
            "a\u{200b}nn",
            "\u{feff}ann",
            "ann\u{ad}",
            "a\nb",
            "a\tb",
            "a\u{7f}",
            "ann\u{e0041}",
            "ann\u{e000}",
            "ann\u{2028}",
            "ann\u{200d}",
        ] {
            for check in [validate_name, validate_foreign_name, validate_line] {
                assert!(
                    matches!(check(hidden, 256), Err(IdentifierError::InvisibleCharacter(_))),
                    "{hidden:?}"
                );
            }
        }
        for (name, fault) in [
            ("", IdentifierError::Length(8)),
            ("123456789", IdentifierError::Length(8)),
            ("ann ", IdentifierError::InvalidSpace),
            (" ann", IdentifierError::InvalidSpace),
            ("a\u{a0}b", IdentifierError::InvalidSpace),
            ("\u{ff41}nn", IdentifierError::NotNormalized),
            ("Zoe\u{308}", IdentifierError::NotNormalized),
        ] {
            assert_eq!(validate_name(name, 8), Err(fault), "{name:?}");
        }
        // Cyrillic among Latin, Greek among Latin: `аnn` is not `ann`.
        for mixed in ["\u{430}nn", "ann\u{3bf}"] {
            assert_eq!(validate_name(mixed, 256), Err(IdentifierError::MixedScripts));
            assert_eq!(validate_foreign_name(mixed, 256), Ok(()), "an issuer names its own users");
        }
    }

    #[test]
    fn names_of_one_script_may_still_look_like_those_of_another() {
        // All Cyrillic.
        assert_eq!(validate_name("\u{441}\u{43e}\u{441}\u{43e}", 256), Ok(()));
        assert!(is_confusable("\u{441}\u{43e}\u{441}\u{43e}", "coco"));
        assert!(is_confusable("Zoë", "Zoe"));
        for (one, other) in [("ann", "ann"), ("ann1", "annl"), ("Анна", "Anna Smith")] {
            assert!(!is_confusable(one, other), "{one} {other}");
        }
    }
}
