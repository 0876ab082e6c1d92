//! Redaction of credentials in results.
//!
//! Credentials are detected by their documented formats and replaced by `[REDACTED:kind]`. One pass
//! finds possible prefixes; only these are examined. Unknown formats are not found: this limits
//! accidents and is no security boundary.

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use tool::{Json, JsonLimits};

/// Body of a credential after its prefix.
#[derive(Clone, Copy)]
enum SecretBody {
    /// At least this many letters and digits.
    Alphanumeric(usize),
    /// At least this many letters, digits, `-` and `_`.
    Token(usize),
    /// Exactly this many capitals and digits.
    UppercaseExact(usize),
    /// The value after `Bearer`.
    BearerValue,
    /// User and password in a URL.
    UrlPassword,
    /// Private key in PEM armour.
    PemBlock,
    /// Value of a variable with this name.
    EnvValue,
}

/// Secret formats: prefix, kind and body.
const SECRET_FORMATS: [(&str, &str, SecretBody); 26] = [
    ("AKIA", "aws_access_key", SecretBody::UppercaseExact(16)),
    ("ASIA", "aws_access_key", SecretBody::UppercaseExact(16)),
    ("sk-ant-", "anthropic_key", SecretBody::Token(20)),
    ("sk-", "openai_key", SecretBody::Token(20)),
    ("AIza", "gcloud_key", SecretBody::Token(35)),
    ("ghp_", "github_pat", SecretBody::Alphanumeric(36)),
    ("gho_", "github_oauth", SecretBody::Alphanumeric(36)),
    ("ghu_", "github_app", SecretBody::Alphanumeric(36)),
    ("ghs_", "github_app", SecretBody::Alphanumeric(36)),
    ("ghr_", "github_app", SecretBody::Alphanumeric(36)),
    ("github_pat_", "github_fine_grained", SecretBody::Token(22)),
    ("-----BEGIN ", "ssh_private_key", SecretBody::PemBlock),
    ("Bearer ", "bearer_token", SecretBody::BearerValue),
    ("bearer ", "bearer_token", SecretBody::BearerValue),
    ("://", "connection_string", SecretBody::UrlPassword),
    ("xoxb-", "slack_token", SecretBody::Token(10)),
    ("xoxp-", "slack_token", SecretBody::Token(10)),
    ("xoxa-", "slack_token", SecretBody::Token(10)),
    ("xapp-", "slack_token", SecretBody::Token(10)),
    ("sk_live_", "stripe_key", SecretBody::Alphanumeric(16)),
    ("rk_live_", "stripe_key", SecretBody::Alphanumeric(16)),
    ("SECRET=", "env_secret", SecretBody::EnvValue),
    ("PASSWORD=", "env_secret", SecretBody::EnvValue),
    ("TOKEN=", "env_secret", SecretBody::EnvValue),
    ("API_KEY=", "env_secret", SecretBody::EnvValue),
    ("ACCESS_KEY=", "env_secret", SecretBody::EnvValue),
];

fn prefix_matcher() -> Option<&'static AhoCorasick> {
    static STARTS: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let build = || {
        AhoCorasick::builder()
            .match_kind(aho_corasick::MatchKind::LeftmostLongest)
            .build(SECRET_FORMATS.map(|(start, ..)| start))
            .ok()
    };
    STARTS.get_or_init(build).as_ref()
}

/// Returns the text with credentials redacted; `None` if it contains none.
pub(super) fn redact_secrets(json: &Json) -> Option<Json> {
    let text = json.as_str().as_bytes();
    let mut out = Vec::new();
    let mut kept = 0;
    for start in prefix_matcher()?.find_iter(text) {
        let Some((_, kind, made)) = SECRET_FORMATS.get(start.pattern().as_usize()) else {
            continue;
        };
        if start.start() < kept || !is_token_start(text, start.start(), *made) {
            continue;
        }
        let Some((from, to)) = secret_range(text, (start.start(), start.end()), *made) else {
            continue;
        };
        let Some(before) = text.get(kept..from) else { return Some(Json::encode("[REDACTED]")) };
        out.extend_from_slice(before);
        out.extend_from_slice(format!("[REDACTED:{kind}]").as_bytes());
        kept = to;
    }
    if kept == 0 {
        return None;
    }
    let Some(after) = text.get(kept..) else { return Some(Json::encode("[REDACTED]")) };
    out.extend_from_slice(after);
    // Only string contents were replaced; if the result is still invalid, nothing of it is passed
    // on.
    Some(Json::parse(out, REDACTED_LIMITS).unwrap_or_else(|_| Json::encode("[REDACTED]")))
}

/// Limits for redacted text: a replacement may be longer than the original.
const REDACTED_LIMITS: JsonLimits =
    JsonLimits { max_bytes: usize::MAX, max_nodes: usize::MAX, ..JsonLimits::DOCUMENT };

/// Returns true if a token can start here: not within a word, because Base64 data contains every
/// short prefix.
fn is_token_start(text: &[u8], at: usize, made: SecretBody) -> bool {
    let before = at.checked_sub(1).and_then(|at| text.get(at));
    match made {
        SecretBody::UrlPassword | SecretBody::EnvValue | SecretBody::PemBlock => true,
        _ => before.is_none_or(|byte| !is_token_byte(*byte) || follows_escape(text, at)),
    }
}

/// Returns true if the previous letter ends an escape such as `
/// `.
fn follows_escape(text: &[u8], at: usize) -> bool {
    at.checked_sub(2).and_then(|at| text.get(at)) == Some(&b'\\')
}

/// Returns the range of a secret whose prefix was found.
fn secret_range(
    text: &[u8],
    (from, after): (usize, usize),
    made: SecretBody,
) -> Option<(usize, usize)> {
    let run =
        |fits: fn(u8) -> bool| text.iter().skip(after).take_while(|byte| fits(**byte)).count();
    let whole = |length: usize| (from, after + length);
    match made {
        SecretBody::Alphanumeric(least) => {
            Some(run(|byte| byte.is_ascii_alphanumeric())).filter(|n| *n >= least).map(whole)
        }
        SecretBody::Token(least) => Some(run(is_token_byte)).filter(|n| *n >= least).map(whole),
        SecretBody::UppercaseExact(exactly) => {
            let length = run(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
            (length == exactly && run(is_token_byte) == exactly).then(|| whole(length))
        }
        SecretBody::BearerValue => {
            let length = run(|byte| is_token_byte(byte) || b".~+/=".contains(&byte));
            (length >= 16).then_some((after, after + length))
        }
        SecretBody::EnvValue => {
            let length = run(|byte| !byte.is_ascii_whitespace() && !b"\"\\'`;&,".contains(&byte));
            (length >= 6).then_some((after, after + length))
        }
        SecretBody::UrlPassword => url_password_range(text, after),
        SecretBody::PemBlock => pem_block_range(text, (from, after)),
    }
}

const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Finds the password of `user:password@`.
fn url_password_range(text: &[u8], after: usize) -> Option<(usize, usize)> {
    let authority = text.get(after..)?.iter().take(512);
    let ends = |byte: &&u8| !byte.is_ascii_whitespace() && !b"/?#\"\\<>".contains(byte);
    let authority: Vec<u8> = authority.take_while(ends).copied().collect();
    let at = authority.iter().rposition(|byte| *byte == b'@')?;
    let colon = authority.iter().take(at).position(|byte| *byte == b':')?;
    (colon + 1 < at).then_some((after + colon + 1, after + at))
}

/// Returns the range to the end of the armour, or of the string if that is missing.
fn pem_block_range(text: &[u8], (from, after): (usize, usize)) -> Option<(usize, usize)> {
    let head = text.get(after..after.saturating_add(60).min(text.len()))?;
    let kind = head.iter().position(|byte| *byte == b'-').and_then(|end| head.get(..end))?;
    if !kind.ends_with(b"PRIVATE KEY") && !kind.ends_with(b"PRIVATE KEY BLOCK") {
        return None;
    }
    let tail = text.get(after..)?;
    let string = tail.iter().position(|byte| *byte == b'"').unwrap_or(tail.len());
    let tail = tail.get(..string)?;
    let end = tail.windows(9).position(|window| window == b"-----END ");
    let close = |end: usize| {
        let rest = tail.get(end + 9..)?;
        rest.windows(5).position(|window| window == b"-----").map(|dashes| end + 9 + dashes + 5)
    };
    Some((from, after + end.and_then(close).unwrap_or(string)))
}

#[cfg(test)]
mod tests {
    use tool::Json;

    use super::redact_secrets;

    fn out(text: &str) -> Option<String> {
        redact_secrets(&Json::encode(text)).map(|json| json.decode().unwrap())
    }

    fn word(length: usize) -> String {
        "a1B2c3D4e5".chars().cycle().take(length).collect()
    }

    #[test]
    fn credentials_of_known_forms_are_taken_out() {
        let key = |kind: &str, body: &str| {
            format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----")
        };
        for (text, kind) in [
            (format!("AKIA{}", "ABCD1234".repeat(2)), "aws_access_key"),
            (format!("sk-ant-api03-{}", word(90)), "anthropic_key"),
            (format!("sk-proj-{}", word(48)), "openai_key"),
            (format!("AIza{}", word(35)), "gcloud_key"),
            (format!("ghp_{}", word(36)), "github_pat"),
            (format!("gho_{}", word(36)), "github_oauth"),
            (format!("ghs_{}", word(36)), "github_app"),
            (format!("github_pat_{}_{}", word(22), word(59)), "github_fine_grained"),
            (format!("xoxb-{}", word(24)), "slack_token"),
            (format!("sk_live_{}", word(24)), "stripe_key"),
            (key("OPENSSH PRIVATE KEY", &word(70)), "ssh_private_key"),
            (key("RSA PRIVATE KEY", &word(70)), "ssh_private_key"),
            (key("PRIVATE KEY", &word(70)), "ssh_private_key"),
        ] {
            let around = format!("first\n{text}\nlast");
            let expected = format!("first\n[REDACTED:{kind}]\nlast");
            assert_eq!(out(&around).as_deref(), Some(expected.as_str()), "{text}");
        }
    }

    #[test]
    fn only_the_secret_part_goes_where_the_rest_tells_something() {
        for (text, expected) in [
            (
                "Authorization: Bearer abcdefghijklmnop.q",
                "Authorization: Bearer [REDACTED:bearer_token]",
            ),
            (
                "postgres://app:hunter22@db.example.com:5432/x?a=b",
                "postgres://app:[REDACTED:connection_string]@db.example.com:5432/x?a=b",
            ),
            ("DB_PASSWORD=hunter22 PORT=1", "DB_PASSWORD=[REDACTED:env_secret] PORT=1"),
        ] {
            assert_eq!(out(text).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        let inside = format!("data{}AKIA{}x", word(9), "ABCD1234".repeat(2));
        for text in [
            inside.as_str(),
            "sk-short",
            "task-management-of-a-very-long-name-indeed",
            "https://example.com/a:b@c",
            "http://localhost:8080/x?mail=a@b",
            "a bearer of news",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            "PASSWORD= and TOKEN=x",
            "ghp_tooshort",
        ] {
            assert_eq!(out(text), None, "{text}");
        }
    }

    #[test]
    fn all_other_bytes_stay_as_they_are() {
        let text = format!(r#"{{ "n": 1.0e2, "k":"x ghp_{} y","u":"\u00e9" }}"#, word(36));
        let json = Json::parse(text, tool::JsonLimits::DOCUMENT).unwrap();
        let expected = r#"{ "n": 1.0e2, "k":"x [REDACTED:github_pat] y","u":"\u00e9" }"#;
        assert_eq!(redact_secrets(&json).unwrap().as_str(), expected);
    }

    #[test]
    fn armour_without_an_end_goes_to_the_end_of_its_text() {
        let json = Json::encode(&["a -----BEGIN PRIVATE KEY-----\nMII", "next"]);
        let out = redact_secrets(&json).unwrap();
        assert_eq!(out.as_str(), r#"["a [REDACTED:ssh_private_key]","next"]"#);
    }
}
