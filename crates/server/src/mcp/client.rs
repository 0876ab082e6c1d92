//! What a client can do, as it says itself. It grants nothing: it only tells what it may be asked.

use tool::Json;
use tool::executor::ClientCan;

/// Reads MCP's `ClientCapabilities`.
pub(super) fn can(declared: Json) -> ClientCan {
    let [elicit, sample, roots, tasks] =
        declared.pick(["elicitation", "sampling", "roots", "tasks"]);
    let is = |capability: Option<Json>| capability.is_some_and(|json| json.kind() == "object");
    ClientCan {
        elicit: is(elicit),
        sample: is(sample),
        roots: is(roots),
        tasks: is(tasks),
        declared: Some(declared),
    }
}

/// The capability that a question of this method needs.
pub(super) fn needs(method: &str) -> Option<&'static str> {
    match method {
        "elicitation/create" => Some("elicitation"),
        "sampling/createMessage" => Some("sampling"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

/// Whether the client said that it answers questions of this method.
pub(super) fn answers(can: &ClientCan, method: &str) -> bool {
    match needs(method) {
        Some("elicitation") => can.elicit,
        Some("sampling") => can.sample,
        Some("roots") => can.roots,
        _ => false,
    }
}

/// Whether it can be asked anything.
pub(super) fn answers_any(can: &ClientCan) -> bool {
    can.elicit || can.sample || can.roots
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    #[test]
    fn only_what_was_declared_may_be_asked() {
        let can = super::can(Json::of(&json!({"elicitation": {"url": {}}, "sampling": true})));
        assert!(super::answers(&can, "elicitation/create") && super::answers_any(&can));
        for method in ["sampling/createMessage", "roots/list", "tasks/get", "ping"] {
            assert!(!super::answers(&can, method), "{method}");
        }
        assert!(!super::answers_any(&super::can(Json::empty())));
    }
}
