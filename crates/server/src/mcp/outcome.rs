//! What came of a call, in rmcp's types.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, ResultType};
use tool::outcome::{Answer, Failure};
use tool::{Code, Json, Step};

/// An unknown tool is a fault of the request; every other failure is for the model to read.
pub(super) fn written(answer: Answer) -> Result<CallToolResult, ErrorData> {
    match answer.result {
        Ok(Step::Wait(_)) => {
            let told = "the tool asks for input, which cannot be given through this door yet";
            Ok(failed(&Failure::new(Code::UpstreamFailed, told)))
        }
        Ok(Step::Done(outcome)) => {
            let json = formats::write_outcome(formats::Format::Mcp, &outcome, "");
            Ok(typed(&json, outcome.is_error))
        }
        Err(failure) if failure.code == Code::UnknownTool => {
            Err(ErrorData::invalid_params(failure.message, None))
        }
        Err(failure) => Ok(failed(&failure)),
    }
}

/// A failure as text, its code first.
pub(super) fn failed(failure: &Failure) -> CallToolResult {
    let text = format!("{}: {}", failure.code.as_str(), failure.message);
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn typed(json: &Json, is_error: bool) -> CallToolResult {
    let mut result: CallToolResult = json.read().unwrap_or_else(|_| by_parts(json));
    // The server leaves it out again for clients of the older revisions.
    result.result_type = Some(ResultType::COMPLETE);
    if is_error {
        result.is_error = Some(true);
    }
    result
}

/// Where rmcp cannot read the whole: the parts it can read, and the JSON of each it cannot as text.
fn by_parts(json: &Json) -> CallToolResult {
    let mut result = CallToolResult::default();
    let content = json.get("content").map(|content| content.elements()).unwrap_or_default();
    let block =
        |part: &Json| part.read().unwrap_or_else(|_| ContentBlock::text(part.as_str().to_owned()));
    result.content = content.iter().map(block).collect();
    result.structured_content = json.get("structuredContent").map(|json| json.value());
    result.is_error = json.get("isError").and_then(|json| json.read().ok());
    result.meta = json.get("_meta").and_then(|json| json.read().ok());
    if result.content.is_empty() && result.structured_content.is_none() {
        result.content = vec![ContentBlock::text(json.as_str().to_owned())];
    }
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Json, Limits};

    use super::typed;

    fn round(text: &str) -> serde_json::Value {
        let json = Json::check(text.to_owned(), Limits::DOCUMENT).unwrap();
        serde_json::to_value(typed(&json, false)).unwrap()
    }

    #[test]
    fn what_rmcp_knows_passes() {
        let text = r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"}],
            "structuredContent":{"n":1},"isError":false,"_meta":{"a.b/c":[1]}}"#;
        let mut expected: serde_json::Value = serde_json::from_str(text).unwrap();
        expected["resultType"] = json!("complete");
        assert_eq!(round(text), expected);
    }

    /// Until the door has a lane of its own, this is what the typed round trip loses.
    #[test]
    fn what_rmcp_does_not_know_is_lost_or_becomes_text() {
        let unknown_field = r#"{"content":[{"type":"text","text":"a","vendor":1}],"vendor":2}"#;
        let content = json!([{"type": "text", "text": "a"}]);
        assert_eq!(round(unknown_field), json!({"content": content, "resultType": "complete"}));
        let unknown_block = r#"{"content":[{"type":"text","text":"a"},{"type":"video","x":1}]}"#;
        let content = json!([{"type": "text", "text": "a"},
            {"type": "text", "text": r#"{"type":"video","x":1}"#}]);
        assert_eq!(round(unknown_block), json!({"content": content, "resultType": "complete"}));
    }
}
