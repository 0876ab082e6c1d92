//! Sanitizing of untrusted text: escapes invisible characters and redacts credentials.
//!
//! Text is data: nothing found here changes a decision. Bytes that need no change are passed on
//! unchanged.

mod large;
mod secrets;
mod words;

use tool::executor::Rpc;
use tool::{Body, Json, Outcome, Step, Wait};

pub(crate) use large::LargeAnswer;
pub(crate) use words::Words;

/// Sanitizes the result of an executor.
pub(crate) fn step(step: Step) -> Step {
    match step {
        Step::Done(Outcome { body, is_error }) => {
            let body = match body {
                Body::Value(json) => Body::Value(fit(json)),
                Body::Mcp(json) => Body::Mcp(fit(json)),
            };
            Step::Done(Outcome { body, is_error })
        }
        Step::Wait(Wait::Input { requests, resume }) => {
            Step::Wait(Wait::Input { requests: fit(requests), resume })
        }
        Step::Wait(other) => Step::Wait(other),
    }
}

/// Sanitizes a text of an upstream.
pub(crate) fn text(words: &str) -> String {
    // Shaped, it is a string still; should that ever be wrong, nothing of it is passed on.
    fit(Json::of(words)).read().unwrap_or_else(|_| "[REDACTED]".to_owned())
}

/// Sanitizes the JSON-RPC error of an upstream.
pub(crate) fn rpc(rpc: Rpc) -> Rpc {
    let message = text(&rpc.message);
    Rpc { message, data: rpc.data.map(fit), ..rpc }
}

/// Escapes invisible characters without redaction, for a person who decides on the text.
pub(crate) fn visible(json: &Json) -> Json {
    json.made_visible().unwrap_or_else(|| json.clone())
}

/// Sanitizes a JSON text; returns the same bytes if nothing is found.
pub(crate) fn fit(json: Json) -> Json {
    let json = json.made_visible().unwrap_or(json);
    secrets::redacted(&json).unwrap_or(json)
}

#[cfg(test)]
mod tests {
    use tool::Json;

    #[test]
    fn nothing_found_is_nothing_copied() {
        let json = Json::of("plain words\nand 世界");
        let before = json.bytes().as_ptr();
        assert_eq!(super::fit(json).bytes().as_ptr(), before);
    }

    #[test]
    fn a_credential_hidden_by_a_character_without_width_is_still_seen() {
        let json = Json::of(&format!("ghp_{}\u{200b}", "a".repeat(36)));
        assert_eq!(super::fit(json).as_str(), r#""[REDACTED:github_pat]\\u{200b}""#);
    }
}
