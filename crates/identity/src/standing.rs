//! The effective rights of a key, from its record, its delegation chain and the directory.

use std::collections::BTreeSet;

use tool::{Actor, Level, Wall};

use crate::error::Reason;
use crate::key::KeyRecord;
use crate::rights::{Facts, RightsClass};
use crate::{Directory, Narrowing, Persona, Right};

/// Maximum length of a delegation chain.
pub(crate) const HANDS: usize = 8;

/// Effective rights of a key at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub(crate) facts: Facts,
    pub(crate) actors: Vec<Actor>,
    /// Reason if the key is invalid.
    pub(crate) ended: Option<Reason>,
    /// Time at which the key expires.
    pub(crate) until: Option<Wall>,
}

/// Looks up key records by id.
pub(crate) trait Records {
    fn get(&self, id: &str) -> Option<&KeyRecord>;
}

/// Computes the effective rights of `record`. Every delegation counts: a restriction of the first
/// applies to the last.
pub(crate) fn of(record: &KeyRecord, all: &dyn Records, directory: &Directory) -> Standing {
    let own = first(record, directory);
    let Some(hand) = record.delegations.last() else { return own };
    let before = record.delegations.len() - 1;
    // The parent's chain is this chain without its last link, so that recursion ends.
    let parent = all.get(&hand.by).filter(|parent| {
        before < HANDS && record.delegations.get(..before) == Some(parent.delegations.as_slice())
    });
    let Some(parent) = parent else { return Standing { ended: Some(Reason::Orphaned), ..own } };
    let above = of(parent, all, directory);
    if parent.subject == record.subject || hand.created {
        return below(own, above);
    }
    on_behalf((record, own), (parent, above), directory)
}

/// Computes the rights from its own record alone.
fn first(record: &KeyRecord, directory: &Directory) -> Standing {
    // A created key has its own persona and roles, whoever created it.
    let created = record.delegations.last().is_none_or(|hand| hand.created);
    let persona = if created { directory.personas.of(record) } else { record.persona.clone() };
    let given = if created { directory.rights_of(&record.roles) } else { BTreeSet::new() };
    let barred_by_role = directory.bars(&record.roles);
    let level = if barred_by_role { Level::Guest } else { record.level };
    let rights = record.rights.union(&given).copied().filter(|_| !barred_by_role);
    let ended = if record.revoked.is_some() {
        Some(Reason::Revoked)
    } else {
        directory.disables(&record.org, &record.subject).then_some(Reason::Disabled)
    };
    let facts = Facts {
        org: record.org.clone(),
        level: directory.capped(&record.roles, level),
        roles: record.roles.clone(),
        persona: barred(persona, &record.roles, directory),
        faces: BTreeSet::new(),
        agent: record.agent,
        rights: rights.collect(),
        delegations: record.delegations.clone(),
        narrowing: Narrowing::default(),
        actor: None,
        org_tools: directory.org_tools(&record.org).cloned(),
    };
    Standing { facts, actors: Vec::new(), ended, until: record.expires }
}

/// Removes all modules from a key with a revoked role.
pub(crate) fn barred(
    persona: Option<Persona>,
    roles: &[String],
    directory: &Directory,
) -> Option<Persona> {
    if !directory.bars(roles) {
        return persona;
    }
    let name = persona.map_or_else(|| "revoked_role".to_owned(), |persona| persona.name);
    Some(Persona { name, allowed_modules: Some(BTreeSet::new()) })
}

/// Intersects the rights of two keys of one user.
fn below(own: Standing, above: Standing) -> Standing {
    let mut facts = own.facts;
    let same_org = facts.org == above.facts.org;
    facts.level = facts.level.min(above.facts.level);
    facts.agent |= above.facts.agent;
    facts.rights = facts.rights.intersection(&above.facts.rights).copied().collect();
    facts.faces.extend(above.facts.faces);
    facts.meet(above.facts.persona);
    // Further roles never grant more: policy requires all of them to allow.
    facts.roles.extend(above.facts.roles);
    facts.actor = above.facts.actor;
    let until = own.until.into_iter().chain(above.until).min();
    let ended = own.ended.or(above.ended).or((!same_org).then_some(Reason::Orphaned));
    Standing { facts, actors: above.actors, ended, until }
}

/// Intersects the rights of the represented user and of the actor, who must still have the right to
/// act.
fn on_behalf(
    (record, own): (&KeyRecord, Standing),
    (parent, above): (&KeyRecord, Standing),
    directory: &Directory,
) -> Standing {
    let may = above.facts.rights.contains(&Right::ActAs);
    let user = directory.user(&record.org, &record.subject).filter(|_| may);
    let class = RightsClass::new(above.facts.clone());
    let mut chain = vec![Actor { subject: parent.subject.clone(), key: parent.id.to_string() }];
    chain.extend(above.actors.iter().cloned());
    let mut both_of = below(own, above);
    both_of.actors = chain;
    let Some(user) = user else {
        both_of.ended = both_of.ended.or(Some(Reason::Orphaned));
        return both_of;
    };
    let facts = &mut both_of.facts;
    facts.level = directory.capped(&user.roles, facts.level.min(user.level));
    facts.rights = BTreeSet::new();
    let named = match &user.persona {
        Some(name) => Some(directory.personas.named(name)),
        None => directory.personas.of_none(user.level),
    };
    let theirs = barred(named, &user.roles, directory);
    facts.meet(theirs);
    facts.roles.extend(user.roles.iter().cloned());
    facts.actor = Some(class);
    both_of
}

impl Facts {
    /// Intersects with another persona, and applies the layers of both.
    fn meet(&mut self, first: Option<Persona>) {
        let own = self.persona.take();
        self.faces.extend(own.iter().map(|persona| persona.name.clone()));
        self.persona = both(first, own);
    }
}

/// Intersects two personas under the name of the first.
fn both(first: Option<Persona>, second: Option<Persona>) -> Option<Persona> {
    let (Some(first), Some(second)) = (&first, &second) else { return first.or(second) };
    let allowed_modules = match (&first.allowed_modules, &second.allowed_modules) {
        (Some(a), Some(b)) => Some(a.intersection(b).cloned().collect()),
        (one, other) => one.as_ref().or(other.as_ref()).cloned(),
    };
    Some(Persona { name: first.name.clone(), allowed_modules })
}
