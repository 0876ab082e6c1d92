//! Computes confusable skeletons of names and titles: two texts with the same skeleton look alike
//! to a reader.
//!
//! Applies NFKC and case folding, replaces the confusables of UTS 39, and treats `-` and `_` alike.

use unicode_normalization::UnicodeNormalization as _;
use unicode_security::confusable_detection::skeleton;

/// Returns the skeletons of `name`: one, or two if it contains a capital `I`, which folds to `i`
/// but looks like `l`. Names that look alike share one.
pub fn confusable_skeletons(name: &str) -> impl Iterator<Item = String> {
    let second = name.contains('I').then(|| confusable_skeleton(&name.replace('I', "l")));
    std::iter::once(confusable_skeleton(name)).chain(second)
}

/// Returns the confusable skeleton of `text`.
pub fn confusable_skeleton(text: &str) -> String {
    if text.is_ascii() { ascii_skeleton(text) } else { unicode_skeleton(text) }
}

/// Computes the skeleton of ASCII text without tables: catalogs have 100,000 names.
fn ascii_skeleton(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    for byte in text.bytes() {
        match byte.to_ascii_lowercase() {
            b'0' => out.push('o'),
            b'1' | b'|' => out.push('l'),
            b'm' => out.push_str("rn"),
            b'-' => out.push('_'),
            b'`' => out.push('\''),
            b'"' => out.push_str("''"),
            other => out.push(char::from(other)),
        }
    }
    out
}

fn unicode_skeleton(text: &str) -> String {
    let folded: String = text.nfkc().flat_map(char::to_lowercase).collect();
    let bare =
        skeleton(&folded).filter(|c| !is_combining_or_invisible(*c)).flat_map(char::to_lowercase);
    fold_ascii_parts(&bare.collect::<String>())
}

/// Folds ASCII characters as [`ascii_skeleton`] does, and maps all dashes to `_`.
fn fold_ascii_parts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{2010}'..='\u{2015}' | '\u{2212}' => out.push('_'),
            c if c.is_ascii() => out.push_str(&ascii_skeleton(c.encode_utf8(&mut [0; 4]))),
            c => out.push(c),
        }
    }
    out
}

/// Returns true for combining marks and invisible characters.
fn is_combining_or_invisible(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::{ascii_skeleton, confusable_skeleton, confusable_skeletons, unicode_skeleton};

    fn alike(a: &str, b: &str) -> bool {
        confusable_skeletons(a).any(|x| confusable_skeletons(b).any(|y| x == y))
    }

    #[test]
    fn what_looks_the_same_is_the_same() {
        for (a, b) in [
            ("run_shell", "Run_Shell"),
            ("run_shell", "run-shell"),
            ("run_shell", "run_shel1"),
            ("run_shell", "run_sheII"),
            ("run_shell", "run_shell\u{323}"),
            ("run_shell", "ru\u{200b}n_shell"),
            ("file_read", "\u{fb01}le_read"),
            ("read_file", "r\u{435}\u{430}d_file"),
            ("read_file", "\u{ff52}\u{ff45}ad_file"),
            ("modern", "rnodern"),
            ("go", "g0"),
            ("INDEX", "index"),
            ("a-b", "a\u{2013}b"),
        ] {
            assert!(alike(a, b), "{a} {b}: {} {}", confusable_skeleton(a), confusable_skeleton(b));
        }
        for (a, b) in
            [("read_file", "read_files"), ("a.b", "a_b"), ("mail", "mall"), ("sum", "add")]
        {
            assert!(!alike(a, b), "{a} {b}");
        }
    }

    /// The short way is the long way.
    #[test]
    fn ascii_looks_as_the_tables_say() {
        let of_names = |c: &char| c.is_ascii_alphanumeric() || " _.-|'\"".contains(*c);
        for c in (b' '..=b'~').map(char::from).filter(of_names) {
            let text = c.to_string();
            assert_eq!(ascii_skeleton(&text), unicode_skeleton(&text), "{text}");
        }
    }
}
