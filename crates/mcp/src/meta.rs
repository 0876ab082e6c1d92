//! `_meta`: what stands beside the params of a request and the members of a result.

use tool::Json;

/// The member of params and results.
pub const META: &str = "_meta";
/// The revision a request is written in (2026-07-28).
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Who the client is (2026-07-28).
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What the client can do (2026-07-28).
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// From which level on log lines are wanted (2026-07-28).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Who the server is, in results (2026-07-28).
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Which `subscriptions/listen` a notification belongs to (2026-07-28).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Where progress is to be told.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// Ours: `true` for only tools without effects.
pub const READ_ONLY: &str = "toolkeep/read_only";
/// Ours: `true` for no tool that reaches the network.
pub const NO_WEB: &str = "toolkeep/no_web";
/// Ours: the kind of task.
pub const TASK_TYPE: &str = "toolkeep/task_type";

/// Labels of prefixes that MCP reserves.
const RESERVED: [&str; 2] = ["modelcontextprotocol", "mcp"];
/// The label of our own prefixes.
const OURS: &str = "toolkeep";

/// Whether a member concerns one hop only and is never passed on: the next hop has its own. These are the
/// progress token, all members under a prefix that MCP reserves, and all members of ours: to a source they
/// are this server's word, about its tasks, its subscriptions and itself.
fn is_hop(key: &str) -> bool {
    let Some((prefix, _)) = key.rsplit_once('/') else { return key == PROGRESS_TOKEN };
    let mut labels = prefix.split(['.', '/']);
    labels.any(|label| {
        let is = |word: &str| label.trim().eq_ignore_ascii_case(word);
        RESERVED.into_iter().any(is) || is(OURS)
    })
}

/// The `_meta` of params or of a result.
pub fn of(params: &Json) -> Option<Json> {
    params.get(META).filter(|meta| meta.kind() == "object")
}

/// What of a client's `_meta` an upstream is told.
#[derive(Debug, Clone, Default)]
pub struct Onward {
    /// The revision the client speaks.
    pub version: Option<Json>,
    /// From which level on it wants log lines.
    pub level: Option<Json>,
    /// Trace context and whatever else is not of one hop alone; each member as it came.
    pub passed: Vec<(String, Json)>,
}

/// Reads it in one pass.
pub fn onward(meta: &Json) -> Onward {
    let mut onward = Onward::default();
    for (key, value) in meta.named() {
        match &*key {
            PROTOCOL_VERSION => onward.version = Some(value),
            LOG_LEVEL => onward.level = Some(value),
            hop if is_hop(hop) => {}
            _ => onward.passed.push((key.into_owned(), value)),
        }
    }
    onward
}

#[cfg(test)]
mod tests {
    use tool::Json;

    #[test]
    fn what_is_of_one_hop_stays_behind() {
        let params = Json::of(&serde_json::json!({"_meta": {
            "traceparent": "00-1", super::CLIENT_INFO: {}, "progressToken": 1, "a/b": [1.0]}}));
        let meta = super::of(&params).unwrap();
        let passed = super::onward(&meta).passed;
        let kept: Vec<_> = passed.into_iter().map(|(key, _)| key).collect();
        assert_eq!(kept, ["traceparent", "a/b"]);
        assert!(super::of(&Json::empty()).is_none());
    }

    #[test]
    fn what_only_this_server_says_to_a_source_is_not_taken_from_a_client() {
        let forged = [
            crate::task::RELATED,
            crate::task::EXTENSION,
            super::SUBSCRIPTION_ID,
            super::SERVER_INFO,
            "io.modelcontextprotocol/of-a-later-revision",
            "modelcontextprotocol.io/x",
            "tools.mcp.com/x",
            "IO.ModelContextProtocol/related-task",
            "toolkeep/subject",
            "dev.toolkeep/subject",
        ];
        let passes = ["traceparent", "tracestate", "baggage", "com.example/x", "mcp", "a/toolkeep"];
        let members = forged.iter().chain(&passes).map(|key| ((*key).to_owned(), true.into()));
        let members: serde_json::Map<String, serde_json::Value> = members.collect();
        let passed = super::onward(&Json::of(&members)).passed;
        let passed: Vec<_> = passed.into_iter().map(|(key, _)| key).collect();
        assert_eq!(passed, passes);
    }
}
