//! Handing a key on: a narrower key, for one's own work or on behalf of another user.

use std::collections::BTreeSet;

use tool::{Level, Wall};

use super::{KeyId, KeyRecord, NewKey, count, line};
use crate::standing::HANDS;
use crate::{Delegation, KeyFault, Persona, Principal, Right};

/// The most patterns of one list.
const PATTERNS: usize = 1_000;
/// How long a handed-on key lives where nothing is said: a day, in milliseconds.
const LIFE: u64 = 24 * 60 * 60 * 1_000;

/// What a key is handed on with. Everything left out stays as its maker has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hand {
    /// A lower level.
    pub level: Option<Level>,
    /// The rights that stay; none where left out.
    pub rights: BTreeSet<Right>,
    /// The sources that stay.
    pub modules: Option<BTreeSet<String>>,
    /// Patterns and groups of the tools that stay; an empty list leaves none.
    pub allow: Option<Vec<String>>,
    /// Patterns and groups of the tools that are taken away.
    pub deny: Vec<String>,
    /// Whether tools with effects are taken away.
    pub read_only: bool,
    /// Whether tools that reach the network are taken away.
    pub no_web: bool,
    /// The user to act for, where it is another. Needs the right [`Right::ActAs`].
    pub subject: Option<String>,
    /// Whether a person will hold it, rather than an agent.
    pub person: bool,
    /// A line for people.
    pub label: String,
    /// When it ends; a day from now where left out, and never after its maker's.
    pub expires: Option<Wall>,
}

impl NewKey {
    /// A key that `maker`, whose record is `own`, hands on: never wider than itself.
    ///
    /// # Errors
    /// [`KeyFault`] with the first thing that the maker lacks, or that does not fit.
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
