//! Encoding of values that a header cannot carry unchanged.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BASE64_PREFIX: &str = "=?base64?";
const BASE64_SUFFIX: &str = "?=";

/// Encodes a value for a header. Printable ASCII without leading or trailing blanks stays
/// unchanged; everything else becomes Base64 between markers.
pub fn encode_value(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if plain && value.trim() == value && strip_base64_markers(value).is_none() {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{BASE64_PREFIX}{}{BASE64_SUFFIX}", STANDARD.encode(value)))
}

/// Decodes a value that [`encode_value`] encoded, or returns `None` if the Base64 between the
/// markers is not valid text.
pub fn decode_value(header: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = strip_base64_markers(header) else { return Some(Cow::Borrowed(header)) };
    let bytes = STANDARD.decode(inner).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn strip_base64_markers(value: &str) -> Option<&str> {
    value.strip_prefix(BASE64_PREFIX)?.strip_suffix(BASE64_SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::{decode_value, encode_value};

    #[test]
    fn plain_values_stay() {
        for value in ["", "us-west1", "a b", "=?base64?", "42"] {
            assert_eq!(encode_value(value), value);
        }
    }

    #[test]
    fn what_is_encoded_reads_back() {
        for value in
            [" a", "a\t", "é", "a\r\nX-Evil: 1", "=?base64?YQ==?=", "\u{7f}", "\u{0}", "世界"]
        {
            let header = encode_value(value);
            assert!(header.starts_with("=?base64?"), "{value}");
            assert!(header.bytes().all(|byte| byte.is_ascii_graphic()));
            assert_eq!(decode_value(&header).unwrap(), value);
        }
        for bad in ["=?base64?!?=", "=?base64?/w==?="] {
            assert_eq!(decode_value(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_reads_back(value in ".{0,20}") {
            let header = encode_value(&value);
            proptest::prop_assert_eq!(decode_value(&header).unwrap(), value.as_str());
        }
    }
}
