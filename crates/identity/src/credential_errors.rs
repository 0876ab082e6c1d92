//! Errors of credentials, and of issuing keys.

use std::fmt;

use tool::identifier::IdentifierError;
use tool::{Org, PermissionLevel};

use crate::Right;

/// Error of an invalid credential. Its text reveals nothing to a guesser: whether the id exists,
/// has expired or was revoked is only in [`CredentialError::reason`], for the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CredentialError {
    reason: CredentialErrorKind,
}

/// The actual reason, for logs; never for responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CredentialErrorKind {
    /// No credential was presented.
    Missing,
    /// The text is not in the format of a key.
    Malformed,
    /// No key has this id.
    UnknownId,
    /// The id exists, but the secret is wrong.
    WrongSecret,
    /// The credential has expired.
    Expired,
    /// The credential was revoked.
    Revoked,
    /// The user or its organisation was disabled.
    Disabled,
    /// The parent key does not exist, or may no longer delegate this way.
    InvalidDelegation,
    /// The token's issuer is not configured.
    UnknownIssuer,
    /// The token's algorithm is not allowed for its issuer, or does not fit its key.
    AlgorithmNotAllowed,
    /// The token has another audience.
    WrongAudience,
    /// The token is not an access token.
    NotAnAccessToken,
    /// The ID token is not the answer to this sign-in.
    WrongNonce,
    /// The token has no valid user, or an unknown organisation.
    InvalidSubject,
    /// The token has no expiry time.
    NoExpiry,
    /// The token is not valid yet.
    NotYetValid,
    /// The token's lifetime exceeds the issuer's maximum.
    LifetimeTooLong,
}

impl CredentialErrorKind {
    /// Returns the word for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::UnknownId => "unknown_id",
            Self::WrongSecret => "wrong_secret",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Disabled => "disabled",
            Self::InvalidDelegation => "orphaned",
            Self::UnknownIssuer => "unknown_issuer",
            Self::AlgorithmNotAllowed => "algorithm",
            Self::WrongAudience => "audience",
            Self::NotAnAccessToken => "token_kind",
            Self::WrongNonce => "nonce",
            Self::InvalidSubject => "subject",
            Self::NoExpiry => "no_expiry",
            Self::NotYetValid => "not_yet",
            Self::LifetimeTooLong => "too_long",
        }
    }
}

impl CredentialError {
    /// Creates an error with its actual reason.
    pub fn new(reason: CredentialErrorKind) -> Self {
        Self { reason }
    }

    /// Returns the actual reason, for the log.
    pub fn reason(&self) -> CredentialErrorKind {
        self.reason
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            CredentialErrorKind::Missing => "no credential; send `Authorization: Bearer KEY`",
            _ => "the credential is invalid: unknown, expired or revoked",
        })
    }
}

impl fmt::Debug for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialError({self})")
    }
}

impl std::error::Error for CredentialError {}

/// Errors of issuing a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyIssueError {
    /// The id has characters that a key cannot contain.
    #[error("invalid key ID `{}`; use 1 to 32 lower-case letters and digits", .0.escape_debug())]
    InvalidId(String),
    /// A text is empty, too long, or has invisible or confusable characters.
    #[error("the {what} {fault}")]
    InvalidText {
        /// Name of the text.
        what: &'static str,
        /// Error of the text.
        fault: IdentifierError,
    },
    /// A new subject looks like an existing one.
    #[error("`{}` looks like the subject `{}`", .requested.escape_debug(), .existing.escape_debug())]
    Confusable {
        /// The subject that was requested.
        requested: String,
        /// The subject that exists.
        existing: String,
    },
    /// The subject exists, and the caller may not act for it.
    #[error(
        "the subject `{}` already exists; a key for it needs the right `act_as` or an owner's key",
        .0.escape_debug()
    )]
    SubjectExists(String),
    /// A delegated key is requested for a subject that has keys but is not a user.
    #[error("no user `{}` to act for", .0.escape_debug())]
    UnknownUser(String),
    /// Only an owner's own key can create a key of level `owner`.
    #[error("only an owner's own key can create a key of the level `owner`")]
    OwnerRequired,
    /// The action is not allowed for delegated keys.
    #[error("a delegated key cannot {0}; use the key that it was delegated from")]
    NotForDelegatedKeys(&'static str),
    /// A list is too long.
    #[error("{found} {what} are too many; the maximum is {limit}")]
    TooMany {
        /// Kind of list items.
        what: &'static str,
        /// Actual number of items.
        found: usize,
        /// Maximum number of items.
        limit: usize,
    },
    /// The right is never granted to an agent's key.
    #[error("an agent's key cannot have the right `{0}`; create a key for a person")]
    AgentRight(Right),
    /// The requested level exceeds the creator's.
    #[error(
        "your own level is `{own_level}`, so the key cannot have the level \
        `{requested_level}`"
    )]
    LevelExceeded {
        /// Level of the creator.
        own_level: PermissionLevel,
        /// Level that was requested.
        requested_level: PermissionLevel,
    },
    /// The creator belongs to another organisation.
    #[error("your key belongs to the organisation `{own_org}`, not to `{requested_org}`")]
    OtherOrg {
        /// Organisation of the creator.
        own_org: Org,
        /// Organisation that was requested.
        requested_org: Org,
    },
    /// The creator lacks the right.
    #[error("your own key lacks the right `{0}`, so it cannot grant it")]
    MissingRight(Right),
    /// The creator lacks the role.
    #[error("your own key lacks the role `{0}`, so it cannot grant it")]
    MissingRole(String),
    /// The creator's persona does not allow the module.
    #[error("your persona does not allow the module `{0}`, so your key cannot grant it")]
    ModuleNotAllowed(String),
    /// A list of modules is required, because the creator's persona has one.
    #[error("your own persona is limited to some modules; list those that the key may use")]
    ModulesRequired,
    /// An agent requested a key for a person.
    #[error("an agent cannot create a key for a person; mark the key as `agent`")]
    PersonKeyByAgent,
    /// The delegation chain is too long.
    #[error("the key was already delegated {0} times, the maximum")]
    DelegationTooDeep(usize),
    /// A tool pattern is invalid.
    #[error("invalid tool pattern `{0}`; use 1 to 256 printable characters")]
    InvalidPattern(String),
    /// The creator lacks the right `act_as`.
    #[error("your key lacks the right `act_as`, so it cannot act on behalf of `{}`", .0.escape_debug())]
    MissingActAs(String),
    /// A node invitation cannot be delegated or created directly.
    #[error(
        "a node invitation cannot be delegated or created directly; run `toolkeep node invite ID`"
    )]
    Invitation,
    /// The key would outlive its parent key.
    #[error("your own key expires before the new one would; use a shorter lifetime")]
    OutlivesParent,
    /// The name of a toolset is invalid.
    #[error("invalid toolset `{}`; use the name of a toolset", .0.escape_debug())]
    InvalidToolset(String),
    /// A key that is bound to a toolset has no rights.
    #[error("a key that is bound to a toolset has no rights; omit the rights or the toolset")]
    ToolsetRights,
    /// The creator is bound to another toolset.
    #[error("your own key is bound to the toolset `{0}`, so the key cannot have another one")]
    OtherToolset(String),
    /// The requested expiry time is in the past.
    #[error("the expiry time is in the past")]
    AlreadyExpired,
}

impl KeyIssueError {
    /// Returns true if the request is invalid for every caller, not only for this one.
    pub const fn is_malformed(&self) -> bool {
        matches!(
            self,
            Self::InvalidId(_)
                | Self::InvalidText { .. }
                | Self::TooMany { .. }
                | Self::AgentRight(_)
                | Self::InvalidPattern(_)
                | Self::InvalidToolset(_)
                | Self::ToolsetRights
                | Self::AlreadyExpired
        )
    }
}
