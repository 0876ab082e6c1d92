//! Tests of caller identity: delegated keys, roles, users, organisations and tokens, and how each
//! ends.

mod delegated_keys;
mod directory;
mod key_creation;
mod legacy_hazards;
mod protected_resource;
mod revocation;
mod tokens;
