//! The table of `docs/guide/policy.md` that says what needs an approval, against the code.

use std::collections::BTreeSet;

use identity::NewKey;
use serde_json::json;
use tool::{AccessScope, PermissionLevel, SafetyLevel, SideEffect, SideEffects, ToolTraits};

use super::{called, enter, key};
use crate::{Policy, PolicyDecision, PolicyDocument, ScopeRule, ToolAdmission};

/// A row: what the tool has, its effects, whether it needs an approval, the reason, the setting.
struct Row {
    has: String,
    effects: String,
    approval: bool,
    reason: String,
    setting: String,
}

fn rows() -> Vec<Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/policy.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let section = guide.split("## What needs an approval").nth(1).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with("| --- |")).skip(1);
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        let mut cell = || cells.next().unwrap();
        let (has, effects, approval, reason) = (cell(), cell(), cell(), cell());
        let approval = match approval.split(':').next().unwrap() {
            "yes" => true,
            "no" => false,
            other => panic!("{other}"),
        };
        Row { has, effects, approval, reason: reason.trim_matches('`').to_owned(), setting: cell() }
    };
    lines.take_while(|line| line.starts_with('|')).map(row).collect()
}

fn speaks_of(row: &Row, traits: &ToolTraits) -> bool {
    let words = traits.effects.effect_names();
    let only = |allowed: &[&str]| words.iter().all(|word| allowed.contains(word));
    let reads = only(&["read_only", "calls_llm", "network_access"])
        && (words.is_empty() || words.contains(&"read_only"));
    let runs = words.contains(&"local_exec") && only(&["local_exec", "read_only"]);
    let effects = match row.effects.as_str() {
        "any" => true,
        "only `local_exec`" => runs,
        "others, or not declared" => !reads && !runs,
        _ => reads,
    };
    let has = match row.has.as_str() {
        "`safety: safe`" => traits.safety == SafetyLevel::Safe,
        "`safety: cautious`" => traits.safety == SafetyLevel::Cautious,
        "`safety: dangerous`" => traits.safety == SafetyLevel::Dangerous,
        "`destructive: true`" => traits.is_destructive,
        "`requires_approval: true`" => traits.requires_approval,
        permission => {
            let word = permission.strip_prefix("permission `").unwrap().trim_end_matches('`');
            traits.scopes.contains(&word.parse::<AccessScope>().unwrap())
        }
    };
    has && effects
}

/// What the table says of a tool, with `settings` for some permissions.
fn by_the_table(
    rows: &[Row],
    traits: &ToolTraits,
    settings: &[(AccessScope, bool)],
) -> BTreeSet<String> {
    let speaking = rows.iter().filter(|row| speaks_of(row, traits));
    let needs = |row: &&Row| {
        let set = settings.iter().find(|(scope, _)| {
            row.setting == format!("`policy.permissions.{scope}.requires_approval`")
        });
        set.map_or(row.approval, |(_, needs)| *needs)
    };
    speaking.filter(needs).map(|row| row.reason.clone()).collect()
}

/// Every combination of level, flag, source's wish and permissions, with this number.
fn tool(number: usize, effects: &SideEffects) -> ToolTraits {
    let scope = |at: &usize| number >> *at & 1 == 1;
    let scopes = (0..4).filter(scope).map(|at| AccessScope::ALL[at]).collect();
    let safety = SafetyLevel::ALL[number >> 6];
    let (destructive, approval) = (number >> 4 & 1 == 1, number >> 5 & 1 == 1);
    ToolTraits {
        scopes,
        safety,
        is_destructive: destructive,
        requires_approval: approval,
        effects: effects.clone(),
        ..ToolTraits::default()
    }
}

/// Undeclared, and every set of declared effects.
fn effects() -> Vec<SideEffects> {
    let all = SideEffect::ALL;
    let sets = (0..1_usize << all.len()).map(|set| {
        let effects = all.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        SideEffects::Declared(effects.map(|(_, effect)| *effect).collect())
    });
    std::iter::once(SideEffects::Unknown).chain(sets).collect()
}

#[test]
fn the_table_of_the_guide_is_what_the_policy_decides_in_every_combination() {
    let rows = rows();
    assert_eq!(rows.len(), 11);
    let ann = enter(NewKey { ..key(PermissionLevel::Owner) });
    let (mut tools, mut held, mut cautious) = (0, 0, 0);
    let settings =
        AccessScope::ALL.iter().flat_map(|scope| [vec![(*scope, true)], vec![(*scope, false)]]);
    let every =
        |needs| AccessScope::ALL.iter().map(move |scope| (*scope, needs)).collect::<Vec<_>>();
    let settings = settings.chain([vec![], every(true), every(false)]);
    for settings in settings {
        let rule = |needs| ScopeRule { requires_approval: Some(needs), ..ScopeRule::default() };
        let scopes = settings.iter().map(|(scope, needs)| (*scope, rule(*needs))).collect();
        let policy = Policy::new(PolicyDocument { scopes, ..PolicyDocument::default() }).unwrap();
        for effects in effects() {
            for traits in (0..3 << 6).map(|number| tool(number, &effects)) {
                let expected = by_the_table(&rows, &traits, &settings);
                let admission = super::admit(&policy, &ann, "s", "n", &traits);
                let ToolAdmission::Visible(residual) = admission else { panic!("{traits:?}") };
                let holds =
                    residual.tool_approval_reasons.iter().map(|reason| reason.as_str().to_owned());
                let holds: BTreeSet<_> = holds.collect();
                assert_eq!(holds, expected, "{settings:?} {traits:?}");
                match called(&policy, &ann, ("n", &traits), &json!({})) {
                    PolicyDecision::RequireApproval(reason) => {
                        assert!(expected.contains(reason.as_str()));
                        held += 1;
                    }
                    PolicyDecision::Allow(reason) => {
                        assert!(expected.is_empty(), "{traits:?}");
                        let is_cautious = traits.safety == SafetyLevel::Cautious;
                        assert_eq!(
                            reason.as_str(),
                            ["allowed", "caution"][usize::from(is_cautious)]
                        );
                        cautious += usize::from(is_cautious);
                    }
                    PolicyDecision::Deny(reason) => panic!("{reason}"),
                }
                tools += 1;
            }
        }
    }
    assert_eq!(tools, 11 * 65 * 192);
    assert!(held > 0 && held < tools && cautious > 0);
}

/// The reason of a permission names it and the setting; the table names the same setting.
#[test]
fn the_reason_of_a_permission_names_it_and_its_setting() {
    let rows = rows();
    for scope in AccessScope::ALL {
        let reason = crate::DecisionReason::scope_approval(*scope);
        let setting = format!("`policy.permissions.{scope}.requires_approval`");
        assert_eq!(
            reason.text(),
            format!("the tool uses the permission `{scope}`, which needs an approval ({setting})")
        );
        let row = rows.iter().find(|row| row.reason == reason.as_str()).unwrap();
        assert_eq!(row.setting, setting);
    }
}

/// The safety-level library's table: safe runs, cautious runs and is logged, dangerous needs an
/// approval. The three cautious tools of its Lisp image run code and nothing else.
#[test]
fn a_cautious_tool_that_only_runs_code_needs_no_approval_in_a_plugin_that_writes_files() {
    let ann = enter(key(PermissionLevel::User));
    let decided = |policy: &Policy, effects: &[SideEffect]| {
        let scopes = vec![AccessScope::Filesystem];
        let effects = SideEffects::Declared(effects.to_vec());
        let traits =
            ToolTraits { safety: SafetyLevel::Cautious, scopes, effects, ..ToolTraits::default() };
        called(policy, &ann, ("lisp_image.eval_form", &traits), &json!({"form": "(+ 1 2)"}))
    };
    let plain = Policy::default();
    assert_eq!(
        decided(&plain, &[SideEffect::LocalExec]),
        PolicyDecision::Allow(crate::DecisionReason::Caution)
    );
    // The control: what says that it writes files, and an operator who asks for approvals.
    let held = PolicyDecision::RequireApproval(crate::DecisionReason::FilesystemApproval);
    assert_eq!(decided(&plain, &[SideEffect::LocalExec, SideEffect::ModifiesFiles]), held);
    let rule = ScopeRule { requires_approval: Some(true), ..ScopeRule::default() };
    let scopes = [(AccessScope::Filesystem, rule)].into();
    let strict = Policy::new(PolicyDocument { scopes, ..PolicyDocument::default() }).unwrap();
    assert_eq!(decided(&strict, &[SideEffect::LocalExec]), held);
}
