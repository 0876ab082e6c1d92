//! The section `approvals`, as it is written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Text;
use crate::field::Field;

/// Calls that are held until a person has agreed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Approvals {
    /// How long a call waits for a decision, such as `10m`; at most `1h`. Default: `10m`.
    pub(crate) expires: Field<String>,
    /// Calls of one key that may wait at once. Default: 32.
    pub(crate) pending: Field<u64>,
    /// Calls that one key may have held within a minute. Default: 60.
    pub(crate) per_minute: Field<u64>,
    /// Ids of the keys whose client may give the approval itself, where it can ask a person. Without
    /// this, what a client answers is no approval.
    pub(crate) client_confirm: Field<Vec<Field<String>>>,
    /// The page that a person is sent to, with `{id}` where the call's id belongs. Default: a page of
    /// this server that tells what to type.
    pub(crate) page: Field<String>,
    /// Who is told of each held call, and of each change of one.
    pub(crate) webhook: Field<Webhook>,
}

/// An address that is told by POST. Each request is signed with HMAC-SHA256 over its time and body.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["url", "secret"]))]
pub(crate) struct Webhook {
    /// Its address.
    pub(crate) url: Field<String>,
    /// The key of the signature, at least 16 bytes; better a variable: `${HOOK_SECRET}`.
    pub(crate) secret: Field<Text>,
}
