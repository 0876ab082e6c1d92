//! Credentials to principals. The only place where a [`Principal`] is made.
//!
//! Who asks, and what he may do, comes from the credential and from the server's own table of keys;
//! never from a body, a header or an argument that a caller can choose. This crate is pure: the time,
//! the randomness and the table come in as arguments, and it keeps no secret, only hashes.

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
