//! Decimal numbers in heads, which consist of digits only.

/// Maximum number of digits; one more could overflow.
const MAX_DIGITS: usize = 18;

/// Parses 1 to 18 ASCII digits, without sign, space or list.
pub fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::parse_decimal;

    #[test]
    fn only_digits_are_a_number() {
        assert_eq!(parse_decimal(b"0"), Some(0));
        assert_eq!(parse_decimal(b"0012"), Some(12));
        assert_eq!(parse_decimal(&[b'9'; 18]), Some(999_999_999_999_999_999));
        for wrong in [&b""[..], b"+5", b"-5", b" 5", b"5 ", b"5, 5", b"0x5", b"5_0", &[b'0'; 19]] {
            assert_eq!(parse_decimal(wrong), None, "{wrong:?}");
        }
    }
}
