//! Negotiation request to a server, in each era, and its answer.

use ::mcp::events::EVENTS_EXTENSION;
use ::mcp::extensions::{AllowedExtensions, SKILLS_EXTENSION};
use ::mcp::{ProtocolEra, ProtocolVersion, RpcError, error_codes};
use serde::Deserialize;
use tool::Json;

use super::connection::DeliveryError;
use super::outgoing_request::CLIENT_INFO;
use tool::display_text::escape_and_truncate;

/// Server capabilities that Toolkeep uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ServerCapabilities {
    pub(super) tools: Option<ListCapability>,
    pub(super) prompts: Option<ListCapability>,
    pub(super) resources: Option<ListCapability>,
    pub(super) completions: bool,
    pub(super) logging: bool,
    pub(super) tasks: Option<TaskCapability>,
    pub(super) skills: Option<SkillCapability>,
    /// Whether it has events (SEP-3415).
    pub(super) events: bool,
}

/// Support of skills (SEP-2640).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SkillCapability {
    /// Whether directories of resources can be read.
    pub(super) reads_directories: bool,
}

/// Task support of tool calls, in either era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskCapability {
    /// Whether tasks can be cancelled.
    pub(super) supports_cancel: bool,
}

/// Capabilities of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ListCapability {
    /// Whether the server notifies of list changes.
    pub(super) notifies_changes: bool,
    /// Whether single resources can be subscribed to.
    pub(super) supports_subscribe: bool,
}

/// Result of a successful negotiation.
#[derive(Debug)]
pub(super) struct NegotiatedServer {
    /// Result, as received.
    pub(super) raw_result: Json,
    /// Negotiated protocol version.
    pub(super) protocol_version: ProtocolVersion,
    pub(super) capabilities: ServerCapabilities,
    /// Whether the server declares the other era too.
    pub(super) supports_both_eras: bool,
}

/// Failure of a negotiation.
#[derive(Debug)]
pub(super) enum NegotiationError {
    /// The server returned a JSON-RPC error.
    Refused(RpcError),
    /// The server supports only these other versions.
    UnsupportedVersions(Vec<String>),
    /// The answer is not valid.
    Malformed(String),
    /// No answer arrived.
    NoResponse(DeliveryError),
}

/// Returns the MCP method of the negotiation.
pub(super) const fn negotiation_method(era: ProtocolEra) -> &'static str {
    match era {
        ProtocolEra::Handshake => "initialize",
        ProtocolEra::Stateless => "server/discover",
    }
}

/// Params of the negotiation. Client capabilities differ from call to call on one connection. So
/// Toolkeep declares all that it can forward; a client without one refuses the request.
pub(super) fn negotiation_params(era: ProtocolEra, extensions: &AllowedExtensions) -> Json {
    if era == ProtocolEra::Stateless {
        return Json::empty_object();
    }
    let mut capabilities = Json::encode(&serde_json::json!({
        "elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}));
    if let Some(extensions) = extensions.declaration() {
        capabilities = capabilities.with_member("extensions", &extensions);
    }
    let version = Json::encode(ProtocolVersion::LAST_HANDSHAKE.as_str());
    let client = Json::from_trusted(CLIENT_INFO.to_owned());
    Json::object_from([
        ("protocolVersion", &version),
        ("capabilities", &capabilities),
        ("clientInfo", &client),
    ])
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NegotiationResponse {
    protocol_version: Option<String>,
    #[serde(default)]
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: CapabilitiesField,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CapabilitiesField {
    tools: Option<CapabilityField>,
    prompts: Option<CapabilityField>,
    resources: Option<CapabilityField>,
    completions: Option<serde_json::Value>,
    logging: Option<serde_json::Value>,
    tasks: Option<serde_json::Value>,
    extensions: Option<serde_json::Value>,
}

impl CapabilitiesField {
    fn task_capability(&self, era: ProtocolEra) -> Option<TaskCapability> {
        let is =
            |found: Option<&serde_json::Value>| found.is_some_and(serde_json::Value::is_object);
        match era {
            ProtocolEra::Handshake => {
                let tasks = self.tasks.as_ref()?;
                let calls = is(tasks.pointer("/requests/tools/call"));
                calls.then(|| TaskCapability { supports_cancel: is(tasks.get("cancel")) })
            }
            ProtocolEra::Stateless => {
                let extension = self.extensions.as_ref()?.get(::mcp::tasks::TASKS_EXTENSION);
                is(extension).then_some(TaskCapability { supports_cancel: true })
            }
        }
    }
}

impl CapabilitiesField {
    fn has_events(&self) -> bool {
        let settings = self.extensions.as_ref().and_then(|all| all.get(EVENTS_EXTENSION));
        settings.is_some_and(serde_json::Value::is_object)
    }

    fn skill_capability(&self) -> Option<SkillCapability> {
        let settings = self.extensions.as_ref()?.get(SKILLS_EXTENSION)?;
        let reads_directories = settings.get("directoryRead") == Some(&true.into());
        settings.is_object().then_some(SkillCapability { reads_directories })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CapabilityField {
    list_changed: Option<bool>,
    subscribe: Option<bool>,
}

/// Parses the answer of a negotiation.
pub(super) fn parse_negotiation(
    era: ProtocolEra,
    result: Json,
) -> Result<NegotiatedServer, NegotiationError> {
    let response: NegotiationResponse =
        result.decode().map_err(|error| NegotiationError::Malformed(error.to_string()))?;
    let versions = match era {
        ProtocolEra::Handshake => response.protocol_version.into_iter().collect(),
        ProtocolEra::Stateless => response.supported_versions,
    };
    let eras = || {
        versions
            .iter()
            .filter_map(|version| ProtocolVersion::parse(version))
            .map(ProtocolVersion::era)
    };
    let supports_both_eras = eras().any(|other| other != era);
    let spoken = versions.iter().filter_map(|version| ProtocolVersion::parse(version));
    let Some(revision) = spoken.filter(|revision| revision.era() == era).max() else {
        return Err(NegotiationError::UnsupportedVersions(versions));
    };
    let listed = |said: CapabilityField| ListCapability {
        notifies_changes: said.list_changed == Some(true),
        supports_subscribe: said.subscribe == Some(true) || era == ProtocolEra::Stateless,
    };
    let tasks = response.capabilities.task_capability(era);
    let skills = response.capabilities.skill_capability();
    let events = response.capabilities.has_events();
    let CapabilitiesField { tools, prompts, resources, completions, logging, .. } =
        response.capabilities;
    let can = ServerCapabilities {
        tools: tools.map(listed),
        prompts: prompts.map(listed),
        resources: resources.map(listed),
        completions: completions.is_some(),
        logging: logging.is_some(),
        tasks,
        skills,
        events,
    };
    Ok(NegotiatedServer {
        raw_result: result,
        protocol_version: revision,
        capabilities: can,
        supports_both_eras,
    })
}

impl NegotiationError {
    /// Whether the server answered and rejected this era.
    pub(super) fn is_era_rejection(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::UnsupportedVersions(_))
    }
}

/// Whether a server that rejects the version lists it among those that it supports. Then MCP
/// requires one retry.
pub(super) fn supports_latest_version(era: ProtocolEra, error: &RpcError) -> bool {
    let data = error.data.as_ref().filter(|_| error.code == error_codes::UNSUPPORTED_VERSION);
    let supported = data.and_then(|data| data.get("supported")?.decode::<Vec<String>>().ok());
    era == ProtocolEra::Stateless
        && supported
            .is_some_and(|spoken| spoken.iter().any(|it| it == ProtocolVersion::LATEST.as_str()))
}

/// Describes versions that Toolkeep does not support.
pub(super) fn describe_unsupported(server_versions: &[String]) -> String {
    let theirs: Vec<_> =
        server_versions.iter().take(10).map(|version| escape_and_truncate(version, 20)).collect();
    format!("supports no known MCP version, only: {}", theirs.join(", "))
}

#[cfg(test)]
mod tests {
    use ::mcp::{ProtocolEra, ProtocolVersion};
    use serde_json::json;
    use tool::Json;

    use super::{ListCapability, NegotiationError, ServerCapabilities, parse_negotiation};

    #[test]
    fn revisions_are_those_of_the_era_and_the_newest_is_spoken() {
        let read = |era, about| parse_negotiation(era, Json::encode(&about));
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let greeted =
                read(ProtocolEra::Handshake, json!({"protocolVersion": version})).unwrap();
            assert_eq!(greeted.protocol_version.as_str(), version);
        }
        for version in ["2026-07-28", "1.0", ""] {
            let error =
                read(ProtocolEra::Handshake, json!({"protocolVersion": version})).unwrap_err();
            assert!(matches!(error, NegotiationError::UnsupportedVersions(_)), "{version}");
        }
        let both = json!({"supportedVersions": ["2025-11-25", "2026-07-28", "2027-01-01"]});
        assert_eq!(
            read(ProtocolEra::Stateless, both).unwrap().protocol_version,
            ProtocolVersion::V2026_07_28
        );
        let old = json!({"supportedVersions": ["2025-11-25"]});
        assert!(read(ProtocolEra::Stateless, old).unwrap_err().is_era_rejection());
        assert!(!read(ProtocolEra::Stateless, json!([])).unwrap_err().is_era_rejection());
    }

    #[test]
    fn capabilities_are_what_is_said() {
        let about = json!({"protocolVersion": "2025-11-25", "capabilities": {
            "tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}, "odd": 1}});
        let can =
            parse_negotiation(ProtocolEra::Handshake, Json::encode(&about)).unwrap().capabilities;
        let expected = ServerCapabilities {
            tools: Some(ListCapability { notifies_changes: true, supports_subscribe: false }),
            resources: Some(ListCapability { notifies_changes: false, supports_subscribe: true }),
            logging: true,
            ..ServerCapabilities::default()
        };
        assert_eq!(can, expected);
    }
}
