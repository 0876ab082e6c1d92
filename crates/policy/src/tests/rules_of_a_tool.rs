//! The rules of a tool, found by an index and evaluated directly, against the plain way: each rule
//! is tried on the tool, and each condition is evaluated by CEL.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tool::{CallArguments, CallerType, Json, Org, PermissionLevel, ToolTraits, WallTime};

use super::differential::{count, principal, traits};
use super::random::{Dice, PATTERNS};
use super::{enter, key, patterns};
use crate::compiled_layer::CompiledRule;
use crate::condition::{ConditionInputs, OperandTable, ReferencedFields, RuleCondition};
use crate::decision::{PolicyDecision, decide_without_call};
use crate::effective_policy::VisibilityCheck;
use crate::rule_index::RuleIndex;
use crate::tool_selector::ClassifiedTool;
use crate::{
    DecisionReason, EffectivePolicy, FilePosition, LocatedName, Policy, PolicyDocument,
    PolicyLayer, PolicyRequest, PolicyRule, ResidualPolicy, RuleEffect, SessionTaint, TimeWindow,
    TimeWindowSpec, ToolAdmission, ToolFacts,
};

const NOON: WallTime = WallTime(1_795_305_600_000 + 12 * 3_600_000);

/// Conditions that are decided directly, wholly, in part or not at all.
fn term(dice: &mut Dice) -> String {
    let field =
        dice.one(&["args.s", "args.n", "args.b", "args.o.s", "args.l", "args['s']", "args.z"]);
    let text = dice.one(&["x", "y", "prod", ""]);
    let number = dice.below(4);
    match dice.below(22) {
        0..=2 => format!("{field} == '{text}'"),
        3 => format!("{field} != '{text}'"),
        4 => format!("'{text}' == {field}"),
        5 => format!("{field} == {number}"),
        6 => format!("{field} {} {number}", dice.one(&["<", "<=", ">", ">=", "!="])),
        7 => format!("{number} {} {field}", dice.one(&["<", "<=", ">", ">="])),
        8 => format!("{field}.{}('{text}')", dice.one(&["startsWith", "endsWith", "contains"])),
        9 => format!("{field} in ['x', '{text}']"),
        10 => {
            format!("has({})", dice.one(&["args.s", "args.z", "args.o.s", "args.o.z", "args.s.z"]))
        }
        11 => format!("'{text}' in principal.roles || 'dev' in principal.roles"),
        12 => format!("principal.level == '{}'", dice.one(&["owner", "user", "guest"])),
        13 => {
            format!("tool.{} == '{}'", dice.one(&["name", "source"]), dice.one(&["a", "s", "b.c"]))
        }
        14 => dice.one(&["taint.private", "taint.untrusted", "tool.destructive", "args.b", "true"]),
        15 => format!("via == '{}'", dice.one(&["direct", "chain"])),
        16 => format!("size({field}) == {number}"),
        17 => "args.l.exists(x, x == 'x')".to_owned(),
        18 => "args.l.exists(args, args == 'x')".to_owned(),
        19 => format!("principal.persona == '{}'", dice.one(&["clown", "judge"])),
        20 => "now.hour > 6".to_owned(),
        _ => format!("{field} == {}", dice.one(&["true", "false", "null", "1.0", "1u", "args.s"])),
    }
}

fn condition(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 || dice.once_in(3) {
        return term(dice);
    }
    let (left, right) = (condition(dice, depth - 1), condition(dice, depth - 1));
    match dice.below(5) {
        0 | 1 => format!("({left} && {right})"),
        2 | 3 => format!("({left} || {right})"),
        _ => format!("!({left})"),
    }
}

fn arguments(dice: &mut Dice) -> Value {
    let mut all = serde_json::Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            all.insert(name.to_owned(), value);
        }
    };
    let text = |dice: &mut Dice| json!(dice.one(&["x", "y", "prod", ""]));
    add("s", dice.maybe(2, text).or_else(|| dice.maybe(4, |_| Value::Null)));
    add(
        "n",
        dice.maybe(2, |dice| match dice.below(6) {
            0 => json!(1.5),
            1 => json!(18_446_744_073_709_551_615_u64),
            n => json!(n),
        }),
    );
    add("b", dice.maybe(2, |dice| json!(dice.once_in(2))));
    add("o", dice.maybe(2, |dice| if dice.once_in(2) { json!({ "s": "x" }) } else { json!({}) }));
    add("l", dice.maybe(2, |dice| json!(dice.some(&["x", "y"], 2))));
    // More than a condition may read.
    if dice.once_in(15) {
        add("l", Some(json!(vec!["x"; 1_001])));
    }
    Value::Object(all)
}

fn rule(dice: &mut Dice, at: usize) -> PolicyRule {
    let window = dice.maybe(5, |dice| {
        let hours = dice.one(&["00:00-06:00", "11:00-13:00"]);
        let spec = TimeWindowSpec { hours: Some(&hours), ..TimeWindowSpec::default() };
        TimeWindow::parse_window(spec).unwrap()
    });
    let located = |text| LocatedName { text, position: FilePosition::default() };
    PolicyRule {
        name: format!("r{at}"),
        effect: if dice.once_in(6) { RuleEffect::Deny } else { RuleEffect::RequireApproval },
        tools: dice.maybe(2, |dice| {
            let texts: Vec<_> = dice.some(PATTERNS, 3);
            patterns(
                &texts
                    .iter()
                    .map(String::as_str)
                    .filter(|it| !it.starts_with("group:g"))
                    .collect::<Vec<_>>(),
            )
        }),
        condition: dice.maybe(1, |dice| located(condition(dice, 2))),
        time_window: window,
        examples: Vec::new(),
        position: FilePosition::default(),
    }
}

fn policy(dice: &mut Dice, rules: usize) -> Policy {
    let mut layer = |rules: usize| PolicyLayer {
        rules: (0..rules).map(|at| rule(dice, at)).collect(),
        ..PolicyLayer::default()
    };
    Policy::new(PolicyDocument {
        global: layer(rules),
        roles: [("dev".to_owned(), layer(rules / 3)), ("ops".to_owned(), layer(2))].into(),
        orgs: [("acme".to_owned(), PolicyLayer { allow: Some(patterns(&["*"])), ..layer(1) })]
            .into(),
        ..PolicyDocument::default()
    })
    .unwrap()
}

/// What a decision is: the reason, the rule, and the error.
type Decided = (PolicyDecision, Option<String>, Option<String>);

/// The plain way: no index, no shared checks, CEL alone.
fn decide_plainly(
    lens: &EffectivePolicy<'_>,
    residual: &ResidualPolicy,
    request: &PolicyRequest<'_>,
) -> (usize, Decided) {
    let classified = ClassifiedTool::from_facts(request.tool);
    let layers = lens.checks.iter().filter_map(|gate| match gate.check {
        VisibilityCheck::Layer(layer) => Some(layer),
        _ => None,
    });
    let is_hiding = |rule: &CompiledRule| {
        rule.definition.effect == RuleEffect::Deny && rule.condition.is_none()
    };
    let rules: Vec<_> = layers
        .flat_map(|layer| &layer.rules)
        .filter(|rule| !is_hiding(rule) && rule.applies_to(&classified))
        .collect();
    let mut wants = ReferencedFields::default();
    for condition in rules.iter().filter_map(|rule| rule.condition.as_ref()) {
        wants.merge_with(&condition.referenced_fields);
    }
    let inputs = ConditionInputs::from_request(request, &wants);
    let mut held = None;
    for rule in rules.iter().filter(|rule| rule.is_active_at(request.now)) {
        let applies = rule.condition.as_ref().map_or(Ok(true), |condition| match &inputs {
            Ok(inputs) => condition.evaluate(inputs.cel_context()),
            Err(fault) => Err(fault.clone()),
        });
        let name = Some(rule.definition.name.clone());
        match (applies, rule.definition.effect) {
            (Ok(true), RuleEffect::Deny) => {
                return (rules.len(), (PolicyDecision::Deny(DecisionReason::Rule), name, None));
            }
            (Err(fault), _) => {
                let decision = PolicyDecision::Deny(DecisionReason::RuleFault);
                return (rules.len(), (decision, name, Some(fault.0)));
            }
            (Ok(true), RuleEffect::RequireApproval) => held = held.or(name),
            (Ok(false), _) => {}
        }
    }
    let decision = match (residual.approval_reason, &held) {
        (None, Some(_)) => (PolicyDecision::RequireApproval(DecisionReason::RuleHold), held, None),
        _ => (decide_without_call(residual), None, None),
    };
    (rules.len(), decision)
}

#[test]
fn indexed_rules_decide_as_the_plain_way_does() {
    let (policies, requests) = (count(150, 10_000), 40);
    let mut told = BTreeMap::<String, u64>::new();
    for seed in 0..policies {
        let mut dice = Dice::new(seed + 77);
        let most = if dice.once_in(3) { 40 } else { 3 };
        let rules = 1 + dice.below(most);
        let policy = policy(&mut dice, rules);
        for _ in 0..requests {
            let q = dice.request();
            let (who, traits, args) = (principal(&q), traits(&q.tool), arguments(&mut dice));
            let args = CallArguments::from_json(Json::encode(&args)).unwrap();
            let org = Org::new(&q.tool.org).unwrap();
            let request = PolicyRequest {
                caller: who.caller(),
                rights: who.rights_class(),
                caller_type: if q.chain { CallerType::Chain } else { CallerType::Direct },
                tool: ToolFacts {
                    org: &org,
                    source: &q.tool.source,
                    name: &q.tool.name,
                    traits: &traits,
                },
                arguments: &args,
                now: NOON,
                taint: SessionTaint {
                    has_untrusted: dice.once_in(2),
                    has_private: dice.once_in(2),
                },
            };
            let lens = policy.for_class(request.rights, request.caller_type, NOON);
            let ToolAdmission::Visible(residual) = lens.admit_tool(&request.tool) else {
                *told.entry("hidden".to_owned()).or_default() += 1;
                continue;
            };
            let (rules, plain) = decide_plainly(&lens, &residual, &request);
            let own = residual.decide_traced(&request);
            let name = own.rule.map(|rule| rule.definition.name.clone());
            assert_eq!((own.decision, name, own.evaluation_error), plain, "seed {seed}");
            assert_eq!(residual.rule_count(), rules, "seed {seed}");
            *told.entry(format!("{:?}", plain.0)).or_default() += 1;
        }
    }
    println!("{told:?}");
    for word in ["Deny(Rule)", "Deny(RuleFault)", "RequireApproval(RuleHold)", "Allow(Allowed)"] {
        assert!(told.get(word).is_some_and(|many| *many > 20), "{told:?}");
    }
}

#[test]
fn conditions_that_are_decided_directly_are_decided_as_cel_decides_them() {
    let q = Dice::new(5).request();
    let (who, traits) = (principal(&q), traits(&q.tool));
    let org = Org::new(&q.tool.org).unwrap();
    let mut told = BTreeMap::<(bool, Option<bool>), u64>::new();
    for seed in 0..count(6_000, 1_000_000) {
        let mut dice = Dice::new(seed + 1);
        let text = condition(&mut dice, 3);
        let Ok(condition) = RuleCondition::parse(&text, &mut OperandTable::default()) else {
            continue;
        };
        for _ in 0..4 {
            let json = arguments(&mut dice);
            let args = CallArguments::from_json(Json::encode(&json)).unwrap();
            let request = PolicyRequest {
                caller: who.caller(),
                rights: who.rights_class(),
                caller_type: CallerType::Direct,
                tool: ToolFacts {
                    org: &org,
                    source: &q.tool.source,
                    name: &q.tool.name,
                    traits: &traits,
                },
                arguments: &args,
                now: NOON,
                taint: SessionTaint { has_untrusted: true, has_private: false },
            };
            let wants = &condition.referenced_fields;
            let by_cel = ConditionInputs::from_request(&request, wants)
                .and_then(|inputs| condition.evaluate(inputs.cel_context()));
            let mut inputs = crate::condition::CallInputs::new(&request, wants);
            assert_eq!(inputs.evaluate(&condition), by_cel, "{text} on {json}");
            *told.entry((inputs.has_used_cel(), by_cel.ok())).or_default() += 1;
        }
    }
    println!("{told:?}");
    // Both ways are taken, with both results; only CEL reports errors of conditions.
    for seen in [
        (false, Some(true)),
        (false, Some(false)),
        (true, Some(true)),
        (true, Some(false)),
        (true, None),
    ] {
        assert!(told.get(&seen).is_some_and(|many| *many > 100), "{seen:?}: {told:?}");
    }
}

#[test]
fn a_tool_has_the_rules_that_name_it() {
    let mut found = 0;
    for seed in 0..count(300, 30_000) {
        let mut dice = Dice::new(seed + 3);
        let rules = 1 + dice.below(12);
        let policy = policy(&mut dice, rules);
        let rules = &policy.compiled().global.rules;
        let index = RuleIndex::new(rules.iter());
        for _ in 0..10 {
            let t = dice.tool();
            let (traits, org) = (traits(&t), Org::default());
            let seen = ClassifiedTool::from_facts(ToolFacts {
                org: &org,
                source: &t.source,
                name: &t.name,
                traits: &traits,
            });
            let specific = index.find_specific(&seen);
            let by_index = index.merge_rules(&specific).map(|rule| &rule.definition.name);
            let tried = rules.iter().filter(|rule| rule.applies_to(&seen));
            let tried: Vec<_> = tried.map(|rule| &rule.definition.name).collect();
            assert_eq!(by_index.collect::<Vec<_>>(), tried, "seed {seed}");
            found += specific.len();
        }
    }
    assert!(found > 1_000, "{found}");
}

/// A policy with this many conditional rules, each for one tool of its own or for all.
fn many_rules(rules: usize, names_tools: bool) -> Policy {
    let rule = |at: usize| PolicyRule {
        name: format!("r{at}"),
        effect: RuleEffect::Deny,
        tools: names_tools.then(|| {
            let texts = [format!("m{at}.send"), format!("m{at}.get*"), format!("source:m{at}")];
            patterns(&[texts[at % 3].as_str()])
        }),
        condition: Some(LocatedName {
            text: format!("args.s == 'v{at}'"),
            position: FilePosition::default(),
        }),
        time_window: None,
        examples: Vec::new(),
        position: FilePosition::default(),
    };
    let global = PolicyLayer { rules: (0..rules).map(rule).collect(), ..PolicyLayer::default() };
    Policy::new(PolicyDocument { global, ..PolicyDocument::default() }).unwrap()
}

#[test]
fn rules_of_other_tools_are_not_examined() {
    let who = enter(key(PermissionLevel::Owner));
    let (org, traits) = (Org::default(), ToolTraits::default());
    let examined = |rules: usize, names_tools: bool| {
        let policy = many_rules(rules, names_tools);
        let lens = policy.for_class(who.rights_class(), CallerType::Direct, NOON);
        let mut evaluated = 0;
        for at in 0..50 {
            for name in ["send", "get_all"] {
                let (source, name) = (format!("m{at}"), format!("m{at}.{name}"));
                let tool = ToolFacts { org: &org, source: &source, name: &name, traits: &traits };
                if let ToolAdmission::Visible(residual) = lens.admit_tool(&tool) {
                    evaluated += residual.rule_count();
                }
            }
        }
        (lens.examined_rules(), evaluated)
    };
    let (few, many) = (examined(50, true), examined(1_000, true));
    assert!(few.1 > 0, "{few:?}");
    assert_eq!(few, many);
    // The control: rules of every tool are examined once for all tools, and evaluated for each.
    assert_eq!((examined(50, false).1, examined(1_000, false).1), (100 * 50, 100 * 1_000));
    assert_eq!((examined(50, false).0, examined(1_000, false).0), (50, 1_000));
}
