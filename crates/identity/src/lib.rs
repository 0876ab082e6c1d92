//! Verifies credentials and derives principals. A [`Principal`] is created only here.
//!
//! Identity and rights come from the credential and from the server's key table, never from a body,
//! a header or an argument that a caller can choose. This crate is pure: time, randomness and the
//! table are arguments, and it stores hashes instead of secrets.

mod changes;
mod directory;
mod error;
mod jwt;
mod key;
mod narrow;
mod personas;
mod principal;
mod rights;
mod ring;
mod shards;
mod standing;
mod subjects;

pub use changes::ChangeFault;
pub use directory::{Directory, OrgRecord, Role, ToolList, User};
pub use error::{CredentialError, KeyFault, Reason};
pub use jwt::{Algorithm, Grant, Issuer, Jws, KeySet, KeySetError, Token, TokenFault};
pub use key::{Hand, KeyId, KeyRecord, NewKey};
pub use narrow::{Delegation, Narrowing};
pub use personas::Personas;
pub use principal::Principal;
pub use rights::{Persona, Right, RightsClass};
pub use ring::{KeyRing, verify};
