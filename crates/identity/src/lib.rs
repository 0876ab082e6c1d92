//! Verifies credentials and derives principals. A [`Principal`] is created only here.
//!
//! Identity and rights come from the credential and from the server's key table, never from a body,
//! a header or an argument that a caller can choose. This crate is pure: time, randomness and the
//! table are arguments, and it stores hashes instead of secrets.

mod api_key;
mod change_rules;
mod credential_errors;
mod directory;
mod effective_rights;
mod jwt;
mod key_ring;
mod persona_set;
mod principal;
mod restrictions;
mod rights_class;
mod sharded_map;
mod subject_index;

pub use api_key::{DelegationRequest, KeyId, KeyRecord, NewKey};
pub use change_rules::ChangeError;
pub use credential_errors::{CredentialError, CredentialErrorKind, KeyIssueError};
pub use directory::{Directory, OrgRecord, OrgToolPatterns, RoleRecord, UserRecord};
pub use jwt::{
    ClaimGrant, JwkSet, JwkSetError, OrgClaim, SignInExpectation, SignatureAlgorithm, SignedInUser,
    TokenVerificationError, TrustedIssuer, UnverifiedJws, UnverifiedJwt,
};
pub use key_ring::{CallerCredential, KeyRing};
pub use persona_set::PersonaSet;
pub use principal::Principal;
pub use restrictions::{KeyDelegation, RequestRestrictions};
pub use rights_class::{Persona, Right, RightsClass};
