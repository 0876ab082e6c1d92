//! Whose tokens are believed, as it is written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::field::Field;

/// Whose tokens are believed. `/mcp` is then a protected resource of OAuth: it tells clients where to ask
/// for a token.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tokens {
    /// The address of `/mcp` as clients see it, such as `https://tools.example/mcp`. Tokens must be for it,
    /// letter by letter.
    pub(crate) resource: Field<String>,
    /// The issuers.
    pub(crate) issuers: Field<Vec<Field<Issuer>>>,
}

/// One issuer, and what its tokens may do.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Issuer {
    /// Its name here: 1 to 32 lower-case letters, digits, `_` and `-`. Its users are on record as
    /// `NAME:USER`.
    pub(crate) name: Field<String>,
    /// The `iss` of its tokens, letter by letter; its metadata are looked for there.
    #[serde(rename = "issuer")]
    pub(crate) iss: Field<String>,
    /// The address of its keys. Default: what its metadata say.
    pub(crate) jwks: Field<String>,
    /// How its tokens may be signed: any of EdDSA, ES256, ES384, ES512, RS256, RS384, RS512, PS256, PS384
    /// and PS512. Default: RS256, ES256 and EdDSA.
    pub(crate) algorithms: Field<Vec<Field<String>>>,
    /// The organisation of its users. Default: `default`.
    pub(crate) org: Field<String>,
    /// The claim that says which organisation, for an issuer of several.
    pub(crate) org_claim: Field<String>,
    /// The organisations by the values of that claim; any other value is refused.
    pub(crate) orgs: Field<BTreeMap<String, Field<String>>>,
    /// The claim that names the user. Default: `sub`.
    pub(crate) subject: Field<String>,
    /// Whether its tokens are people's rather than agents'. Default: agents', which never approve.
    pub(crate) person: Field<bool>,
    /// The longest life of a token, such as `1h`, which is the default.
    pub(crate) max_lifetime: Field<String>,
    /// What its tokens may do. A token that fits none of these may do nothing.
    pub(crate) grants: Field<Vec<Field<Grant>>>,
}

/// What a token may do whose claim has a value.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Grant {
    /// The claim, such as `scope`, or the way to it, such as `realm_access.roles`.
    pub(crate) claim: Field<String>,
    /// Its value, or one of its list, or a word of a scope.
    pub(crate) value: Field<String>,
    /// The level it gives: guest, user or admin.
    pub(crate) level: Field<String>,
    /// The roles it gives.
    pub(crate) roles: Field<Vec<Field<String>>>,
}
