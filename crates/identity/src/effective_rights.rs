//! The effective rights of a key, from its record, its delegation chain and the directory.

use std::collections::BTreeSet;

use tool::{Actor, PermissionLevel, WallTime};

use crate::api_key::KeyRecord;
use crate::credential_errors::CredentialErrorKind;
use crate::rights_class::{RightsAttributes, RightsClass};
use crate::{Directory, Persona, RequestRestrictions, Right};

/// Maximum length of a delegation chain.
pub(crate) const MAX_DELEGATION_DEPTH: usize = 8;

/// Effective rights of a key at one moment.
#[derive(Debug, Clone)]
pub(crate) struct EffectiveRights {
    pub(crate) attributes: RightsAttributes,
    pub(crate) actors: Vec<Actor>,
    /// Reason if the key is invalid.
    pub(crate) invalid_reason: Option<CredentialErrorKind>,
    /// Time at which the key expires.
    pub(crate) expires_at: Option<WallTime>,
}

/// Looks up key records by id.
pub(crate) trait RecordsById {
    fn find_record(&self, id: &str) -> Option<&KeyRecord>;
}

/// Computes the effective rights of `record`. Every delegation counts: a restriction of the first
/// applies to the last.
pub(crate) fn resolve_rights(
    record: &KeyRecord,
    records: &dyn RecordsById,
    directory: &Directory,
) -> EffectiveRights {
    let own = own_rights(record, directory);
    let Some(hand) = record.delegations.last() else { return own };
    let before = record.delegations.len() - 1;
    // The parent's chain is this chain without its last link, so that recursion ends.
    let parent = records.find_record(&hand.delegated_by).filter(|parent| {
        before < MAX_DELEGATION_DEPTH
            && record.delegations.get(..before) == Some(parent.delegations.as_slice())
    });
    let Some(parent) = parent else {
        return EffectiveRights {
            invalid_reason: Some(CredentialErrorKind::InvalidDelegation),
            ..own
        };
    };
    let above = resolve_rights(parent, records, directory);
    if parent.subject == record.subject || hand.is_created_key {
        return intersect_rights(own, above);
    }
    intersect_on_behalf((record, own), (parent, above), directory)
}

/// Computes the rights from its own record alone.
fn own_rights(record: &KeyRecord, directory: &Directory) -> EffectiveRights {
    // A created key has its own persona and roles, whoever created it.
    let created = record.delegations.last().is_none_or(|hand| hand.is_created_key);
    let persona = if created { directory.personas.for_key(record) } else { record.persona.clone() };
    let given = if created { directory.role_rights(&record.roles) } else { BTreeSet::new() };
    let barred_by_role = directory.has_unusable_role(&record.roles);
    let level = if barred_by_role { PermissionLevel::Guest } else { record.level };
    let has_rights = !barred_by_role && record.toolset.is_none();
    let rights = record.rights.union(&given).copied().filter(|_| has_rights);
    let toolsets = record.toolset.iter().cloned().collect();
    let ended = if record.revoked_at.is_some() {
        Some(CredentialErrorKind::Revoked)
    } else {
        directory.is_disabled(&record.org, &record.subject).then_some(CredentialErrorKind::Disabled)
    };
    let facts = RightsAttributes {
        org: record.org.clone(),
        level: directory.cap_level(&record.roles, level),
        roles: record.roles.clone(),
        persona: deny_all_if_role_revoked(persona, &record.roles, directory),
        inherited_personas: BTreeSet::new(),
        is_agent: record.is_agent,
        rights: rights.collect(),
        delegations: record.delegations.clone(),
        restrictions: RequestRestrictions { toolsets, ..RequestRestrictions::default() },
        actor: None,
        org_tools: directory.org_tools(&record.org).cloned(),
    };
    EffectiveRights {
        attributes: facts,
        actors: Vec::new(),
        invalid_reason: ended,
        expires_at: record.expires_at,
    }
}

/// Removes all modules from a key with a revoked role.
pub(crate) fn deny_all_if_role_revoked(
    persona: Option<Persona>,
    roles: &[String],
    directory: &Directory,
) -> Option<Persona> {
    if !directory.has_unusable_role(roles) {
        return persona;
    }
    let name = persona.map_or_else(|| "revoked_role".to_owned(), |persona| persona.name);
    Some(Persona { name, allowed_modules: Some(BTreeSet::new()) })
}

/// Intersects the rights of two keys of one user.
fn intersect_rights(own: EffectiveRights, above: EffectiveRights) -> EffectiveRights {
    let mut facts = own.attributes;
    let same_org = facts.org == above.attributes.org;
    facts.level = facts.level.min(above.attributes.level);
    facts.is_agent |= above.attributes.is_agent;
    facts.rights = facts.rights.intersection(&above.attributes.rights).copied().collect();
    facts.inherited_personas.extend(above.attributes.inherited_personas);
    facts.restrict_persona(above.attributes.persona);
    // Further roles never grant more: policy requires all of them to allow.
    facts.roles.extend(above.attributes.roles);
    facts.restrictions = facts.restrictions.union(&above.attributes.restrictions);
    facts.actor = above.attributes.actor;
    let until = own.expires_at.into_iter().chain(above.expires_at).min();
    let ended = own
        .invalid_reason
        .or(above.invalid_reason)
        .or((!same_org).then_some(CredentialErrorKind::InvalidDelegation));
    EffectiveRights {
        attributes: facts,
        actors: above.actors,
        invalid_reason: ended,
        expires_at: until,
    }
}

/// Intersects the rights of the represented user and of the actor, who must still have the right to
/// act.
fn intersect_on_behalf(
    (record, own): (&KeyRecord, EffectiveRights),
    (parent, above): (&KeyRecord, EffectiveRights),
    directory: &Directory,
) -> EffectiveRights {
    let may = above.attributes.rights.contains(&Right::ActAs);
    let user = directory.find_user(&record.org, &record.subject).filter(|_| may);
    let class = RightsClass::new(above.attributes.clone());
    let mut chain = vec![Actor { subject: parent.subject.clone(), key_id: parent.id.to_string() }];
    chain.extend(above.actors.iter().cloned());
    let mut both_of = intersect_rights(own, above);
    both_of.actors = chain;
    let Some(user) = user else {
        both_of.invalid_reason =
            both_of.invalid_reason.or(Some(CredentialErrorKind::InvalidDelegation));
        return both_of;
    };
    let facts = &mut both_of.attributes;
    facts.level = directory.cap_level(&user.roles, facts.level.min(user.level));
    facts.rights = BTreeSet::new();
    let named = match &user.persona {
        Some(name) => Some(directory.personas.get_or_deny_all(name)),
        None => directory.personas.default_for_level(user.level),
    };
    let theirs = deny_all_if_role_revoked(named, &user.roles, directory);
    facts.restrict_persona(theirs);
    facts.roles.extend(user.roles.iter().cloned());
    facts.actor = Some(class);
    both_of
}

impl RightsAttributes {
    /// Intersects with another persona, and applies the layers of both.
    fn restrict_persona(&mut self, first: Option<Persona>) {
        let own = self.persona.take();
        self.inherited_personas.extend(own.iter().map(|persona| persona.name.clone()));
        self.persona = intersect_personas(first, own);
    }
}

/// Intersects two personas under the name of the first.
fn intersect_personas(first: Option<Persona>, second: Option<Persona>) -> Option<Persona> {
    let (Some(first), Some(second)) = (&first, &second) else { return first.or(second) };
    let allowed_modules = match (&first.allowed_modules, &second.allowed_modules) {
        (Some(a), Some(b)) => Some(a.intersection(b).cloned().collect()),
        (one, other) => one.as_ref().or(other.as_ref()).cloned(),
    };
    Some(Persona { name: first.name.clone(), allowed_modules })
}
