//! How an MCP server over HTTP is told who calls, as it is written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Text;
use crate::field::Field;

/// How tokens are asked for (OAuth 2.1). A secret stands in a variable or in a file, better than here.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OAuth {
    /// On whose behalf. Default: `authorization_code`.
    pub(crate) grant: Field<GrantWord>,
    /// The client's id, where it is registered by hand.
    pub(crate) client_id: Field<String>,
    /// Its secret.
    pub(crate) client_secret: Field<Text>,
    /// Name of the environment variable that holds its secret.
    pub(crate) client_secret_env: Field<String>,
    /// File that holds its secret; read with the configuration.
    pub(crate) client_secret_file: Field<String>,
    /// File that holds its private key instead of a secret: PKCS#8 in PEM, of P-256, P-384, Ed25519 or
    /// RSA.
    pub(crate) private_key_file: Field<String>,
    /// Name of the environment variable that holds its private key.
    pub(crate) private_key_env: Field<String>,
    /// https address of a document that describes this installation as a client.
    pub(crate) client_metadata: Field<String>,
    /// Scopes to ask for, and with `client_credentials` no others. Default: those that the server names.
    pub(crate) scopes: Field<Vec<Field<String>>>,
    /// The only authorization server that is asked, as its metadata name it. Needed where it lies in a
    /// private network.
    pub(crate) issuer: Field<String>,
    /// Its token endpoint, where its metadata are not to be asked for.
    pub(crate) token_endpoint: Field<String>,
    /// Whether the server may name authorization servers on any port of this machine, for development.
    /// Default: false; `issuer` and `token_endpoint` name one.
    pub(crate) any_loopback_port: Field<bool>,
}

/// On whose behalf tokens are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GrantWord {
    /// A person's, who logs in once.
    AuthorizationCode,
    /// The installation's own.
    ClientCredentials,
}

/// A secret of its own for each caller.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PerCaller {
    /// The header that carries it. Default: `Authorization`, with `Bearer ` before the secret.
    pub(crate) header: Field<String>,
    /// The secrets, by the subject of the caller's key.
    pub(crate) secrets: Field<BTreeMap<String, Field<Text>>>,
    /// The subject whose secret lists the tools. Default: they are listed without one.
    pub(crate) list_as: Field<String>,
}
