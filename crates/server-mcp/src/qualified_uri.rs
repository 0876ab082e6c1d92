//! URIs of resources that several sources share, with the name of their source:
//! `docs+file:///readme`.
//!
//! The schemes `ui` and `skill` have a meaning for clients and stay in front: `ui://docs+app`.

use std::fmt::Write as _;

/// Schemes by which clients recognise what a resource is.
const MEANINGFUL_SCHEMES: [&str; 2] = ["ui://", "skill://"];

/// Writes the name of a source so that it can be the beginning of a scheme or a host: lower-case
/// letters, digits and `-` as they are, every other character as `.` and two hexadecimal digits.
/// Different names never give the same label.
fn source_label(source: &str) -> String {
    let mut label = String::with_capacity(source.len());
    if !source.starts_with(|first: char| first.is_ascii_lowercase()) {
        label.push_str("s..");
    }
    for byte in source.bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' {
            label.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            write!(label, ".{byte:02x}").unwrap_or_default();
        }
    }
    label
}

/// Adds the source to a URI or URI template.
pub(crate) fn qualify_uri(source: &str, uri: &str) -> String {
    let scheme = MEANINGFUL_SCHEMES.into_iter().find(|scheme| uri.starts_with(scheme));
    let (kept, rest) = uri.split_at(scheme.map_or(0, str::len));
    format!("{kept}{}+{rest}", source_label(source))
}

/// A URI that names its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QualifiedUri<'a> {
    label: &'a str,
    /// The URI at the source.
    pub(crate) own: String,
}

impl<'a> QualifiedUri<'a> {
    /// Parses a URI; `None` if it names no source. What is no URI behind the name, as in `c+readme`, is
    /// one that a client chose.
    pub(crate) fn parse(uri: &'a str) -> Option<Self> {
        let has_scheme = MEANINGFUL_SCHEMES.into_iter().any(|scheme| uri.starts_with(scheme));
        Self::parse_listed(uri).filter(|parsed| has_scheme || parsed.own.contains(':'))
    }

    /// Parses a URI that a list of this server has: sources list URIs without a scheme too.
    pub(crate) fn parse_listed(uri: &'a str) -> Option<Self> {
        let scheme = MEANINGFUL_SCHEMES.into_iter().find(|scheme| uri.starts_with(scheme));
        let (kept, rest) = uri.split_at(scheme.map_or(0, str::len));
        let (label, own) = rest.split_once('+')?;
        let fits = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
        };
        label.bytes().all(fits).then(|| Self { label, own: format!("{kept}{own}") })
    }

    /// Whether it names this source.
    pub(crate) fn names_source(&self, source: &str) -> bool {
        source_label(source) == self.label
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{QualifiedUri, qualify_uri, source_label};

    #[test]
    fn the_source_is_in_front_of_the_scheme_or_after_a_meaningful_one() {
        for (source, uri, expected) in [
            ("docs", "file:///a", "docs+file:///a"),
            ("my_Docs", "test://{id}", "my.5f.44ocs+test://{id}"),
            ("7zip", "a:b", "s..7zip+a:b"),
            ("docs", "ui://app/main.html", "ui://docs+app/main.html"),
            ("docs", "skill://x/SKILL.md", "skill://docs+x/SKILL.md"),
        ] {
            assert_eq!(qualify_uri(source, uri), expected);
        }
        for plain in ["file:///a", "file:///a+b:c", "x+y", "ui://a/b", "A+b:c"] {
            assert_eq!(QualifiedUri::parse(plain), None, "{plain}");
        }
    }

    proptest! {
        #[test]
        fn qualified_uris_read_back(source in "[A-Za-z0-9_.-]{1,20}", uri in "(ui://|skill://|[a-z]{1,4}:)[ -~]{0,20}") {
            let text = qualify_uri(&source, &uri);
            let read = QualifiedUri::parse(&text).unwrap();
            prop_assert!(read.names_source(&source));
            prop_assert_eq!(read.own, uri);
        }

        #[test]
        fn labels_tell_sources_apart(one in "[A-Za-z0-9_.-]{1,6}", two in "[A-Za-z0-9_.-]{1,6}") {
            prop_assert_eq!(one == two, source_label(&one) == source_label(&two));
        }
    }
}
