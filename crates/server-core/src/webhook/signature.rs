//! Secrets of webhooks and the signatures that they make (`v1`, HMAC-SHA256).

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tool::Secret;

/// Prefix of a secret whose bytes follow as base64.
const SECRET_PREFIX: &str = "whsec_";
/// Number of bytes of a secret that a client brings.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The secret that signs the messages to one webhook.
#[derive(Clone)]
pub struct WebhookSecret(hmac::Key);

impl WebhookSecret {
    /// Parses `whsec_` and the base64 form of 24 to 64 bytes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(SECRET_PREFIX)?).ok()?;
        SECRET_BYTES.contains(&bytes.len()).then(|| Self::from_bytes(&bytes))
    }

    /// The secret of an operator: as [`WebhookSecret::parse`], or else the bytes of the text itself.
    pub fn from_operator(secret: &Secret) -> Self {
        let text = secret.expose();
        Self::parse(text).unwrap_or_else(|| Self::from_bytes(text.as_bytes()))
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Signs id, time in seconds and body of a message: `v1,` and the base64 form of the signature.
    pub fn sign_message(&self, id: &str, time: &str, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        for part in [id.as_bytes(), b".", time.as_bytes(), b".", body] {
            context.update(part);
        }
        format!("v1,{}", STANDARD.encode(context.sign().as_ref()))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use tool::Secret;

    use super::WebhookSecret;

    /// By `printf '%s' 'msg_1.1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789 -binary | base64`.
    const EXPECTED: &str = "v1,kqMIVMRW5ERD4fyGb3YwN2IAuAC6c5jvxfiDeiSwAvM=";

    #[test]
    fn the_signature_is_what_others_compute() {
        let text = "0123456789abcdef0123456789";
        let encoded = format!("whsec_{}", STANDARD.encode(text));
        for secret in [text, &encoded] {
            let signed = WebhookSecret::from_operator(&Secret::new(secret));
            assert_eq!(signed.sign_message("msg_1", "1700000000", b"{}"), EXPECTED);
        }
        let other = WebhookSecret::from_operator(&Secret::new("0123456789abcdef"));
        assert_ne!(other.sign_message("msg_1", "1700000000", b"{}"), EXPECTED);
    }

    #[test]
    fn a_clients_secret_has_the_form_of_the_standard() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        assert!([24, 32, 64].iter().all(|&bytes| WebhookSecret::parse(&of(bytes)).is_some()));
        let bare = STANDARD.encode([7; 32]);
        for bad in [of(23), of(65), bare, "whsec_".to_owned(), "whsec_*".repeat(9)] {
            assert!(WebhookSecret::parse(&bad).is_none(), "{bad}");
        }
    }
}
