//! The policy against the model: no difference, and seeded faults that make one.

use std::collections::BTreeMap;

use identity::{Delegation, Narrowing, NewKey, Persona, Principal};
use serde_json::{Map, Value};
use tool::{Args, CallerType, Effects, Json, Level, Org, Safety, Traits, Wall};

use super::model::{C, L, P, Q, R, T, judge};
use super::random::Dice;
use super::{enter, key, patterns};
use crate::lens::Seeded;
use crate::{
    Admission, Asking, At, Decision, Effect, Facts, Group, Hours, HoursText, Layer, Lens, Off,
    Pattern, Permissions, Policy, Rule, Rules, ScopeRule, Taint, Word, decide,
};

/// Midnight, UTC.
const DAY: u64 = 1_795_305_600_000;

fn list(texts: &[String]) -> Vec<Pattern> {
    patterns(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn word(text: impl Into<String>) -> Word {
    Word { text: text.into(), at: At::default() }
}

fn words(texts: &[String]) -> Vec<Word> {
    texts.iter().map(word).collect()
}

fn rule(at: usize, rule: &R) -> Rule {
    let when = rule.when.as_ref().map(|condition| match condition {
        C::Above(least) => word(format!("args.n > {least}")),
        C::Is(text) => word(format!("args.s == '{text}'")),
        C::HasAndIs(text) => word(format!("has(args.s) && args.s == '{text}'")),
        C::Role(role) => word(format!("'{role}' in principal.roles")),
    });
    let hours = rule.hours.map(|(from, to)| format!("{from:02}:00-{to:02}:00"));
    let hours = hours.map(|hours| {
        Hours::read(HoursText { hours: Some(&hours), ..HoursText::default() }).unwrap()
    });
    Rule {
        name: format!("r{at}"),
        effect: if rule.deny { Effect::Deny } else { Effect::Hold },
        tools: rule.tools.as_deref().map(list),
        when,
        time: hours,
        examples: Vec::new(),
        at: At::default(),
    }
}

fn layer(layer: &L) -> Layer {
    let flat =
        layer.flat.as_ref().map(|(web_access, categories, allowed, forbidden)| Permissions {
            web_access: *web_access,
            allowed_categories: words(categories),
            allowed_tools: list(allowed),
            forbidden_tools: list(forbidden),
        });
    Layer {
        safety_limit: layer.limit.map(|limit| Safety::ALL[usize::from(limit)]),
        categories: layer.categories.as_deref().map(words),
        allow: layer.allow.as_deref().map(list),
        deny: list(&layer.deny),
        read_only: layer.read_only,
        no_web: layer.no_web,
        permissions: flat,
        rules: layer.rules.iter().enumerate().map(|(at, one)| rule(at, one)).collect(),
        at: At::default(),
    }
}

fn rules(p: &P) -> Rules {
    let layers = |all: &[(String, L)]| -> BTreeMap<String, Layer> {
        all.iter().map(|(name, own)| (name.clone(), layer(own))).collect()
    };
    let groups = p
        .groups
        .iter()
        .map(|(name, members)| (name.clone(), Group { members: list(members), at: At::default() }));
    let mut scopes: BTreeMap<_, ScopeRule> = BTreeMap::new();
    for (scope, wants) in &p.scopes {
        scopes.entry(scope.parse().unwrap()).or_default().requires_approval = Some(*wants);
    }
    if let Some(paths) = &p.paths {
        scopes.entry(tool::Scope::Filesystem).or_default().allowed_paths = Some(paths.clone());
    }
    let mut off = Off::default();
    p.off.iter().for_each(|flag| off.switch_off(flag).unwrap());
    Rules {
        global: layer(&p.global),
        orgs: layers(&p.orgs),
        roles: layers(&p.roles),
        default_role: p.default_role.clone().map(word),
        personas: layers(&p.personas),
        tasks: layers(&p.tasks),
        groups: groups.collect(),
        scopes,
        own_categories: Vec::new(),
        off,
    }
}

fn principal(q: &Q) -> Principal {
    let persona = q.persona.as_ref().map(|(name, modules)| Persona {
        name: name.clone(),
        allowed_modules: modules.as_ref().map(|modules| modules.iter().cloned().collect()),
    });
    let lent = q.delegations.iter().map(|(allow, deny, read_only, no_web)| Delegation {
        by: "k".to_owned(),
        allow: allow.clone(),
        deny: deny.clone(),
        read_only: *read_only,
        no_web: *no_web,
        created: false,
    });
    let who = enter(NewKey {
        org: Org::new(&q.org).unwrap(),
        roles: q.roles.clone(),
        persona,
        delegations: lent.collect(),
        ..key(Level::ALL[usize::from(q.level)])
    });
    who.narrowed(&Narrowing { read_only: q.read_only, no_web: q.no_web, task_type: q.task.clone() })
}

fn traits(t: &T) -> Traits {
    let effects = t.effects.as_ref().map_or(Effects::Unknown, |effects| {
        Effects::Declared(effects.iter().map(|effect| effect_of(effect)).collect())
    });
    let chain = t.chain.then_some(CallerType::Chain);
    Traits {
        level: Level::ALL[usize::from(t.level)],
        scopes: t.scopes.iter().map(|scope| scope.parse().unwrap()).collect(),
        safety: Safety::ALL[usize::from(t.safety)],
        categories: t.categories.clone(),
        effects,
        destructive: t.destructive,
        callers: std::iter::once(CallerType::Direct).chain(chain).collect(),
        ..Traits::default()
    }
}

fn effect_of(word: &str) -> tool::Effect {
    word.parse().unwrap()
}

fn args(q: &Q) -> Args {
    let number = q.n.map(|n| ("n", n.into()));
    let texts = [("s", &q.s), ("path", &q.path)];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?.into())));
    let all = number.into_iter().chain(texts).map(|(name, value)| (name.to_owned(), value));
    Args::from_json(Json::of(&all.collect::<Map<String, Value>>())).unwrap()
}

/// What the policy says, and whether the explanation says so too.
fn decided(policy: &Policy, q: &Q, seeded: Seeded) -> &'static str {
    let (who, traits, args) = (principal(q), traits(&q.tool), args(q));
    let org = Org::new(&q.tool.org).unwrap();
    let tool = Facts { org: &org, source: &q.tool.source, name: &q.tool.name, traits: &traits };
    let by = if q.chain { CallerType::Chain } else { CallerType::Direct };
    let now = Wall(DAY + q.hour * 3_600_000 + 60_000);
    let (caller, rights, args) = (who.caller(), who.rights(), &args);
    let asking = Asking { caller, rights, by, tool, args, now, taint: Taint::default() };
    let lens = Lens::seeded((policy.parts(), seeded), rights, by, now);
    let word = match lens.admit(&tool) {
        Admission::Hidden(_) => "hidden",
        Admission::Visible(residual) => match decide(&residual, &asking) {
            Decision::Allow(_) => "allow",
            Decision::Hold(_) => "hold",
            Decision::Deny(_) => "deny",
        },
    };
    if seeded == Seeded::None {
        assert_eq!(policy.explain(&asking).decision, word, "the explanation differs");
    }
    word
}

fn count(ordinary: u64, deep: u64) -> u64 {
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
            let (ours, models) = (decided(&policy, &q, Seeded::None), judge(&p, &q));
            assert_eq!(ours, models, "seed {seed}: {p:#?} {q:#?}");
            *told.entry(ours).or_default() += 1;
        }
    }
    told
}

#[test]
fn the_policy_is_the_models_in_every_random_case() {
    // Most of the time goes into reading a policy: in the deep count each is asked ten times.
    let (policies, requests) = (count(100_000, 1_000_000), count(1, 10));
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
    use Seeded::{
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
    for seed in 0..count(5_000, 500_000) {
        let mut dice = Dice::new(seed + 1);
        let (p, mut q) = (dice.policy(), dice.request());
        let before = decided(&Policy::new(rules(&p)).unwrap(), &q, Seeded::None);
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
        let after = decided(&Policy::new(rules(&more)).unwrap(), &q, Seeded::None);
        assert!(
            rank(after) <= rank(before),
            "seed {seed}: {before} became {after}: {p:#?} {more:#?} {q:#?}"
        );
    }
}

#[test]
fn the_order_within_a_layer_means_nothing() {
    for seed in 0..count(5_000, 500_000) {
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
        let of = |p: &P| decided(&Policy::new(rules(p)).unwrap(), &q, Seeded::None);
        assert_eq!(of(&p), of(&turned), "seed {seed}");
    }
}

#[test]
fn whatever_a_policy_allows_a_deny_takes_away() {
    for seed in 0..count(5_000, 500_000) {
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
            decided(&Policy::new(rules(&p)).unwrap(), &q, Seeded::None),
            "hidden",
            "seed {seed}"
        );
    }
}
