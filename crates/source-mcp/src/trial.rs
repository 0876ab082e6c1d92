//! One call with nobody behind it, for who writes a server: no pipeline, no record.
//!
//! Never on the way of a caller's own call.

use serde::Deserialize;
use serde_json::{Value, json};
use tool::Json;

use super::McpSource;
use super::fail::{refused, unasked};

/// What a call answers, as far as a test looks at it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answered {
    content: Vec<Value>,
    structured_content: Option<Value>,
    is_error: bool,
}

impl McpSource {
    /// Calls the tool that the server knows as `own`, and waits as long as it takes. The answer is its
    /// structured content, else its text; or the text of its failure.
    ///
    /// # Errors
    /// Where the server cannot be asked, or is gone, in words.
    pub async fn tried(&self, own: &str, args: &Json) -> Result<Result<Json, String>, String> {
        self.upstream.start();
        let link = self.upstream.link().await.map_err(|fault| fault.message)?;
        let params = Json::fields([("name", &Json::of(own)), ("arguments", args)]);
        let answer = link.ask("tools/call", &params).await;
        let answer = answer.map_err(|why| unasked("tools/call", why).message)?;
        Ok(answer.map_err(|error| refused(&error)).and_then(|result| read(&result)))
    }
}

fn read(result: &Json) -> Result<Json, String> {
    let answered: Answered =
        result.read().map_err(|error| format!("the answer cannot be read: {error}"))?;
    let texts = answered.content.iter().filter_map(|part| part.get("text")?.as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    if answered.is_error {
        return Err(text);
    }
    Ok(Json::of(&answered.structured_content.unwrap_or_else(|| json!(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_goes_before_text_and_a_failure_is_its_text() {
        let read = |answer: Value| read(&Json::of(&answer)).map(|json| json.value());
        let part = json!({"type": "text", "text": "a"});
        assert_eq!(read(json!({"content": [part, part]})), Ok(json!("a\na")));
        let both = json!({"content": [part], "structuredContent": {"b": 1}});
        assert_eq!(read(both), Ok(json!({"b": 1})));
        assert_eq!(read(json!({"content": [part], "isError": true})), Err("a".to_owned()));
        assert!(read(json!({"content": 7})).is_err());
    }
}
