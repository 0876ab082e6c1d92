//! Gemini: `functionDeclarations`, `functionCall` parts and one content of `functionResponse` parts.
//!
//! A declaration has either `parameters`, Gemini's own Schema, or `parametersJsonSchema`. The first is
//! known to every version of the service and is taken wherever it can say what there is to say.

use tool::{Json, Tool};

use crate::calls::{self, Answered, CallsError, RequestedCall};
use crate::lower::{Change, Loss, Lowered, rules};
use crate::{Rendered, results};

pub(crate) fn tool(tool: &Tool, name: &str) -> Result<Rendered, Loss> {
    let own = Rendered::lowered(tool, &rules::GEMINI, |description, schema| {
        declaration((name, description), "parameters", schema)
    });
    let refused = match own {
        Ok(mut rendered) => {
            let shown = rendered.json.as_ref().is_some_and(|json| json.get("parameters").is_some());
            if !shown {
                let why = "a function without arguments has no schema there";
                rendered.losses.push(Loss::new("properties", Change::Rewritten, why));
            }
            return Ok(rendered);
        }
        Err(refused) => refused,
    };
    let mut rendered = Rendered::lowered(tool, &rules::GEMINI_JSON, |description, schema| {
        declaration((name, description), "parametersJsonSchema", schema)
    })?;
    let why = "Gemini's Schema cannot say it, so the whole is in `parametersJsonSchema`";
    rendered.losses.insert(0, Loss { change: Change::Rewritten, why, ..refused });
    Ok(rendered)
}

/// A function without arguments has no schema: an object without properties is refused.
fn declaration((name, description): (&str, &str), member: &'static str, schema: &Lowered) -> Json {
    let (name, description) = (Json::of(name), Json::of(description));
    let shown = schema.arguments || member != "parameters";
    let fields = [
        Some(("name", &name)),
        Some(("description", &description)),
        shown.then_some((member, &schema.schema)),
    ];
    Json::fields(fields.into_iter().flatten())
}

/// The list of a request: one tool with all declarations.
pub(crate) fn merged<'a>(declarations: impl Iterator<Item = &'a Json>) -> Json {
    Json::array_within("functionDeclarations", declarations)
}

/// One tool with one declaration.
pub(crate) fn alone(declaration: &Json) -> Json {
    Json::fields([("functionDeclarations", &Json::array([declaration]))])
}

/// All responses are in one content, in the order of the calls: without ids that is how they are told
/// apart.
pub(crate) fn results(answered: &[Answered]) -> Json {
    let parts: Vec<_> = answered.iter().map(part).collect();
    Json::fields([("role", &Json::of("user")), ("parts", &Json::array(&parts))])
}

fn part(answered: &Answered) -> Json {
    let response = if answered.outcome.is_error {
        Json::fields([("error", &Json::of(&results::text(&answered.outcome)))])
    } else {
        Json::fields([("output", &results::value(&answered.outcome))])
    };
    let (id, name) = (answered.id.as_ref().map(Json::of), Json::of(&answered.name));
    let fields =
        [id.as_ref().map(|id| ("id", id)), Some(("name", &name)), Some(("response", &response))];
    Json::fields([("functionResponse", &Json::fields(fields.into_iter().flatten()))])
}

/// The model's content.
pub(crate) fn message(calls: &[RequestedCall]) -> Json {
    let part = |call: &RequestedCall| {
        let (id, name) = (call.id.as_ref().map(Json::of), Json::of(&call.name));
        let args = calls::as_object(call);
        let fields =
            [id.as_ref().map(|id| ("id", id)), Some(("name", &name)), Some(("args", &args))];
        Json::fields([("functionCall", &Json::fields(fields.into_iter().flatten()))])
    };
    let parts: Vec<_> = calls.iter().map(part).collect();
    Json::fields([("role", &Json::of("model")), ("parts", &Json::array(&parts))])
}

/// Of a whole response, of its first candidate's content, or of the content's `parts`.
pub(crate) fn calls(message: &Json) -> Result<Vec<RequestedCall>, CallsError> {
    let (parts, path) = find(message)?;
    let Some(parts) = parts else { return Ok(Vec::new()) };
    calls::each(&calls::elements(&parts, &path)?, &path, read)
}

fn find(message: &Json) -> Result<(Option<Json>, String), CallsError> {
    if message.kind() == "array" {
        return Ok((Some(message.clone()), "parts".to_owned()));
    }
    if message.kind() != "object" {
        return Err(CallsError::shape("message", Some(message), "an object or an array"));
    }
    let present = |json: Option<Json>| json.filter(|json| json.kind() != "null");
    let (content, path) = match present(message.get("candidates")) {
        // A prompt that was blocked has no candidate, and a candidate that was, no content.
        Some(candidates) => {
            let first = candidates.elements().into_iter().next();
            let content = present(first.and_then(|first| first.get("content")));
            (content, "candidates[0].content.parts")
        }
        None => (Some(message.clone()), "parts"),
    };
    let parts = present(content.and_then(|content| content.get("parts")));
    Ok((parts, path.to_owned()))
}

/// Google's SDK for Python prints the names with underscores.
fn read(part: &Json, path: &str) -> Result<Option<RequestedCall>, CallsError> {
    let [camel, snake] = part.pick(["functionCall", "function_call"]);
    let present = |json: Option<Json>| json.filter(|json| json.kind() != "null");
    let member = if present(camel.clone()).is_some() { "functionCall" } else { "function_call" };
    let Some(call) = present(camel).or(present(snake)) else { return Ok(None) };
    let path = format!("{path}{member}.");
    let id = calls::optional(&call, "id", &path)?;
    let name = calls::text(&call, "name", &path)?;
    Ok(Some(RequestedCall { id, name, text: calls::written(call.get("args")) }))
}
