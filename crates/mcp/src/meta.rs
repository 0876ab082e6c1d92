//! The `_meta` member of params and results: its keys, and the part that is forwarded upstream.

use tool::Json;

/// Name of the member of params and results.
pub const META: &str = "_meta";
/// Protocol version of a request (2026-07-28).
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Name and version of the client (2026-07-28).
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Capabilities of the client (2026-07-28).
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Minimum level of the log messages that the client wants (2026-07-28).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Name and version of the server, in results (2026-07-28).
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Id of the `subscriptions/listen` request that a notification belongs to (2026-07-28).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Token that progress notifications of the request must carry.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// Toolkeep's key: `true` permits only tools without side effects.
pub const READ_ONLY: &str = "toolkeep/read_only";
/// Toolkeep's key: `true` forbids tools that access the network.
pub const NO_WEB: &str = "toolkeep/no_web";
/// Toolkeep's key for the kind of task.
pub const TASK_TYPE: &str = "toolkeep/task_type";

/// Prefix labels that MCP reserves.
const RESERVED_LABELS: [&str; 2] = ["modelcontextprotocol", "mcp"];
/// Prefix label of Toolkeep's own keys.
const TOOLKEEP_LABEL: &str = "toolkeep";

/// Returns whether a member concerns one hop only and is never forwarded.
///
/// These are the progress token, all members under a prefix that MCP reserves, and all of
/// Toolkeep's own members: a source would take them for this server's statements about its tasks,
/// its subscriptions and itself.
fn is_hop_by_hop(key: &str) -> bool {
    let Some((prefix, _)) = key.rsplit_once('/') else { return key == PROGRESS_TOKEN };
    let mut labels = prefix.split(['.', '/']);
    labels.any(|label| {
        let is = |word: &str| label.trim().eq_ignore_ascii_case(word);
        RESERVED_LABELS.into_iter().any(is) || is(TOOLKEEP_LABEL)
    })
}

/// Returns the `_meta` object of params or of a result.
pub fn get_meta(params: &Json) -> Option<Json> {
    params.get(META).filter(|meta| meta.kind() == "object")
}

/// The part of a client's `_meta` that an upstream receives.
#[derive(Debug, Clone, Default)]
pub struct ForwardedMeta {
    /// Protocol version that the client uses.
    pub protocol_version: Option<Json>,
    /// Minimum level of the log messages that the client wants.
    pub log_level: Option<Json>,
    /// Trace context and all other members that are not hop-by-hop, each as received.
    pub members: Vec<(String, Json)>,
}

/// Extracts the forwarded members in one pass.
pub fn forwarded_meta(meta: &Json) -> ForwardedMeta {
    let mut onward = ForwardedMeta::default();
    for (key, value) in meta.iter_members() {
        match &*key {
            PROTOCOL_VERSION => onward.protocol_version = Some(value),
            LOG_LEVEL => onward.log_level = Some(value),
            hop if is_hop_by_hop(hop) => {}
            _ => onward.members.push((key.into_owned(), value)),
        }
    }
    onward
}

#[cfg(test)]
mod tests {
    use tool::Json;

    #[test]
    fn what_is_of_one_hop_stays_behind() {
        let params = Json::encode(&serde_json::json!({"_meta": {
            "traceparent": "00-1", super::CLIENT_INFO: {}, "progressToken": 1, "a/b": [1.0]}}));
        let meta = super::get_meta(&params).unwrap();
        let passed = super::forwarded_meta(&meta).members;
        let kept: Vec<_> = passed.into_iter().map(|(key, _)| key).collect();
        assert_eq!(kept, ["traceparent", "a/b"]);
        assert!(super::get_meta(&Json::empty_object()).is_none());
    }

    #[test]
    fn what_only_this_server_says_to_a_source_is_not_taken_from_a_client() {
        let forged = [
            crate::tasks::RELATED_TASK_KEY,
            crate::tasks::TASKS_EXTENSION,
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
        let passed = super::forwarded_meta(&Json::encode(&members)).members;
        let passed: Vec<_> = passed.into_iter().map(|(key, _)| key).collect();
        assert_eq!(passed, passes);
    }
}
