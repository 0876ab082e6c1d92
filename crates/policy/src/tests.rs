//! What the tests share, and the tests of the first words; those with many cases are beside.

mod approval_table;
mod differential;
mod model;
mod random;
mod spec;

use std::collections::BTreeSet;

use identity::{KeyId, KeyRing, NewKey, Persona, Principal};
use serde_json::{Value, json};
use tool::{Args, CallerType, Json, Level, Org, Safety, Scope, Traits, Wall};

use super::{
    Admission, Asking, Decision, Effect, Example, Explanation, Facts, Group, Hours, HoursText,
    Layer, Off, Pattern, Policy, Reason, Rule, Rules, ScopeRule, Slip, Taint, Word, decide, diff,
};

pub(crate) const NOW: Wall = Wall(1_795_000_000_000);

pub(crate) fn key(level: Level) -> NewKey {
    NewKey { level, ..NewKey::user(KeyId::random([1; 6]), "ann") }
}

/// With the keys it was delegated from, each with what the one after it has not lost.
pub(crate) fn enter(mut key: NewKey) -> Principal {
    let mut records = Vec::new();
    for hand in 0..key.delegations.len() {
        let id = KeyId::new(format!("p{hand}")).unwrap();
        let delegations = key.delegations[..hand].to_vec();
        key.delegations[hand].by = id.to_string();
        let above = NewKey { id, delegations, ..key.clone() };
        records.push(above.issue([9; 32], Wall(0)).unwrap().1);
    }
    let (secret, record) = key.issue([7; 32], Wall(0)).unwrap();
    records.push(record);
    KeyRing::new(records).verify(Some(secret.open()), Wall(1)).unwrap()
}

fn principal(level: Level, modules: Option<&[&str]>) -> Principal {
    let persona = modules.map(|modules| Persona {
        name: "p".to_owned(),
        allowed_modules: Some(modules.iter().map(|m| (*m).to_owned()).collect::<BTreeSet<_>>()),
    });
    enter(NewKey { persona, ..key(level) })
}

fn with_roles(roles: &[&str]) -> Principal {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    enter(NewKey { roles, ..key(Level::User) })
}

fn traits(level: Level) -> Traits {
    Traits { level, ..Traits::default() }
}

fn admit(policy: &Policy, who: &Principal, source: &str, name: &str, traits: &Traits) -> Admission {
    let org = Org::default();
    let facts = Facts { org: &org, source, name, traits };
    policy.lens(who.rights(), CallerType::Direct, NOW).admit(&facts)
}

fn hidden(admission: &Admission) -> Option<Reason> {
    match admission {
        Admission::Hidden(reason) => Some(*reason),
        Admission::Visible(_) => None,
    }
}

/// The same, explained.
fn explained(
    policy: &Policy,
    who: &Principal,
    (name, traits): (&str, &Traits),
    args: &Value,
) -> crate::Explanation {
    let org = Org::default();
    let args = &Args::from_json(Json::of(args)).unwrap();
    policy.explain(&Asking {
        caller: who.caller(),
        rights: who.rights(),
        by: CallerType::Direct,
        tool: Facts { org: &org, source: "s", name, traits },
        args,
        now: NOW,
        taint: Taint::default(),
    })
}

/// What becomes of a call.
fn called(
    policy: &Policy,
    who: &Principal,
    (name, traits): (&str, &Traits),
    args: &Value,
) -> Decision {
    let org = Org::default();
    let tool = Facts { org: &org, source: "s", name, traits };
    let args = &Args::from_json(Json::of(args)).unwrap();
    let asking = Asking {
        caller: who.caller(),
        rights: who.rights(),
        by: CallerType::Direct,
        tool,
        args,
        now: NOW,
        taint: Taint::default(),
    };
    let decision = match policy.lens(who.rights(), CallerType::Direct, NOW).admit(&tool) {
        Admission::Visible(residual) => decide(&residual, &asking),
        Admission::Hidden(reason) => panic!("hidden: {reason}"),
    };
    let told = policy.explain(&asking);
    let (word, reason) = match decision {
        Decision::Allow(reason) => ("allow", reason),
        Decision::Hold(reason) => ("hold", reason),
        Decision::Deny(reason) => ("deny", reason),
    };
    assert_eq!((told.decision, told.reason), (word, reason));
    decision
}

pub(crate) fn patterns(list: &[&str]) -> Vec<Pattern> {
    list.iter().map(|text| Pattern::new(*text).unwrap()).collect()
}

fn policy(global: Layer) -> Policy {
    Policy::new(Rules { global, ..Rules::default() }).unwrap()
}

fn rule(effect: Effect, when: Option<&str>) -> Rule {
    let when = when.map(|text| Word { text: text.to_owned(), at: crate::At::default() });
    let (tools, time, examples) = (None, None, Vec::new());
    Rule { name: "r".to_owned(), effect, tools, when, time, examples, at: crate::At::default() }
}

fn ruled(rules: Vec<Rule>) -> Result<Policy, Vec<Slip>> {
    Policy::new(Rules { global: Layer { rules, ..Layer::default() }, ..Rules::default() })
}

#[test]
fn levels_and_modules_hide() {
    let policy = Policy::default();
    let user = principal(Level::User, Some(&["research"]));
    let seen = |source, level| hidden(&admit(&policy, &user, source, "t", &traits(level)));
    assert_eq!(seen("research", Level::Guest), None);
    assert_eq!(seen("research", Level::User), None);
    assert_eq!(seen("research", Level::Admin), Some(Reason::Level));
    assert_eq!(seen("scheduler", Level::Guest), Some(Reason::PersonaModules));
    let none = principal(Level::Owner, Some(&[]));
    let empty = admit(&policy, &none, "research", "t", &traits(Level::Guest));
    assert_eq!(hidden(&empty), Some(Reason::PersonaModules));
}

#[test]
fn deny_wins_and_an_empty_allow_list_means_none() {
    let owner = principal(Level::Owner, None);
    let with = |allow: Option<&[&str]>, deny: &[&str]| {
        let layer = Layer { allow: allow.map(patterns), deny: patterns(deny), ..Layer::default() };
        hidden(&admit(&policy(layer), &owner, "s", "a.b", &traits(Level::Guest)))
    };
    assert_eq!(with(None, &[]), None);
    assert_eq!(with(Some(&["a.*"]), &[]), None);
    assert_eq!(with(Some(&["a.*"]), &["source:s"]), Some(Reason::DenyRule));
    assert_eq!(with(Some(&["group:all"]), &["group:all"]), Some(Reason::DenyRule));
    assert_eq!(with(Some(&[]), &[]), Some(Reason::NotAllowed));
}

/// Two sources may have a tool of one name, and a pattern speaks of both or of one.
#[test]
fn a_pattern_fits_a_tools_own_name_and_its_qualified_one() {
    let owner = principal(Level::Owner, None);
    let denied = |pattern: &str, source: &str, name: &str| {
        let layer = Layer { deny: patterns(&[pattern]), ..Layer::default() };
        hidden(&admit(&policy(layer), &owner, source, name, &traits(Level::Guest))).is_some()
    };
    for (pattern, of_shop, of_builtin) in [
        ("read_file", true, true),
        ("builtin.read_file", false, true),
        ("shop.*", true, false),
        ("read_*", true, true),
        ("builtin.write_file", false, false),
    ] {
        assert_eq!(denied(pattern, "shop", "read_file"), of_shop, "{pattern}");
        assert_eq!(denied(pattern, "builtin", "read_file"), of_builtin, "{pattern}");
    }
    // A name with its source before it is its own qualified one.
    assert!(denied("files.read", "files", "files.read"));
    assert!(!denied("files.files.read", "files", "files.read"));
}

#[test]
fn other_organisations_do_not_exist() {
    let owner = principal(Level::Owner, None);
    let org = Org::new("other").unwrap();
    let traits = traits(Level::Guest);
    let facts = Facts { org: &org, source: "s", name: "n", traits: &traits };
    let policy = Policy::default();
    let seen = policy.lens(owner.rights(), CallerType::Direct, NOW).admit(&facts);
    assert_eq!(hidden(&seen), Some(Reason::OtherOrg));
}

#[test]
fn an_organisation_has_what_its_list_allows_and_without_a_list_nothing() {
    let acme = enter(NewKey { org: Org::new("acme").unwrap(), ..key(Level::Owner) });
    let seen = |orgs: &[(&str, Option<&[&str]>)], name| {
        let layer =
            |allow: Option<&[&str]>| Layer { allow: allow.map(patterns), ..Layer::default() };
        let orgs = orgs.iter().map(|(org, allow)| ((*org).to_owned(), layer(*allow))).collect();
        let policy = Policy::new(Rules { orgs, ..Rules::default() }).unwrap();
        hidden(&admit(&policy, &acme, "s", name, &traits(Level::Guest)))
    };
    assert_eq!(seen(&[], "a.b"), Some(Reason::OrgNotListed));
    assert_eq!(seen(&[("other", Some(&["*"]))], "a.b"), Some(Reason::OrgNotListed));
    assert_eq!(seen(&[("acme", None)], "a.b"), Some(Reason::OrgNotListed));
    assert_eq!(seen(&[("acme", Some(&["a.*"]))], "a.b"), None);
    assert_eq!(seen(&[("acme", Some(&["a.*"]))], "b.a"), Some(Reason::NotAllowed));
}

#[test]
fn dangerous_destructive_and_some_scopes_are_held_and_cautious_is_noted() {
    let owner = principal(Level::Owner, None);
    let decided = |traits: Traits| called(&Policy::default(), &owner, ("n", &traits), &json!({}));
    let safety = |safety| Traits { safety, ..Traits::default() };
    let reach = |scope, effects| Traits { scopes: vec![scope], effects, ..Traits::default() };
    let (reads, unknown) = (tool::Effects::read_only, tool::Effects::Unknown);
    assert_eq!(decided(safety(Safety::Safe)), Decision::Allow(Reason::Allowed));
    assert_eq!(decided(safety(Safety::Cautious)), Decision::Allow(Reason::Caution));
    assert_eq!(decided(safety(Safety::Dangerous)), Decision::Hold(Reason::Dangerous));
    let destructive = Traits { destructive: true, ..Traits::default() };
    assert_eq!(decided(destructive), Decision::Hold(Reason::Destructive));
    assert_eq!(decided(reach(Scope::Shell, reads())), Decision::Hold(Reason::ShellApproval));
    let held = Decision::Hold(Reason::FilesystemApproval);
    assert_eq!(decided(reach(Scope::Filesystem, unknown)), held);
    for (scope, effects) in [(Scope::Filesystem, reads()), (Scope::Network, tool::Effects::Unknown)]
    {
        assert_eq!(decided(reach(scope, effects)), Decision::Allow(Reason::Allowed), "{scope}");
    }
}

#[test]
fn unknown_names_in_the_rules_are_errors() {
    let layer = |layer: Layer| Rules { global: layer, ..Rules::default() };
    let word = |text: &str| Word { text: text.to_owned(), at: crate::At { line: 3, column: 7 } };
    let group = |members: &[&str]| Group { members: patterns(members), ..Group::default() };
    let groups = |all: &[(&str, &[&str])]| Rules {
        groups: all.iter().map(|(name, members)| ((*name).to_owned(), group(members))).collect(),
        ..Rules::default()
    };
    for (rules, told) in [
        (
            layer(Layer { allow: Some(patterns(&["group:wbe"])), ..Layer::default() }),
            "unknown group `wbe`",
        ),
        (
            layer(Layer { deny: patterns(&["group:wbe"]), ..Layer::default() }),
            "unknown group `wbe`",
        ),
        (
            layer(Layer { categories: Some(vec![word("wbe")]), ..Layer::default() }),
            "unknown category `wbe`",
        ),
        (Rules { default_role: Some(word("nobody")), ..Rules::default() }, "unknown role `nobody`"),
        (groups(&[("mine", &["group:none"])]), "unknown group `none`"),
        (groups(&[("a", &["group:b"]), ("b", &["group:a"])]), "holds itself"),
        (groups(&[("web", &["x"])]), "there is a group `web` already"),
    ] {
        let slips = Policy::new(rules).unwrap_err();
        assert!(slips.iter().any(|slip| slip.message.contains(told)), "{told}: {slips:?}");
    }
    let own = Rules {
        own_categories: vec!["wbe".to_owned()],
        global: Layer { categories: Some(vec![word("wbe")]), ..Layer::default() },
        ..Rules::default()
    };
    assert!(Policy::new(own).is_ok());
}

#[test]
fn roles_narrow_and_one_that_the_file_does_not_know_has_nothing() {
    let role = |deny: &[&str]| Layer { deny: patterns(deny), ..Layer::default() };
    let roles = [("a".to_owned(), role(&["x"])), ("b".to_owned(), role(&["y"]))];
    let rules = Rules { roles: roles.into(), ..Rules::default() };
    let seen = |rules: &Rules, roles: &[&str], name| {
        let policy = Policy::new(rules.clone()).unwrap();
        hidden(&admit(&policy, &with_roles(roles), "s", name, &traits(Level::Guest)))
    };
    assert_eq!(seen(&rules, &["a"], "y"), None);
    assert_eq!(seen(&rules, &["a", "b"], "y"), Some(Reason::DenyRule));
    assert_eq!(seen(&rules, &["c"], "z"), Some(Reason::UnknownRole));
    assert_eq!(seen(&rules, &["a", "c"], "z"), Some(Reason::UnknownRole));
    assert_eq!(seen(&Rules::default(), &["c"], "z"), None);
    assert_eq!(seen(&rules, &[], "x"), None);
    let fallback = Word { text: "a".to_owned(), at: crate::At::default() };
    let rules = Rules { default_role: Some(fallback), ..rules };
    assert_eq!(seen(&rules, &[], "x"), Some(Reason::DenyRule));
}

#[test]
fn a_flag_that_is_off_only_takes_away() {
    let user = principal(Level::User, None);
    let destructive = Traits { destructive: true, ..Traits::default() };
    let plain = Traits::default();
    for name in Off::NAMES {
        let mut off = Off::default();
        off.switch_off(name).unwrap();
        let policy = Policy::new(Rules { off, ..Rules::default() }).unwrap();
        let hides = |traits| hidden(&admit(&policy, &user, "s", "n", traits));
        let (all, harm) = match *name {
            "tools" => (Some(Reason::Feature), Some(Reason::Feature)),
            "side_effect_tracking" | "structured_tool_output" => (None, Some(Reason::Feature)),
            _ => (None, None),
        };
        assert_eq!((hides(&plain), hides(&destructive)), (all, harm), "{name}");
        if matches!(*name, "approval_gates" | "resume_tokens") {
            let decision = called(&policy, &user, ("n", &destructive), &json!({}));
            assert_eq!(decision, Decision::Deny(Reason::NoApprovals), "{name}");
            let decision = called(&policy, &user, ("n", &plain), &json!({}));
            assert_eq!(decision, Decision::Allow(Reason::Allowed), "{name}");
        }
    }
    assert!(Off::default().switch_off("tols").unwrap_err().contains("unknown feature `tols`"));
}

#[test]
fn conditions_judge_arguments_and_their_faults_deny() {
    let user = principal(Level::User, None);
    let decided = |effect, when, args: Value| {
        let policy = ruled(vec![rule(effect, Some(when))]).unwrap();
        called(&policy, &user, ("n", &Traits::default()), &args)
    };
    let prod = "args.env == 'prod'";
    let (rule, fault) = (Decision::Deny(Reason::Rule), Decision::Deny(Reason::RuleFault));
    assert_eq!(decided(Effect::Deny, prod, json!({ "env": "prod" })), rule);
    assert_eq!(
        decided(Effect::Deny, prod, json!({ "env": "test" })),
        Decision::Allow(Reason::Allowed)
    );
    assert_eq!(
        decided(Effect::Hold, prod, json!({ "env": "prod" })),
        Decision::Hold(Reason::RuleHold)
    );
    for effect in [Effect::Deny, Effect::Hold] {
        assert_eq!(decided(effect, prod, json!({})), fault);
        assert_eq!(decided(effect, "args.n", json!({ "n": 1 })), fault);
        assert_eq!(decided(effect, "1 / args.n > 0", json!({ "n": 0 })), fault);
        assert_eq!(decided(effect, "args.n > 0", json!({ "n": "x" })), fault);
        let long: Vec<u32> = (0..1_001).collect();
        assert_eq!(decided(effect, "size(args.n) > 5000", json!({ "n": long })), fault);
        let text = "x".repeat(70_000);
        assert_eq!(decided(effect, "size(args.n) > 99999", json!({ "n": text })), fault);
    }
    let who =
        "principal.subject == 'ann' && principal.level == 'user' && !('x' in principal.roles)";
    assert_eq!(decided(Effect::Deny, who, json!({})), rule);
    assert_eq!(decided(Effect::Deny, "tool.name == 'n' && via == 'direct'", json!({})), rule);
    assert_eq!(decided(Effect::Deny, "now.year == 2026 && !taint.untrusted", json!({})), rule);
}

#[test]
fn a_deny_by_time_hides_while_it_holds_and_tells_until_when() {
    let hours = HoursText { hours: Some("22:00-06:00"), ..HoursText::default() };
    let time = Some(Hours::read(hours).unwrap());
    let night = ruled(vec![Rule { time, ..rule(Effect::Deny, None) }]).unwrap();
    let (user, org, traits) = (principal(Level::User, None), Org::default(), Traits::default());
    let facts = Facts { org: &org, source: "s", name: "n", traits: &traits };
    let at = |text: &str| crate::hours::read_moment(text).unwrap();
    let seen = |now| hidden(&night.lens(user.rights(), CallerType::Direct, now).admit(&facts));
    let (noon, late) = (at("2026-11-22T12:00:00Z"), at("2026-11-22T22:30:00Z"));
    assert_eq!((seen(noon), seen(late)), (None, Some(Reason::Rule)));
    assert!(night.has_times() && !Policy::default().has_times());
    assert!(night.valid_until(at("2026-11-22T21:30:00Z")).unwrap() <= at("2026-11-22T22:00:00Z"));
}

#[test]
fn examples_are_tried_when_the_rules_are_read() {
    let example = |args: Value, facts: Value, applies| {
        let facts = facts.as_object().unwrap().clone();
        Example { args, facts, applies, at: crate::At { line: 9, column: 1 } }
    };
    let read = |when, examples| ruled(vec![Rule { examples, ..rule(Effect::Deny, Some(when)) }]);
    let prod = "args.env == 'prod'";
    let good = vec![
        example(json!({ "env": "prod" }), json!({}), true),
        example(json!({ "env": "test" }), json!({}), false),
        example(json!({}), json!({}), true),
    ];
    assert!(read(prod, good).is_ok());
    let told = |when, args, facts, applies| {
        let slips = read(when, vec![example(args, facts, applies)]).unwrap_err();
        assert_eq!((slips.len(), slips[0].at.line), (1, 9));
        slips[0].message.clone()
    };
    assert!(told(prod, json!({ "env": "prod" }), json!({}), false).contains("says it does not"));
    assert!(told(prod, json!({ "env": "test" }), json!({}), true).contains("says it does"));
    assert!(told(prod, json!({}), json!({}), false).contains("cannot be worked out"));
    assert!(told("via == 'x'", json!({}), json!({ "nobody": 1 }), false).contains("no variable"));
    let night = "now.hour >= 22";
    let facts = json!({ "now": "2026-11-22T22:30:00Z" });
    assert!(read(night, vec![example(json!({}), facts, true)]).is_ok());
}

#[test]
fn a_policy_is_the_same_wherever_it_stands_in_the_file() {
    let with = |line| {
        let at = crate::At { line, column: 1 };
        let deny = vec![Pattern::new("a").unwrap().at(at)];
        Rules { global: Layer { deny, at, ..Layer::default() }, ..Rules::default() }
    };
    assert_eq!(with(1).digest(), with(2).digest());
    assert_ne!(with(1).digest(), Rules::default().digest());
}

#[test]
fn an_explanation_names_layer_rule_and_place() {
    let at = |line| crate::At { line, column: 5 };
    let deny = vec![Pattern::new("x").unwrap(), Pattern::new("group:web").unwrap().at(at(12))];
    let roles = [("worker".to_owned(), Layer { deny, at: at(10), ..Layer::default() })];
    let policy = Policy::new(Rules { roles: roles.into(), ..Rules::default() }).unwrap();
    let (worker, org) = (with_roles(&["worker"]), Org::default());
    let traits = Traits { scopes: vec![Scope::Network], ..Traits::default() };
    let asking = Asking {
        caller: worker.caller(),
        rights: worker.rights(),
        by: CallerType::Direct,
        tool: Facts { org: &org, source: "s", name: "fetch", traits: &traits },
        args: &Args::check("{}").unwrap(),
        now: NOW,
        taint: Taint::default(),
    };
    let told = policy.explain(&asking);
    let expected = Explanation {
        layer: Some("role `worker`".to_owned()),
        rule: Some("group:web".to_owned()),
        place: Some(at(12)),
        ..Explanation::new("hidden", Reason::DenyRule)
    };
    assert_eq!(told, expected);
    assert_eq!(told.place.unwrap().line, 12);
}

#[test]
fn what_changed_is_told_rule_by_rule() {
    let scopes =
        [(Scope::Shell, ScopeRule { requires_approval: Some(false), ..ScopeRule::default() })];
    let before = Rules {
        global: Layer { deny: patterns(&["a", "b"]), ..Layer::default() },
        scopes: scopes.into(),
        ..Rules::default()
    };
    let after = Rules {
        global: Layer { deny: patterns(&["b", "c"]), allow: Some(vec![]), ..Layer::default() },
        ..Rules::default()
    };
    let paths: Vec<_> = diff(&before, &after).into_iter().map(|change| change.path).collect();
    assert_eq!(paths, ["allow", "deny[a]", "deny[c]", "scopes.shell.requires_approval"]);
    let again = Rules {
        global: Layer { deny: patterns(&["b", "a"]), ..Layer::default() },
        ..before.clone()
    };
    assert_eq!(diff(&before, &again), []);
}

/// A key with a persona of its own that came of one with another is narrowed by the layers of both.
#[test]
fn both_personas_of_a_key_that_was_handed_on_narrow() {
    let persona = |name: &str, modules: &[&str]| {
        let modules = modules.iter().map(|module| (*module).to_owned());
        Some(Persona { name: name.to_owned(), allowed_modules: Some(modules.collect()) })
    };
    let id = |id: &str| KeyId::new(id).unwrap();
    let above =
        NewKey { id: id("above"), persona: persona("wide", &["a", "b"]), ..key(Level::User) };
    let hand = identity::Delegation { by: "above".to_owned(), ..Default::default() };
    let below =
        NewKey { id: id("below"), persona: persona("own", &["b", "c"]), ..key(Level::User) };
    let below = NewKey { delegations: vec![hand], ..below };
    let records = [above, below].map(|key| key.issue([1; 32], Wall(0)).unwrap().1);
    let ring = KeyRing::new(records);
    let (wide, both) = (ring.principal("above").unwrap(), ring.principal("below").unwrap());
    assert_eq!(both.rights().personas().collect::<Vec<_>>(), ["wide", "own"]);
    let deny = |name| Layer { deny: vec![Pattern::new(name).unwrap()], ..Layer::default() };
    let personas = [("wide".to_owned(), deny("x")), ("own".to_owned(), deny("y"))].into();
    let policy = Policy::new(Rules { personas, ..Rules::default() }).unwrap();
    let sees = |who: &Principal, source, name| {
        matches!(admit(&policy, who, source, name, &traits(Level::User)), Admission::Visible(_))
    };
    for (source, name, above, below) in
        [("b", "z", true, true), ("b", "x", false, false), ("b", "y", true, false)]
    {
        assert_eq!((sees(wide, source, name), sees(both, source, name)), (above, below), "{name}");
    }
    assert!(sees(wide, "a", "z") && !sees(both, "a", "z") && !sees(both, "c", "z"));
}
