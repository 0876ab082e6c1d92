//! Delegated keys: a narrower key for one's own work or on behalf of another user.

use std::collections::BTreeSet;

use tool::{Level, Wall};

use super::{KeyId, KeyRecord, NewKey, count, line};
use crate::standing::HANDS;
use crate::{Delegation, KeyFault, Persona, Principal, Right};

/// Maximum number of patterns of one list.
const PATTERNS: usize = 1_000;
/// Default lifetime of a delegated key: a day, in milliseconds.
const LIFE: u64 = 24 * 60 * 60 * 1_000;

/// Request for a delegated key. An omitted field keeps the value of the parent key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hand {
    /// Permission level, if a lower one.
    pub level: Option<Level>,
    /// Rights that remain; none if omitted.
    pub rights: BTreeSet<Right>,
    /// Sources that remain allowed.
    pub modules: Option<BTreeSet<String>>,
    /// Patterns and groups of the tools that remain allowed; an empty list allows none.
    pub allow: Option<Vec<String>>,
    /// Patterns and groups of the tools that are denied.
    pub deny: Vec<String>,
    /// True if tools with effects are denied.
    pub read_only: bool,
    /// True if tools that use the network are denied.
    pub no_web: bool,
    /// User to act for, if it is another. Needs the right [`Right::ActAs`].
    pub subject: Option<String>,
    /// True if a person will hold the key rather than an agent.
    pub person: bool,
    /// Label of the key for people.
    pub label: String,
    /// Time of expiry; the default is a day from now, and never after the parent key.
    pub expires: Option<Wall>,
}

impl NewKey {
    /// Requests a key delegated by `maker`, whose record is `own`: never broader than itself.
    ///
    /// # Errors
    /// [`KeyFault`] with the first missing grant or invalid value.
    pub fn delegated(
        id: KeyId,
        (own, maker): (&KeyRecord, &Principal),
        hand: Hand,
        now: Wall,
    ) -> Result<Self, KeyFault> {
        if own.is_invitation() || hand.rights.contains(&Right::NodesJoin) {
            return Err(KeyFault::Invitation);
        }
        if own.delegations.len() >= HANDS {
            return Err(KeyFault::Hands(own.delegations.len()));
        }
        let subject = hand.subject.unwrap_or_else(|| own.subject.clone());
        if subject != own.subject && !maker.may(Right::ActAs) {
            return Err(KeyFault::ActAs(subject));
        }
        let level = hand.level.unwrap_or(maker.level());
        if level > maker.level() {
            return Err(KeyFault::Level { own: maker.level(), asked: level });
        }
        if maker.agent() && hand.person {
            return Err(KeyFault::Person);
        }
        if let Some(right) = hand.rights.iter().find(|right| !maker.may(**right)) {
            return Err(KeyFault::Right(*right));
        }
        let limited = maker.persona().and_then(|persona| persona.allowed_modules.as_ref());
        if let (Some(own), Some(asked)) = (limited, &hand.modules)
            && let Some(module) = asked.difference(own).next()
        {
            return Err(KeyFault::Module(module.clone()));
        }
        let expires = ends(maker.until(), hand.expires, now)?;
        let hand_of = Delegation {
            by: own.id.to_string(),
            allow: hand.allow.map(patterns).transpose()?,
            deny: patterns(hand.deny)?,
            read_only: hand.read_only,
            no_web: hand.no_web,
            created: false,
        };
        let delegations = own.delegations.iter().cloned().chain([hand_of]).collect();
        let persona =
            hand.modules.map(|all| Persona { name: "key".to_owned(), allowed_modules: Some(all) });
        Ok(Self {
            org: own.org.clone(),
            level,
            level_fixed: level < own.level,
            roles: own.roles.clone(),
            persona,
            rights: hand.rights,
            delegations,
            agent: !hand.person,
            creator: Some(maker.subject().to_owned()),
            label: hand.label,
            expires: Some(expires),
            ..Self::user(id, subject)
        })
    }
}

fn ends(own: Option<Wall>, asked: Option<Wall>, now: Wall) -> Result<Wall, KeyFault> {
    let day = Wall(now.0.saturating_add(LIFE));
    match (asked, own) {
        (Some(asked), Some(own)) if asked > own => Err(KeyFault::Outlives),
        (Some(asked), _) => Ok(asked),
        (None, own) => Ok(own.map_or(day, |own| own.min(day))),
    }
}

fn patterns(all: Vec<String>) -> Result<Vec<String>, KeyFault> {
    count("patterns", all.len(), PATTERNS)?;
    let unfit = |pattern: &&String| line("pattern", pattern).is_err();
    match all.iter().find(unfit) {
        Some(pattern) => Err(KeyFault::Pattern(pattern.escape_debug().take(64).collect())),
        None => Ok(all),
    }
}
