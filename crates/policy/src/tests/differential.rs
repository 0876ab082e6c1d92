//! The policy against the model: no difference, and seeded faults that make one.

use std::collections::BTreeMap;

use identity::{KeyDelegation, NewKey, Persona, Principal, RequestRestrictions};
use serde_json::{Map, Value};
use tool::{
    CallArguments, CallerType, Json, Org, PermissionLevel, SafetyLevel, SideEffects, ToolTraits,
    WallTime,
};

use super::model::{C, L, P, Q, R, T, judge};
use super::random::Dice;
use super::{enter, key, patterns};
use crate::effective_policy::InjectedFault;
use crate::{
    DisabledFeatures, EffectivePolicy, FilePosition, LocatedName, Policy, PolicyDecision,
    PolicyDocument, PolicyLayer, PolicyRequest, PolicyRule, RuleEffect, ScopeRule, SessionTaint,
    TimeWindow, TimeWindowSpec, ToolAdmission, ToolFacts, ToolGroup, ToolPattern, ToolPermissions,
    decide_call,
};

/// Midnight, UTC.
const DAY: u64 = 1_795_305_600_000;

fn list(texts: &[String]) -> Vec<ToolPattern> {
    patterns(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn word(text: impl Into<String>) -> LocatedName {
    LocatedName { text: text.into(), position: FilePosition::default() }
}

fn words(texts: &[String]) -> Vec<LocatedName> {
    texts.iter().map(word).collect()
}

fn rule(at: usize, rule: &R) -> PolicyRule {
    let when = rule.when.as_ref().map(|condition| match condition {
        C::Above(least) => word(format!("args.n > {least}")),
        C::Is(text) => word(format!("args.s == '{text}'")),
        C::HasAndIs(text) => word(format!("has(args.s) && args.s == '{text}'")),
        C::Role(role) => word(format!("'{role}' in principal.roles")),
    });
    let hours = rule.hours.map(|(from, to)| format!("{from:02}:00-{to:02}:00"));
    let hours = hours.map(|hours| {
        TimeWindow::parse_window(TimeWindowSpec {
            hours: Some(&hours),
            ..TimeWindowSpec::default()
        })
        .unwrap()
    });
    PolicyRule {
        name: format!("r{at}"),
        effect: if rule.deny { RuleEffect::Deny } else { RuleEffect::RequireApproval },
        tools: rule.tools.as_deref().map(list),
        condition: when,
        time_window: hours,
        examples: Vec::new(),
        position: FilePosition::default(),
    }
}

fn layer(layer: &L) -> PolicyLayer {
    let flat =
        layer.flat.as_ref().map(|(web_access, categories, allowed, forbidden)| ToolPermissions {
            allows_web: *web_access,
            allowed_categories: words(categories),
            allowed_tools: list(allowed),
            forbidden_tools: list(forbidden),
        });
    PolicyLayer {
        safety_limit: layer.limit.map(|limit| SafetyLevel::ALL[usize::from(limit)]),
        categories: layer.categories.as_deref().map(words),
        allow: layer.allow.as_deref().map(list),
        deny: list(&layer.deny),
        is_read_only: layer.read_only,
        denies_network: layer.no_web,
        permissions: flat,
        rules: layer.rules.iter().enumerate().map(|(at, one)| rule(at, one)).collect(),
        position: FilePosition::default(),
    }
}

fn rules(p: &P) -> PolicyDocument {
    let layers = |all: &[(String, L)]| -> BTreeMap<String, PolicyLayer> {
        all.iter().map(|(name, own)| (name.clone(), layer(own))).collect()
    };
    let groups = p.groups.iter().map(|(name, members)| {
        (name.clone(), ToolGroup { members: list(members), position: FilePosition::default() })
    });
    let mut scopes: BTreeMap<_, ScopeRule> = BTreeMap::new();
    for (scope, wants) in &p.scopes {
        scopes.entry(scope.parse().unwrap()).or_default().requires_approval = Some(*wants);
    }
    if let Some(paths) = &p.paths {
        scopes.entry(tool::AccessScope::Filesystem).or_default().allowed_paths =
            Some(paths.clone());
    }
    let mut off = DisabledFeatures::default();
    p.off.iter().for_each(|flag| off.disable_feature(flag).unwrap());
    PolicyDocument {
        global: layer(&p.global),
        orgs: layers(&p.orgs),
        roles: layers(&p.roles),
        default_role: p.default_role.clone().map(word),
        personas: layers(&p.personas),
        task_layers: layers(&p.tasks),
        groups: groups.collect(),
        scopes,
        own_categories: Vec::new(),
        disabled_features: off,
    }
}

pub(super) fn principal(q: &Q) -> Principal {
    let persona = q.persona.as_ref().map(|(name, modules)| Persona {
        name: name.clone(),
        allowed_modules: modules.as_ref().map(|modules| modules.iter().cloned().collect()),
    });
    let lent = q.delegations.iter().map(|(allow, deny, read_only, no_web)| KeyDelegation {
        delegated_by: "k".to_owned(),
        allowed_tools: allow.clone(),
        denied_tools: deny.clone(),
        is_read_only: *read_only,
        denies_network: *no_web,
        is_created_key: false,
    });
    let who = enter(NewKey {
        org: Org::new(&q.org).unwrap(),
        roles: q.roles.clone(),
        persona,
        delegations: lent.collect(),
        ..key(PermissionLevel::ALL[usize::from(q.level)])
    });
    who.with_restrictions(&RequestRestrictions {
        is_read_only: q.read_only,
        denies_network: q.no_web,
        task_type: q.task.clone(),
        ..RequestRestrictions::default()
    })
}

pub(super) fn traits(t: &T) -> ToolTraits {
    let effects = t.effects.as_ref().map_or(SideEffects::Unknown, |effects| {
        SideEffects::Declared(effects.iter().map(|effect| effect_of(effect)).collect())
    });
    let chain = t.chain.then_some(CallerType::Chain);
    ToolTraits {
        min_level: PermissionLevel::ALL[usize::from(t.level)],
        scopes: t.scopes.iter().map(|scope| scope.parse().unwrap()).collect(),
        safety: SafetyLevel::ALL[usize::from(t.safety)],
        categories: t.categories.clone(),
        effects,
        is_destructive: t.destructive,
        allowed_callers: std::iter::once(CallerType::Direct).chain(chain).collect(),
        ..ToolTraits::default()
    }
}

fn effect_of(word: &str) -> tool::SideEffect {
    word.parse().unwrap()
}

fn args(q: &Q) -> CallArguments {
    let number = q.n.map(|n| ("n", n.into()));
    let texts = [("s", &q.s), ("path", &q.path)];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?.into())));
    let all = number.into_iter().chain(texts).map(|(name, value)| (name.to_owned(), value));
    CallArguments::from_json(Json::encode(&all.collect::<Map<String, Value>>())).unwrap()
}

/// What the policy says, and whether the explanation says so too.
fn decided(policy: &Policy, q: &Q, seeded: InjectedFault) -> &'static str {
    let (who, traits, args) = (principal(q), traits(&q.tool), args(q));
    let org = Org::new(&q.tool.org).unwrap();
    let tool = ToolFacts { org: &org, source: &q.tool.source, name: &q.tool.name, traits: &traits };
    let by = if q.chain { CallerType::Chain } else { CallerType::Direct };
    let now = WallTime(DAY + q.hour * 3_600_000 + 60_000);
    let (caller, rights, args) = (who.caller(), who.rights_class(), &args);
    let asking = PolicyRequest {
        caller,
        rights,
        caller_type: by,
        tool,
        arguments: args,
        now,
        taint: SessionTaint::default(),
    };
    let lens = EffectivePolicy::with_injected_fault((policy.compiled(), seeded), rights, by, now);
    let word = match lens.admit_tool(&tool) {
        ToolAdmission::Hidden(_) => "hidden",
        ToolAdmission::Visible(residual) => match decide_call(&residual, &asking) {
            PolicyDecision::Allow(_) => "allow",
            PolicyDecision::RequireApproval(_) => "hold",
            PolicyDecision::Deny(_) => "deny",
        },
    };
    if seeded == InjectedFault::None {
        assert_eq!(policy.explain(&asking).decision, word, "the explanation differs");
    }
    word
}

pub(super) fn count(ordinary: u64, deep: u64) -> u64 {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { deep } else { ordinary }
}

/// Tries random policies, each on so many random requests; what was decided, and how often.
fn compared(seeds: impl Iterator<Item = u64>, requests: u64) -> BTreeMap<&'static str, u64> {
    let mut told = BTreeMap::new();
    for seed in seeds {
        let mut dice = Dice::new(seed + 1);
        let p = dice.policy();
        let policy = Policy::new(rules(&p)).unwrap();
        for _ in 0..requests {
            let q = dice.request();
            let (ours, models) = (decided(&policy, &q, InjectedFault::None), judge(&p, &q));
            assert_eq!(ours, models, "seed {seed}: {p:#?} {q:#?}");
            *told.entry(ours).or_default() += 1;
        }
    }
    told
}

#[test]
fn the_policy_is_the_models_in_every_random_case() {
    // Most of the time goes into reading a policy: in the deep count each is asked ten times.
    let (policies, requests) = (count(20_000, 1_000_000), count(1, 10));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let told = std::thread::scope(|scope| {
        let seeds = |thread| (0..policies).filter(move |seed| seed % threads == thread);
        let run = |thread| scope.spawn(move || compared(seeds(thread), requests));
        let running: Vec<_> = (0..threads).map(run).collect();
        let mut told: BTreeMap<&str, u64> = BTreeMap::new();
        for (word, times) in running.into_iter().flat_map(|thread| thread.join().unwrap()) {
            *told.entry(word).or_default() += times;
        }
        told
    });
    // A model that is never asked anything proves nothing.
    let all: u64 = told.values().sum();
    println!("{all} random requests of {policies} random policies, 0 differences: {told:?}");
    assert_eq!(all, policies * requests);
    for word in ["hidden", "deny", "hold", "allow"] {
        assert!(told[word] > all / 100, "{told:?}");
    }
}

#[test]
fn every_seeded_fault_is_found() {
    use InjectedFault::{
        AllowBeatsDeny, EmptyAllowIsAll, LastDelegationOnly, OtherOrgsAreFree, UnknownRoleIsFree,
    };
    let mut left = vec![
        AllowBeatsDeny,
        EmptyAllowIsAll,
        UnknownRoleIsFree,
        LastDelegationOnly,
        OtherOrgsAreFree,
    ];
    for seed in 0..20_000 {
        let mut dice = Dice::new(seed + 1);
        let (p, q) = (dice.policy(), dice.request());
        let policy = Policy::new(rules(&p)).unwrap();
        left.retain(|fault| decided(&policy, &q, *fault) == judge(&p, &q));
        if left.is_empty() {
            return;
        }
    }
    panic!("not found: {left:?}");
}

fn rank(word: &str) -> usize {
    ["hidden", "deny", "hold", "allow"].iter().position(|known| *known == word).unwrap()
}

#[test]
fn a_further_layer_or_narrowing_never_gives_anything() {
    for seed in 0..count(2_000, 500_000) {
        let mut dice = Dice::new(seed + 1);
        let (p, mut q) = (dice.policy(), dice.request());
        let before = decided(&Policy::new(rules(&p)).unwrap(), &q, InjectedFault::None);
        let further = dice.policy();
        let mut more = p.clone();
        match dice.below(6) {
            0 => more.global.deny.extend(further.global.deny),
            1 => more.global.rules.extend(further.global.rules),
            2 => {
                more.personas
                    .extend(further.personas.into_iter().filter(|_| p.personas.is_empty()));
            }
            3 => more.tasks.extend(further.tasks.into_iter().filter(|_| p.tasks.is_empty())),
            4 => q.delegations.extend(dice.request().delegations),
            _ => (q.read_only, q.no_web) = (true, dice.once_in(2) || q.no_web),
        }
        let after = decided(&Policy::new(rules(&more)).unwrap(), &q, InjectedFault::None);
        assert!(
            rank(after) <= rank(before),
            "seed {seed}: {before} became {after}: {p:#?} {more:#?} {q:#?}"
        );
    }
}

#[test]
fn the_order_within_a_layer_means_nothing() {
    for seed in 0..count(2_000, 500_000) {
        let mut dice = Dice::new(seed + 1);
        let (p, q) = (dice.policy(), dice.request());
        let mut turned = p.clone();
        let layers = [&mut turned.orgs, &mut turned.roles, &mut turned.personas, &mut turned.tasks];
        let named = layers.into_iter().flatten().map(|(_, layer)| layer);
        for layer in std::iter::once(&mut turned.global).chain(named) {
            layer.deny.reverse();
            layer.allow.iter_mut().for_each(|allow| allow.reverse());
            layer.rules.reverse();
        }
        let of = |p: &P| decided(&Policy::new(rules(p)).unwrap(), &q, InjectedFault::None);
        assert_eq!(of(&p), of(&turned), "seed {seed}");
    }
}

#[test]
fn whatever_a_policy_allows_a_deny_takes_away() {
    for seed in 0..count(2_000, 500_000) {
        let mut dice = Dice::new(seed + 1);
        let (mut p, q) = (dice.policy(), dice.request());
        let name = if dice.once_in(2) { q.tool.name.clone() } else { "group:all".to_owned() };
        let mut layers: Vec<&mut L> = vec![&mut p.global];
        let of = |wanted: &[String]| wanted.to_vec();
        let roles = of(&q.roles);
        layers.extend(p.roles.iter_mut().filter(|(role, _)| roles.contains(role)).map(|(_, l)| l));
        let at = dice.below(layers.len());
        layers[at].deny.push(name);
        assert_eq!(
            decided(&Policy::new(rules(&p)).unwrap(), &q, InjectedFault::None),
            "hidden",
            "seed {seed}"
        );
    }
}
