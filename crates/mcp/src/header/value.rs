//! Encoding of values that a header cannot carry unchanged.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEFORE: &str = "=?base64?";
const AFTER: &str = "?=";

/// Encodes a value for a header. Printable ASCII without leading or trailing blanks stays
/// unchanged; everything else becomes Base64 between markers.
pub fn encode(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if plain && value.trim() == value && wrapped(value).is_none() {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{BEFORE}{}{AFTER}", STANDARD.encode(value)))
}

/// Decodes what [`encode`] returned, or returns `None` if the Base64 between the markers is not
/// valid text.
pub fn decode(header: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = wrapped(header) else { return Some(Cow::Borrowed(header)) };
    let bytes = STANDARD.decode(inner).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn wrapped(value: &str) -> Option<&str> {
    value.strip_prefix(BEFORE)?.strip_suffix(AFTER)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn plain_values_stay() {
        for value in ["", "us-west1", "a b", "=?base64?", "42"] {
            assert_eq!(encode(value), value);
        }
    }

    #[test]
    fn what_is_encoded_reads_back() {
        for value in
            [" a", "a\t", "é", "a\r\nX-Evil: 1", "=?base64?YQ==?=", "\u{7f}", "\u{0}", "世界"]
        {
            let header = encode(value);
            assert!(header.starts_with("=?base64?"), "{value}");
            assert!(header.bytes().all(|byte| byte.is_ascii_graphic()));
            assert_eq!(decode(&header).unwrap(), value);
        }
        for bad in ["=?base64?!?=", "=?base64?/w==?="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_reads_back(value in ".{0,20}") {
            let header = encode(&value);
            proptest::prop_assert_eq!(decode(&header).unwrap(), value.as_str());
        }
    }
}
