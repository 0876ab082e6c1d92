//! Test calls for authors of a server: they use no pipeline and write no record.
//!
//! Never used for a caller's own call.

use serde::Deserialize;
use serde_json::{Value, json};
use tool::Json;

use super::McpSource;
use super::delivery_errors::{describe_rpc_error, to_connection_error};

/// Fields of a tool result that a test call uses.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TestCallResult {
    content: Vec<Value>,
    structured_content: Option<Value>,
    is_error: bool,
}

impl McpSource {
    /// Calls the tool with this upstream name, without a time limit. Returns the structured
    /// content, else the text, or the text of the failure.
    ///
    /// # Errors
    /// Describes the reason if the server cannot be reached.
    pub async fn call_for_test(
        &self,
        upstream_name: &str,
        args: &Json,
    ) -> Result<Result<Json, String>, String> {
        self.supervisor.start();
        let link = self.supervisor.wait_for_connection().await.map_err(|fault| fault.message)?;
        let params =
            Json::object_from([("name", &Json::encode(upstream_name)), ("arguments", args)]);
        let answer = link.call_method("tools/call", &params).await;
        let answer = answer.map_err(|why| to_connection_error("tools/call", why).message)?;
        Ok(answer
            .into_result()
            .map_err(|error| describe_rpc_error(&error))
            .and_then(|result| parse_tool_result(&result)))
    }
}

fn parse_tool_result(result: &Json) -> Result<Json, String> {
    let answered: TestCallResult =
        result.decode().map_err(|error| format!("cannot parse the response: {error}"))?;
    let texts = answered.content.iter().filter_map(|part| part.get("text")?.as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    if answered.is_error {
        return Err(text);
    }
    Ok(Json::encode(&answered.structured_content.unwrap_or_else(|| json!(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_goes_before_text_and_a_failure_is_its_text() {
        let read =
            |answer: Value| parse_tool_result(&Json::encode(&answer)).map(|json| json.to_value());
        let part = json!({"type": "text", "text": "a"});
        assert_eq!(read(json!({"content": [part, part]})), Ok(json!("a\na")));
        let both = json!({"content": [part], "structuredContent": {"b": 1}});
        assert_eq!(read(both), Ok(json!({"b": 1})));
        assert_eq!(read(json!({"content": [part], "isError": true})), Err("a".to_owned()));
        assert!(read(json!({"content": 7})).is_err());
    }
}
