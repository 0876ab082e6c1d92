//! Why a credential does not hold, and why a key cannot be made.

use std::fmt;

use tool::identifier::IdentifierFault;
use tool::{Level, Org};

use crate::Right;

/// A credential that does not hold. What it shows tells a guesser nothing: whether the id exists,
/// has expired or was revoked is only in [`CredentialError::reason`], for the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CredentialError {
    reason: Reason,
}

/// The true reason. For logs; never for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There was none.
    Missing,
    /// It is not written as a key of this program.
    Malformed,
    /// No key has its id.
    UnknownId,
    /// The id is there, the secret is another.
    WrongSecret,
    /// It was good until its time ran out.
    Expired,
    /// It was good until it was taken back.
    Revoked,
    /// Its user or its organisation was disabled.
    Disabled,
    /// The key it was delegated from is not there, or may not delegate so any more.
    Orphaned,
    /// A token of an issuer that is not configured.
    UnknownIssuer,
    /// A token signed in a way that its issuer may not use, or that does not fit its key.
    Algorithm,
    /// A token for somebody else.
    Audience,
    /// A token that is no access token.
    TokenKind,
    /// A token without a user, or of an organisation that is not known.
    Subject,
    /// A token that does not say when it ends.
    NoExpiry,
    /// A token that does not hold yet.
    NotYet,
    /// A token that lives longer than its issuer's may.
    TooLong,
}

impl Reason {
    /// The word, for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::UnknownId => "unknown_id",
            Self::WrongSecret => "wrong_secret",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Disabled => "disabled",
            Self::Orphaned => "orphaned",
            Self::UnknownIssuer => "unknown_issuer",
            Self::Algorithm => "algorithm",
            Self::Audience => "audience",
            Self::TokenKind => "token_kind",
            Self::Subject => "subject",
            Self::NoExpiry => "no_expiry",
            Self::NotYet => "not_yet",
            Self::TooLong => "too_long",
        }
    }
}

impl CredentialError {
    /// With its true reason.
    pub fn new(reason: Reason) -> Self {
        Self { reason }
    }

    /// The true reason, for the log.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            Reason::Missing => "no credential; send `Authorization: Bearer KEY`",
            _ => "the credential is not valid here: unknown, expired or revoked",
        })
    }
}

impl fmt::Debug for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialError({self})")
    }
}

impl std::error::Error for CredentialError {}

/// Why a key cannot be made as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// An id that cannot stand in a key.
    #[error("`{}` is no key id; use 1 to 32 lower-case letters and digits", .0.escape_debug())]
    Id(String),
    /// A text that is empty, too long, or holds what a reader does not see or takes for something else.
    #[error("the {what} {fault}")]
    Text {
        /// Which text.
        what: &'static str,
        /// What is wrong with it.
        fault: IdentifierFault,
    },
    /// A new subject that a reader takes for another one.
    #[error("`{}` looks like the subject `{}`", .asked.escape_debug(), .there.escape_debug())]
    Confusable {
        /// The new one.
        asked: String,
        /// The one that is there.
        there: String,
    },
    /// A key for a subject that exists, by somebody who may not act for it.
    #[error(
        "the subject `{}` exists already; a key for it needs the right `act_as` or an owner's key",
        .0.escape_debug()
    )]
    Foreign(String),
    /// A delegated key for a subject that has keys and is no user.
    #[error("there is no user `{}` to act for", .0.escape_debug())]
    NoUser(String),
    /// Level `owner`, by a key that is not an owner's own.
    #[error("only an owner's own key creates a key of the level `owner`")]
    Owner,
    /// What a delegated key never does.
    #[error("a delegated key cannot {0}; use the key that it was delegated from")]
    Delegated(&'static str),
    /// A list that is too long.
    #[error("{found} {what} are too many; {limit} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many may be.
        limit: usize,
    },
    /// A right that an agent's key never has.
    #[error("a key marked `agent` cannot carry the right `{0}`; make a key for a person")]
    AgentRight(Right),
    /// More than its maker has himself.
    #[error("your own level is `{own}`, so the key's cannot be `{asked}`")]
    Level {
        /// The maker's.
        own: Level,
        /// The one asked for.
        asked: Level,
    },
    /// Of another organisation than its maker.
    #[error("your key belongs to the organisation `{own}`, not to `{asked}`")]
    Org {
        /// The maker's.
        own: Org,
        /// The one asked for.
        asked: Org,
    },
    /// A right its maker does not have.
    #[error("your own key lacks the right `{0}`, so it cannot give it")]
    Right(Right),
    /// A role its maker does not have.
    #[error("your own key lacks the role `{0}`, so it cannot give it")]
    Role(String),
    /// Modules its maker's persona does not allow.
    #[error("your persona does not allow the module `{0}`, so your key cannot give it")]
    Module(String),
    /// No list of modules, where its maker's persona has one.
    #[error("your own persona is limited to some modules; name those that the key may use")]
    Unlimited,
    /// A person's key, made by an agent.
    #[error("an agent cannot make a key for a person; mark the key as `agent`")]
    Person,
    /// A key that went through too many hands.
    #[error("the key went through {0} hands already; a key may go through no more")]
    Hands(usize),
    /// A list of patterns, too long or with a text that does not fit.
    #[error("`{0}` cannot be a pattern of tools; use 1 to 256 printable characters")]
    Pattern(String),
    /// Acting on behalf of another, without the right.
    #[error("your key lacks the right `act_as`, so it cannot act on behalf of `{}`", .0.escape_debug())]
    ActAs(String),
    /// An invitation of a node, made of another key or by hand.
    #[error(
        "an invitation of a node cannot be handed on or made by hand; use `toolkeep node invite ID`"
    )]
    Invitation,
    /// It would end after the key it is delegated from.
    #[error("your own key ends before the one it would make; ask for less time")]
    Outlives,
    /// It would expire before it is made.
    #[error("the key would have expired already")]
    Expired,
}

impl KeyFault {
    /// Whether the key is refused whoever asks for it, rather than for what its maker lacks.
    pub const fn is_malformed(&self) -> bool {
        matches!(
            self,
            Self::Id(_)
                | Self::Text { .. }
                | Self::TooMany { .. }
                | Self::AgentRight(_)
                | Self::Pattern(_)
                | Self::Expired
        )
    }
}
