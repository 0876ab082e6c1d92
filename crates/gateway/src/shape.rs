//! What came from outside, made fit for whoever reads it: hidden characters visible, credentials out.
//!
//! Text is data. Nothing found here changes a decision; bytes that need no change are passed on as they
//! came.

mod large;
mod secrets;
mod words;

use tool::executor::Rpc;
use tool::{Body, Json, Outcome, Step, Wait};

pub(crate) use large::LargeAnswer;
pub(crate) use words::Words;

/// An answer, shaped.
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

/// Words of the other side, shaped.
pub(crate) fn text(words: &str) -> String {
    fit(Json::of(words)).read().unwrap_or_default()
}

/// An upstream's own error, shaped.
pub(crate) fn rpc(rpc: Rpc) -> Rpc {
    let message = text(&rpc.message);
    Rpc { message, data: rpc.data.map(fit), ..rpc }
}

/// One text with hidden characters made visible and nothing taken out: for a person who decides on it.
pub(crate) fn visible(json: &Json) -> Json {
    json.made_visible().unwrap_or_else(|| json.clone())
}

/// One text, shaped; the same bytes where nothing is found.
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
