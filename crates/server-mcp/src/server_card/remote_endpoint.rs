//! Description of one streamable HTTP endpoint, as server cards and the registry have it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use server_core::public_address::PublicAddress;
use server_core::server_state::ServerState;

/// A streamable HTTP endpoint of this server.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteEndpoint {
    #[serde(rename = "type")]
    transport: &'static str,
    /// URL of the endpoint.
    url: String,
    /// The header with the credential.
    headers: [CredentialHeader; 1],
    /// Protocol versions that the endpoint supports; only in server cards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    supported_protocol_versions: Vec<&'static str>,
}

/// The header with the credential.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CredentialHeader {
    name: &'static str,
    description: &'static str,
    is_required: bool,
    is_secret: bool,
    /// Value with the variable `{key}`.
    value: &'static str,
    variables: BTreeMap<&'static str, InputVariable>,
}

/// A variable that a user supplies.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct InputVariable {
    description: &'static str,
    is_required: bool,
    is_secret: bool,
}

impl RemoteEndpoint {
    /// Describes the endpoint at `path`. Its header is optional for servers that admit callers
    /// without a key, or whose clients get a token from an issuer.
    pub(crate) fn at_path(state: &ServerState, address: &PublicAddress, path: &str) -> Self {
        let components = &state.components;
        let is_required = !components.keys.key_ring().allows_anonymous()
            && components.issuers.resource_metadata(None).is_none();
        let key = InputVariable {
            description: "API key of this server, or an access token that was issued for it.",
            is_required,
            is_secret: true,
        };
        let header = CredentialHeader {
            name: "Authorization",
            description: "The credential as a bearer token.",
            is_required,
            is_secret: true,
            value: "Bearer {key}",
            variables: BTreeMap::from([("key", key)]),
        };
        Self {
            transport: "streamable-http",
            url: format!("{}{path}", address.base_url()),
            headers: [header],
            supported_protocol_versions: Vec::new(),
        }
    }

    /// Adds the protocol versions, which server cards have.
    #[must_use]
    pub(crate) fn with_protocol_versions(self, versions: Vec<&'static str>) -> Self {
        Self { supported_protocol_versions: versions, ..self }
    }
}
