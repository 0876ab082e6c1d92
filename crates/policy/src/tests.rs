//! Shared fixtures of the policy tests, and the tests of its basic rules.

mod access_contracts;
mod approval_table;
mod differential;
mod model;
mod random;
mod rules_of_a_tool;

use std::collections::BTreeSet;

use identity::{KeyId, KeyRing, NewKey, Persona, Principal};
use serde_json::{Value, json};
use tool::{
    AccessScope, CallArguments, CallerType, Json, Org, PermissionLevel, SafetyLevel, ToolTraits,
    WallTime,
};

use super::{
    DecisionExplanation, DecisionReason, DisabledFeatures, LocatedName, Policy, PolicyDecision,
    PolicyDiagnostic, PolicyDocument, PolicyLayer, PolicyRequest, PolicyRule, RuleEffect,
    RuleExample, ScopeRule, SessionTaint, TimeWindow, TimeWindowSpec, ToolAdmission, ToolFacts,
    ToolGroup, ToolPattern, decide_call, diff_documents,
};

pub(crate) const NOW: WallTime = WallTime(1_795_000_000_000);

pub(crate) fn key(level: PermissionLevel) -> NewKey {
    NewKey { level, ..NewKey::for_user(KeyId::random([1; 6]), "ann") }
}

/// With the keys it was delegated from, each with what the one after it has not lost.
pub(crate) fn enter(mut key: NewKey) -> Principal {
    let mut records = Vec::new();
    for hand in 0..key.delegations.len() {
        let id = KeyId::new(format!("p{hand}")).unwrap();
        let delegations = key.delegations[..hand].to_vec();
        key.delegations[hand].delegated_by = id.to_string();
        let above = NewKey { id, delegations, ..key.clone() };
        records.push(above.issue_key([9; 32], WallTime(0)).unwrap().1);
    }
    let (secret, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
    records.push(record);
    KeyRing::new(records).verify_key(Some(secret.expose()), WallTime(1)).unwrap()
}

fn principal(level: PermissionLevel, modules: Option<&[&str]>) -> Principal {
    let persona = modules.map(|modules| Persona {
        name: "p".to_owned(),
        allowed_modules: Some(modules.iter().map(|m| (*m).to_owned()).collect::<BTreeSet<_>>()),
    });
    enter(NewKey { persona, ..key(level) })
}

fn with_roles(roles: &[&str]) -> Principal {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    enter(NewKey { roles, ..key(PermissionLevel::User) })
}

fn traits(level: PermissionLevel) -> ToolTraits {
    ToolTraits { min_level: level, ..ToolTraits::default() }
}

fn admit(
    policy: &Policy,
    who: &Principal,
    source: &str,
    name: &str,
    traits: &ToolTraits,
) -> ToolAdmission {
    let org = Org::default();
    let facts = ToolFacts { org: &org, source, name, traits };
    policy.for_class(who.rights_class(), CallerType::Direct, NOW).admit_tool(&facts)
}

fn hidden(admission: &ToolAdmission) -> Option<DecisionReason> {
    match admission {
        ToolAdmission::Hidden(reason) => Some(*reason),
        ToolAdmission::Visible(_) => None,
    }
}

/// The same, explained.
fn explained(
    policy: &Policy,
    who: &Principal,
    (name, traits): (&str, &ToolTraits),
    args: &Value,
) -> crate::DecisionExplanation {
    let org = Org::default();
    let args = &CallArguments::from_json(Json::encode(args)).unwrap();
    policy.explain(&PolicyRequest {
        caller: who.caller(),
        rights: who.rights_class(),
        caller_type: CallerType::Direct,
        tool: ToolFacts { org: &org, source: "s", name, traits },
        arguments: args,
        now: NOW,
        taint: SessionTaint::default(),
    })
}

/// What becomes of a call.
fn called(
    policy: &Policy,
    who: &Principal,
    (name, traits): (&str, &ToolTraits),
    args: &Value,
) -> PolicyDecision {
    let org = Org::default();
    let tool = ToolFacts { org: &org, source: "s", name, traits };
    let args = &CallArguments::from_json(Json::encode(args)).unwrap();
    let asking = PolicyRequest {
        caller: who.caller(),
        rights: who.rights_class(),
        caller_type: CallerType::Direct,
        tool,
        arguments: args,
        now: NOW,
        taint: SessionTaint::default(),
    };
    let decision =
        match policy.for_class(who.rights_class(), CallerType::Direct, NOW).admit_tool(&tool) {
            ToolAdmission::Visible(residual) => decide_call(&residual, &asking),
            ToolAdmission::Hidden(reason) => panic!("hidden: {reason}"),
        };
    let told = policy.explain(&asking);
    let (word, reason) = match decision {
        PolicyDecision::Allow(reason) => ("allow", reason),
        PolicyDecision::RequireApproval(reason) => ("hold", reason),
        PolicyDecision::Deny(reason) => ("deny", reason),
    };
    assert_eq!((told.decision, told.reason), (word, reason));
    decision
}

pub(crate) fn patterns(list: &[&str]) -> Vec<ToolPattern> {
    list.iter().map(|text| ToolPattern::new(*text).unwrap()).collect()
}

fn policy(global: PolicyLayer) -> Policy {
    Policy::new(PolicyDocument { global, ..PolicyDocument::default() }).unwrap()
}

fn rule(effect: RuleEffect, when: Option<&str>) -> PolicyRule {
    let when = when.map(|text| LocatedName {
        text: text.to_owned(),
        position: crate::FilePosition::default(),
    });
    let (tools, time, examples) = (None, None, Vec::new());
    PolicyRule {
        name: "r".to_owned(),
        effect,
        tools,
        condition: when,
        time_window: time,
        examples,
        position: crate::FilePosition::default(),
    }
}

fn ruled(rules: Vec<PolicyRule>) -> Result<Policy, Vec<PolicyDiagnostic>> {
    Policy::new(PolicyDocument {
        global: PolicyLayer { rules, ..PolicyLayer::default() },
        ..PolicyDocument::default()
    })
}

#[test]
fn levels_and_modules_hide() {
    let policy = Policy::default();
    let user = principal(PermissionLevel::User, Some(&["research"]));
    let seen = |source, level| hidden(&admit(&policy, &user, source, "t", &traits(level)));
    assert_eq!(seen("research", PermissionLevel::Guest), None);
    assert_eq!(seen("research", PermissionLevel::User), None);
    assert_eq!(seen("research", PermissionLevel::Admin), Some(DecisionReason::Level));
    assert_eq!(seen("scheduler", PermissionLevel::Guest), Some(DecisionReason::PersonaModules));
    let none = principal(PermissionLevel::Owner, Some(&[]));
    let empty = admit(&policy, &none, "research", "t", &traits(PermissionLevel::Guest));
    assert_eq!(hidden(&empty), Some(DecisionReason::PersonaModules));
}

#[test]
fn deny_wins_and_an_empty_allow_list_means_none() {
    let owner = principal(PermissionLevel::Owner, None);
    let with = |allow: Option<&[&str]>, deny: &[&str]| {
        let layer = PolicyLayer {
            allow: allow.map(patterns),
            deny: patterns(deny),
            ..PolicyLayer::default()
        };
        hidden(&admit(&policy(layer), &owner, "s", "a.b", &traits(PermissionLevel::Guest)))
    };
    assert_eq!(with(None, &[]), None);
    assert_eq!(with(Some(&["a.*"]), &[]), None);
    assert_eq!(with(Some(&["a.*"]), &["source:s"]), Some(DecisionReason::DenyRule));
    assert_eq!(with(Some(&["group:all"]), &["group:all"]), Some(DecisionReason::DenyRule));
    assert_eq!(with(Some(&[]), &[]), Some(DecisionReason::NotAllowed));
}

/// Two sources may have a tool of one name, and a pattern speaks of both or of one.
#[test]
fn a_pattern_fits_a_tools_own_name_and_its_qualified_one() {
    let owner = principal(PermissionLevel::Owner, None);
    let denied = |pattern: &str, source: &str, name: &str| {
        let layer = PolicyLayer { deny: patterns(&[pattern]), ..PolicyLayer::default() };
        hidden(&admit(&policy(layer), &owner, source, name, &traits(PermissionLevel::Guest)))
            .is_some()
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
    let owner = principal(PermissionLevel::Owner, None);
    let org = Org::new("other").unwrap();
    let traits = traits(PermissionLevel::Guest);
    let facts = ToolFacts { org: &org, source: "s", name: "n", traits: &traits };
    let policy = Policy::default();
    let seen = policy.for_class(owner.rights_class(), CallerType::Direct, NOW).admit_tool(&facts);
    assert_eq!(hidden(&seen), Some(DecisionReason::OtherOrg));
}

#[test]
fn an_organisation_has_what_its_list_allows_and_without_a_list_nothing() {
    let acme = enter(NewKey { org: Org::new("acme").unwrap(), ..key(PermissionLevel::Owner) });
    let seen = |orgs: &[(&str, Option<&[&str]>)], name| {
        let layer = |allow: Option<&[&str]>| PolicyLayer {
            allow: allow.map(patterns),
            ..PolicyLayer::default()
        };
        let orgs = orgs.iter().map(|(org, allow)| ((*org).to_owned(), layer(*allow))).collect();
        let policy = Policy::new(PolicyDocument { orgs, ..PolicyDocument::default() }).unwrap();
        hidden(&admit(&policy, &acme, "s", name, &traits(PermissionLevel::Guest)))
    };
    assert_eq!(seen(&[], "a.b"), Some(DecisionReason::OrgNotListed));
    assert_eq!(seen(&[("other", Some(&["*"]))], "a.b"), Some(DecisionReason::OrgNotListed));
    assert_eq!(seen(&[("acme", None)], "a.b"), Some(DecisionReason::OrgNotListed));
    assert_eq!(seen(&[("acme", Some(&["a.*"]))], "a.b"), None);
    assert_eq!(seen(&[("acme", Some(&["a.*"]))], "b.a"), Some(DecisionReason::NotAllowed));
}

#[test]
fn dangerous_destructive_and_some_scopes_are_held_and_cautious_is_noted() {
    let owner = principal(PermissionLevel::Owner, None);
    let decided =
        |traits: ToolTraits| called(&Policy::default(), &owner, ("n", &traits), &json!({}));
    let safety = |safety| ToolTraits { safety, ..ToolTraits::default() };
    let reach =
        |scope, effects| ToolTraits { scopes: vec![scope], effects, ..ToolTraits::default() };
    let (reads, unknown) = (tool::SideEffects::read_only, tool::SideEffects::Unknown);
    assert_eq!(decided(safety(SafetyLevel::Safe)), PolicyDecision::Allow(DecisionReason::Allowed));
    assert_eq!(
        decided(safety(SafetyLevel::Cautious)),
        PolicyDecision::Allow(DecisionReason::Caution)
    );
    assert_eq!(
        decided(safety(SafetyLevel::Dangerous)),
        PolicyDecision::RequireApproval(DecisionReason::Dangerous)
    );
    let destructive = ToolTraits { is_destructive: true, ..ToolTraits::default() };
    assert_eq!(decided(destructive), PolicyDecision::RequireApproval(DecisionReason::Destructive));
    assert_eq!(
        decided(reach(AccessScope::Shell, reads())),
        PolicyDecision::RequireApproval(DecisionReason::ShellApproval)
    );
    let held = PolicyDecision::RequireApproval(DecisionReason::FilesystemApproval);
    assert_eq!(decided(reach(AccessScope::Filesystem, unknown)), held);
    for (scope, effects) in
        [(AccessScope::Filesystem, reads()), (AccessScope::Network, tool::SideEffects::Unknown)]
    {
        assert_eq!(
            decided(reach(scope, effects)),
            PolicyDecision::Allow(DecisionReason::Allowed),
            "{scope}"
        );
    }
}

#[test]
fn unknown_names_in_the_rules_are_errors() {
    let layer = |layer: PolicyLayer| PolicyDocument { global: layer, ..PolicyDocument::default() };
    let word = |text: &str| LocatedName {
        text: text.to_owned(),
        position: crate::FilePosition { line: 3, column: 7 },
    };
    let group = |members: &[&str]| ToolGroup { members: patterns(members), ..ToolGroup::default() };
    let groups = |all: &[(&str, &[&str])]| PolicyDocument {
        groups: all.iter().map(|(name, members)| ((*name).to_owned(), group(members))).collect(),
        ..PolicyDocument::default()
    };
    for (rules, told) in [
        (
            layer(PolicyLayer { allow: Some(patterns(&["group:wbe"])), ..PolicyLayer::default() }),
            "unknown group `wbe`",
        ),
        (
            layer(PolicyLayer { deny: patterns(&["group:wbe"]), ..PolicyLayer::default() }),
            "unknown group `wbe`",
        ),
        (
            layer(PolicyLayer { categories: Some(vec![word("wbe")]), ..PolicyLayer::default() }),
            "unknown category `wbe`",
        ),
        (
            PolicyDocument { default_role: Some(word("nobody")), ..PolicyDocument::default() },
            "unknown role `nobody`",
        ),
        (groups(&[("mine", &["group:none"])]), "unknown group `none`"),
        (groups(&[("a", &["group:b"]), ("b", &["group:a"])]), "contains itself"),
        (groups(&[("web", &["x"])]), "the group `web` is already defined"),
    ] {
        let slips = Policy::new(rules).unwrap_err();
        assert!(slips.iter().any(|slip| slip.message.contains(told)), "{told}: {slips:?}");
    }
    let own = PolicyDocument {
        own_categories: vec!["wbe".to_owned()],
        global: PolicyLayer { categories: Some(vec![word("wbe")]), ..PolicyLayer::default() },
        ..PolicyDocument::default()
    };
    assert!(Policy::new(own).is_ok());
}

#[test]
fn roles_narrow_and_one_that_the_file_does_not_know_has_nothing() {
    let role = |deny: &[&str]| PolicyLayer { deny: patterns(deny), ..PolicyLayer::default() };
    let roles = [("a".to_owned(), role(&["x"])), ("b".to_owned(), role(&["y"]))];
    let rules = PolicyDocument { roles: roles.into(), ..PolicyDocument::default() };
    let seen = |rules: &PolicyDocument, roles: &[&str], name| {
        let policy = Policy::new(rules.clone()).unwrap();
        hidden(&admit(&policy, &with_roles(roles), "s", name, &traits(PermissionLevel::Guest)))
    };
    assert_eq!(seen(&rules, &["a"], "y"), None);
    assert_eq!(seen(&rules, &["a", "b"], "y"), Some(DecisionReason::DenyRule));
    assert_eq!(seen(&rules, &["c"], "z"), Some(DecisionReason::UnknownRole));
    assert_eq!(seen(&rules, &["a", "c"], "z"), Some(DecisionReason::UnknownRole));
    assert_eq!(seen(&PolicyDocument::default(), &["c"], "z"), None);
    assert_eq!(seen(&rules, &[], "x"), None);
    let fallback = LocatedName { text: "a".to_owned(), position: crate::FilePosition::default() };
    let rules = PolicyDocument { default_role: Some(fallback), ..rules };
    assert_eq!(seen(&rules, &[], "x"), Some(DecisionReason::DenyRule));
}

#[test]
fn a_flag_that_is_off_only_takes_away() {
    let user = principal(PermissionLevel::User, None);
    let destructive = ToolTraits { is_destructive: true, ..ToolTraits::default() };
    let plain = ToolTraits::default();
    for name in DisabledFeatures::NAMES {
        let mut off = DisabledFeatures::default();
        off.disable_feature(name).unwrap();
        let policy =
            Policy::new(PolicyDocument { disabled_features: off, ..PolicyDocument::default() })
                .unwrap();
        let hides = |traits| hidden(&admit(&policy, &user, "s", "n", traits));
        let (all, harm) = match *name {
            "tools" => (Some(DecisionReason::Feature), Some(DecisionReason::Feature)),
            "side_effect_tracking" | "structured_tool_output" => {
                (None, Some(DecisionReason::Feature))
            }
            _ => (None, None),
        };
        assert_eq!((hides(&plain), hides(&destructive)), (all, harm), "{name}");
        if matches!(*name, "approval_gates" | "resume_tokens") {
            let decision = called(&policy, &user, ("n", &destructive), &json!({}));
            assert_eq!(decision, PolicyDecision::Deny(DecisionReason::NoApprovals), "{name}");
            let decision = called(&policy, &user, ("n", &plain), &json!({}));
            assert_eq!(decision, PolicyDecision::Allow(DecisionReason::Allowed), "{name}");
        }
    }
    assert!(
        DisabledFeatures::default()
            .disable_feature("tols")
            .unwrap_err()
            .contains("unknown feature `tols`")
    );
}

#[test]
fn conditions_judge_arguments_and_their_faults_deny() {
    let user = principal(PermissionLevel::User, None);
    let decided = |effect, when, args: Value| {
        let policy = ruled(vec![rule(effect, Some(when))]).unwrap();
        called(&policy, &user, ("n", &ToolTraits::default()), &args)
    };
    let prod = "args.env == 'prod'";
    let (rule, fault) = (
        PolicyDecision::Deny(DecisionReason::Rule),
        PolicyDecision::Deny(DecisionReason::RuleFault),
    );
    assert_eq!(decided(RuleEffect::Deny, prod, json!({ "env": "prod" })), rule);
    assert_eq!(
        decided(RuleEffect::Deny, prod, json!({ "env": "test" })),
        PolicyDecision::Allow(DecisionReason::Allowed)
    );
    assert_eq!(
        decided(RuleEffect::RequireApproval, prod, json!({ "env": "prod" })),
        PolicyDecision::RequireApproval(DecisionReason::RuleHold)
    );
    for effect in [RuleEffect::Deny, RuleEffect::RequireApproval] {
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
    assert_eq!(decided(RuleEffect::Deny, who, json!({})), rule);
    assert_eq!(decided(RuleEffect::Deny, "tool.name == 'n' && via == 'direct'", json!({})), rule);
    assert_eq!(decided(RuleEffect::Deny, "now.year == 2026 && !taint.untrusted", json!({})), rule);
}

#[test]
fn a_deny_by_time_hides_while_it_holds_and_tells_until_when() {
    let hours = TimeWindowSpec { hours: Some("22:00-06:00"), ..TimeWindowSpec::default() };
    let time = Some(TimeWindow::parse_window(hours).unwrap());
    let night =
        ruled(vec![PolicyRule { time_window: time, ..rule(RuleEffect::Deny, None) }]).unwrap();
    let (user, org, traits) =
        (principal(PermissionLevel::User, None), Org::default(), ToolTraits::default());
    let facts = ToolFacts { org: &org, source: "s", name: "n", traits: &traits };
    let at = |text: &str| crate::time_window::parse_rfc3339(text).unwrap();
    let seen = |now| {
        hidden(&night.for_class(user.rights_class(), CallerType::Direct, now).admit_tool(&facts))
    };
    let (noon, late) = (at("2026-11-22T12:00:00Z"), at("2026-11-22T22:30:00Z"));
    assert_eq!((seen(noon), seen(late)), (None, Some(DecisionReason::Rule)));
    assert!(night.is_time_dependent() && !Policy::default().is_time_dependent());
    assert!(
        night.visibility_valid_until(at("2026-11-22T21:30:00Z")).unwrap()
            <= at("2026-11-22T22:00:00Z")
    );
}

#[test]
fn examples_are_tried_when_the_rules_are_read() {
    let example = |args: Value, facts: Value, applies| {
        let facts = facts.as_object().unwrap().clone();
        RuleExample {
            arguments: args,
            facts,
            should_apply: applies,
            position: crate::FilePosition { line: 9, column: 1 },
        }
    };
    let read =
        |when, examples| ruled(vec![PolicyRule { examples, ..rule(RuleEffect::Deny, Some(when)) }]);
    let prod = "args.env == 'prod'";
    let good = vec![
        example(json!({ "env": "prod" }), json!({}), true),
        example(json!({ "env": "test" }), json!({}), false),
        example(json!({}), json!({}), true),
    ];
    assert!(read(prod, good).is_ok());
    let told = |when, args, facts, applies| {
        let slips = read(when, vec![example(args, facts, applies)]).unwrap_err();
        assert_eq!((slips.len(), slips[0].position.line), (1, 9));
        slips[0].message.clone()
    };
    assert!(told(prod, json!({ "env": "prod" }), json!({}), false).contains(
        "but `applies` is \
        false"
    ));
    assert!(told(prod, json!({ "env": "test" }), json!({}), true).contains(
        "but `applies` is \
        true"
    ));
    assert!(told(prod, json!({}), json!({}), false).contains("cannot be evaluated"));
    assert!(
        told("via == 'x'", json!({}), json!({ "nobody": 1 }), false).contains("unknown variable")
    );
    let night = "now.hour >= 22";
    let facts = json!({ "now": "2026-11-22T22:30:00Z" });
    assert!(read(night, vec![example(json!({}), facts, true)]).is_ok());
}

#[test]
fn a_policy_is_the_same_wherever_it_stands_in_the_file() {
    let with = |line| {
        let at = crate::FilePosition { line, column: 1 };
        let deny = vec![ToolPattern::new("a").unwrap().with_position(at)];
        PolicyDocument {
            global: PolicyLayer { deny, position: at, ..PolicyLayer::default() },
            ..PolicyDocument::default()
        }
    };
    assert_eq!(with(1).digest(), with(2).digest());
    assert_ne!(with(1).digest(), PolicyDocument::default().digest());
}

#[test]
fn an_explanation_names_layer_rule_and_place() {
    let at = |line| crate::FilePosition { line, column: 5 };
    let deny = vec![
        ToolPattern::new("x").unwrap(),
        ToolPattern::new("group:web").unwrap().with_position(at(12)),
    ];
    let roles =
        [("worker".to_owned(), PolicyLayer { deny, position: at(10), ..PolicyLayer::default() })];
    let policy =
        Policy::new(PolicyDocument { roles: roles.into(), ..PolicyDocument::default() }).unwrap();
    let (worker, org) = (with_roles(&["worker"]), Org::default());
    let traits = ToolTraits { scopes: vec![AccessScope::Network], ..ToolTraits::default() };
    let asking = PolicyRequest {
        caller: worker.caller(),
        rights: worker.rights_class(),
        caller_type: CallerType::Direct,
        tool: ToolFacts { org: &org, source: "s", name: "fetch", traits: &traits },
        arguments: &CallArguments::parse("{}").unwrap(),
        now: NOW,
        taint: SessionTaint::default(),
    };
    let told = policy.explain(&asking);
    let expected = DecisionExplanation {
        layer: Some("role `worker`".to_owned()),
        rule: Some("group:web".to_owned()),
        position: Some(at(12)),
        ..DecisionExplanation::new("hidden", DecisionReason::DenyRule)
    };
    assert_eq!(told, expected);
    assert_eq!(told.position.unwrap().line, 12);
}

#[test]
fn what_changed_is_told_rule_by_rule() {
    let scopes = [(
        AccessScope::Shell,
        ScopeRule { requires_approval: Some(false), ..ScopeRule::default() },
    )];
    let before = PolicyDocument {
        global: PolicyLayer { deny: patterns(&["a", "b"]), ..PolicyLayer::default() },
        scopes: scopes.into(),
        ..PolicyDocument::default()
    };
    let after = PolicyDocument {
        global: PolicyLayer {
            deny: patterns(&["b", "c"]),
            allow: Some(vec![]),
            ..PolicyLayer::default()
        },
        ..PolicyDocument::default()
    };
    let paths: Vec<_> =
        diff_documents(&before, &after).into_iter().map(|change| change.path).collect();
    assert_eq!(paths, ["allow", "deny[a]", "deny[c]", "scopes.shell.requires_approval"]);
    let again = PolicyDocument {
        global: PolicyLayer { deny: patterns(&["b", "a"]), ..PolicyLayer::default() },
        ..before.clone()
    };
    assert_eq!(diff_documents(&before, &again), []);
}

/// A key with a persona of its own that came of one with another is narrowed by the layers of both.
#[test]
fn both_personas_of_a_key_that_was_handed_on_narrow() {
    let persona = |name: &str, modules: &[&str]| {
        let modules = modules.iter().map(|module| (*module).to_owned());
        Some(Persona { name: name.to_owned(), allowed_modules: Some(modules.collect()) })
    };
    let id = |id: &str| KeyId::new(id).unwrap();
    let above = NewKey {
        id: id("above"),
        persona: persona("wide", &["a", "b"]),
        ..key(PermissionLevel::User)
    };
    let hand = identity::KeyDelegation { delegated_by: "above".to_owned(), ..Default::default() };
    let below = NewKey {
        id: id("below"),
        persona: persona("own", &["b", "c"]),
        ..key(PermissionLevel::User)
    };
    let below = NewKey { delegations: vec![hand], ..below };
    let records = [above, below].map(|key| key.issue_key([1; 32], WallTime(0)).unwrap().1);
    let ring = KeyRing::new(records);
    let (wide, both) =
        (ring.principal_of_key("above").unwrap(), ring.principal_of_key("below").unwrap());
    assert_eq!(both.rights_class().persona_names().collect::<Vec<_>>(), ["wide", "own"]);
    let deny = |name| PolicyLayer {
        deny: vec![ToolPattern::new(name).unwrap()],
        ..PolicyLayer::default()
    };
    let personas = [("wide".to_owned(), deny("x")), ("own".to_owned(), deny("y"))].into();
    let policy = Policy::new(PolicyDocument { personas, ..PolicyDocument::default() }).unwrap();
    let sees = |who: &Principal, source, name| {
        matches!(
            admit(&policy, who, source, name, &traits(PermissionLevel::User)),
            ToolAdmission::Visible(_)
        )
    };
    for (source, name, above, below) in
        [("b", "z", true, true), ("b", "x", false, false), ("b", "y", true, false)]
    {
        assert_eq!((sees(wide, source, name), sees(both, source, name)), (above, below), "{name}");
    }
    assert!(sees(wide, "a", "z") && !sees(both, "a", "z") && !sees(both, "c", "z"));
}
