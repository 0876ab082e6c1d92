//! The capabilities that a client declared. They grant no rights; they only determine which
//! requests the server may send to the client.

use tool::Json;
use tool::executor::ClientCapabilities;

/// Parses the `ClientCapabilities` of MCP.
pub(crate) fn parse_capabilities(declared: Json) -> ClientCapabilities {
    let [elicit, sample, roots, extensions] =
        declared.pick(["elicitation", "sampling", "roots", "extensions"]);
    let is = |capability: Option<Json>| capability.is_some_and(|json| json.kind() == "object");
    ClientCapabilities {
        supports_elicitation: is(elicit),
        supports_sampling: is(sample),
        supports_roots: is(roots),
        supports_tasks: mcp::tasks::is_declared(extensions.as_ref()),
        is_single_source: false,
        raw: Some(declared),
    }
}

/// The capability that a client request with this method requires.
pub(crate) fn required_capability(method: &str) -> Option<&'static str> {
    match method {
        "elicitation/create" => Some("elicitation"),
        "sampling/createMessage" => Some("sampling"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

/// Whether the client declared support for this request: its method and its mode.
pub(crate) fn supports_request(
    capabilities: &ClientCapabilities,
    method: &str,
    params: &Json,
) -> bool {
    match method {
        "elicitation/create" => {
            capabilities.supports_elicitation && supports_mode(capabilities, params)
        }
        "sampling/createMessage" => {
            capabilities.supports_sampling
                && (!uses_tools(params) || supports_sampling_tools(capabilities))
        }
        "roots/list" => capabilities.supports_roots,
        _ => false,
    }
}

fn declared_capability(can: &ClientCapabilities, capability: &str) -> Option<Json> {
    can.raw.as_ref()?.get(capability)
}

/// Whether the elicitation mode is supported. A capability without modes supports forms.
fn supports_mode(can: &ClientCapabilities, params: &Json) -> bool {
    let mode = params.get("mode").and_then(|mode| mode.decode().ok());
    let mode: String = mode.unwrap_or_else(|| "form".to_owned());
    let [form, url] = declared_capability(can, "elicitation")
        .map(|e| e.pick(["form", "url"]))
        .unwrap_or_default();
    match mode.as_str() {
        "form" => form.is_some() || url.is_none(),
        "url" => url.is_some(),
        _ => false,
    }
}

/// Whether the client declared that it opens addresses for the user.
pub(crate) fn supports_url_elicitation(can: &ClientCapabilities) -> bool {
    declared_capability(can, "elicitation").is_some_and(|modes| modes.get("url").is_some())
}

fn uses_tools(params: &Json) -> bool {
    let [tools, choice] = params.pick(["tools", "toolChoice"]);
    tools.is_some() || choice.is_some()
}

fn supports_sampling_tools(can: &ClientCapabilities) -> bool {
    declared_capability(can, "sampling").is_some_and(|sampling| sampling.get("tools").is_some())
}

/// Whether the client supports any request.
pub(crate) fn supports_any_request(capabilities: &ClientCapabilities) -> bool {
    capabilities.supports_elicitation
        || capabilities.supports_sampling
        || capabilities.supports_roots
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::Json;

    fn asks(capabilities: &Value, method: &str, params: &Value) -> bool {
        super::supports_request(
            &super::parse_capabilities(Json::encode(capabilities)),
            method,
            &Json::encode(params),
        )
    }

    #[test]
    fn only_what_was_declared_may_be_asked() {
        let can = json!({"elicitation": {}, "sampling": true});
        assert!(asks(&can, "elicitation/create", &json!({})));
        for method in ["sampling/createMessage", "roots/list", "tasks/get", "ping"] {
            assert!(!asks(&can, method, &json!({})), "{method}");
        }
        assert!(!super::supports_any_request(&super::parse_capabilities(Json::empty_object())));
    }

    #[test]
    fn modes_and_tools_are_declared_too() {
        let (form, url) = (json!({}), json!({"mode": "url"}));
        for (declared, forms, urls) in [
            (json!({}), true, false),
            (json!({"form": {}}), true, false),
            (json!({"url": {}}), false, true),
            (json!({"form": {}, "url": {}}), true, true),
        ] {
            let can = json!({"elicitation": declared});
            assert_eq!(asks(&can, "elicitation/create", &form), forms, "{can}");
            assert_eq!(asks(&can, "elicitation/create", &url), urls, "{can}");
            assert!(!asks(&can, "elicitation/create", &json!({"mode": "other"})));
        }
        let tools = json!({"tools": []});
        assert!(!asks(&json!({"sampling": {}}), "sampling/createMessage", &tools));
        assert!(asks(&json!({"sampling": {"tools": {}}}), "sampling/createMessage", &tools));
    }
}
