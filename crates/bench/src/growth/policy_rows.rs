//! Growth with the number of conditional rules: decisions on calls, and first lists of rights classes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ::policy::{
    FilePosition, LocatedName, Policy, PolicyDocument, PolicyLayer, PolicyRequest, PolicyRule,
    RuleEffect, SessionTaint, ToolFacts, ToolPattern, decide_call,
};
use gateway::{CatalogView, Gateway};
use identity::Principal;
use tool::{CallArguments, CallerType};

use crate::policy::policy_fixture::{NOW, build_caller, gateway_with_policy, tool_name};

use super::growth_row::{GrowthPoint, GrowthRow};

/// Which tools the rules of a policy name.
#[derive(Debug, Clone, Copy)]
enum RuleTargets {
    /// Each names one tool.
    OneTool,
    /// Each names the tools whose names begin alike.
    Prefix,
    /// Each names no tool, and so concerns all; its condition compares an argument.
    EveryTool,
}

/// The tool that is called: each policy has a rule for it.
const MEASURED_TOOL: usize = 1;

/// Sizes of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolicySizes {
    pub(super) tools: usize,
    pub(super) rules: [usize; 3],
    /// Rights classes whose views are built; the report has the median.
    pub(super) classes: usize,
    /// Decisions on calls in one slice.
    pub(super) calls: usize,
}

/// Measures the rows of all kinds of rules.
pub(super) fn measure_policy_rows(sizes: PolicySizes) -> Result<Vec<GrowthRow>, String> {
    let mut rows = Vec::new();
    for (targets, call, list) in [
        (
            RuleTargets::OneTool,
            ("decision on a call; each rule names one tool", 0.05),
            ("first list of a rights class; each rule names one tool", 0.1),
        ),
        (
            RuleTargets::Prefix,
            ("decision on a call; each rule names a prefix", 0.05),
            ("first list of a rights class; each rule names a prefix", 0.1),
        ),
        (
            RuleTargets::EveryTool,
            ("decision on a call; each rule concerns every tool", 1.05),
            ("first list of a rights class; each rule concerns every tool", 0.1),
        ),
    ] {
        let row = |(name, exponent_limit), counts| GrowthRow {
            name,
            grows: "rules",
            counts,
            exponent_limit,
            points: Vec::new(),
        };
        let mut calls = row(call, "rules evaluated");
        let mut lists = row(list, "rules examined for one more tool");
        for rules in sizes.rules {
            let (call, list) = measure_rules(sizes, targets, rules)?;
            calls.points.push(call);
            lists.points.push(list);
        }
        rows.extend([calls, lists]);
    }
    Ok(rows)
}

fn measure_rules(
    sizes: PolicySizes,
    targets: RuleTargets,
    rules: usize,
) -> Result<(GrowthPoint, GrowthPoint), String> {
    let policy = build_policy(sizes, targets, rules)?;
    let gateway = gateway_with_policy(sizes.tools, policy)?;
    let callers = (0..sizes.classes).map(build_caller).collect::<Result<Vec<_>, _>>()?;
    let mut times: Vec<_> = callers.iter().map(|caller| time_view(&gateway, caller)).collect();
    times.sort_unstable();
    let list_time = times.get(times.len() / 2).copied().unwrap_or_default();
    let caller = callers.first().ok_or("no caller")?;
    let view = gateway.view_for(caller, CallerType::Direct);
    let examined = examined_rules(&view, caller)?;
    let list = GrowthPoint { size: rules, micros: micros(list_time), count: examined };
    Ok((measure_call(sizes, &view, caller, rules)?, list))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn time_view(gateway: &Gateway, caller: &Principal) -> Duration {
    let begun = Instant::now();
    drop(black_box(gateway.view_for(caller, CallerType::Direct)));
    begun.elapsed()
}

/// Returns the rules examined to admit one more tool.
fn examined_rules(view: &CatalogView, caller: &Principal) -> Result<f64, String> {
    let policy = view.policy().for_class(caller.rights_class(), CallerType::Direct, NOW);
    let mut examined = 0;
    for tool in [MEASURED_TOOL + 1, MEASURED_TOOL] {
        let found = view.full_catalog().find_tool(&tool_name(tool));
        let (_, entry) = found.ok_or("a tool is not in the catalog")?;
        let before = policy.examined_rules();
        drop(policy.admit_tool(&ToolFacts::from_tool(&entry.tool_key, &entry.tool)));
        examined = policy.examined_rules() - before;
    }
    Ok(examined as f64)
}

fn measure_call(
    sizes: PolicySizes,
    view: &CatalogView,
    caller: &Principal,
    rules: usize,
) -> Result<GrowthPoint, String> {
    let arguments = CallArguments::parse(r#"{"env":"prod","n":3,"path":"/srv/a"}"#);
    let arguments = arguments.map_err(|error| error.to_string())?;
    let (entry, residual) =
        view.find_tool(&tool_name(MEASURED_TOOL)).ok_or("the tool is hidden")?;
    let request = PolicyRequest {
        caller: caller.caller(),
        rights: caller.rights_class(),
        caller_type: CallerType::Direct,
        tool: ToolFacts::from_tool(&entry.tool_key, &entry.tool),
        arguments: &arguments,
        now: NOW,
        taint: SessionTaint::default(),
    };
    let mut slices: Vec<_> = (0..5)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..sizes.calls {
                let _decision = black_box(decide_call(black_box(residual), &request));
            }
            micros(begun.elapsed()) / sizes.calls.max(1) as f64
        })
        .collect();
    slices.sort_unstable_by(f64::total_cmp);
    let median = slices.get(slices.len() / 2).copied().unwrap_or_default();
    Ok(GrowthPoint { size: rules, micros: median, count: residual.rule_count() as f64 })
}

/// Builds a policy with this many conditional rules, and a role for each rights class.
fn build_policy(sizes: PolicySizes, targets: RuleTargets, rules: usize) -> Result<Policy, String> {
    let rule = |at: usize| {
        let step = (sizes.tools / rules.max(1)).max(1);
        let (pattern, condition) = match targets {
            RuleTargets::OneTool => {
                (Some(tool_name(MEASURED_TOOL + at * step)), "args.n > 5".to_owned())
            }
            RuleTargets::Prefix => {
                (Some(format!("module{}.tool{at}*", at % 50)), "args.n > 5".to_owned())
            }
            RuleTargets::EveryTool => (None, format!("args.env == 'env{at}'")),
        };
        let patterns = pattern.map(|text| Ok::<_, String>(vec![ToolPattern::new(text)?]));
        Ok::<_, String>(PolicyRule {
            name: format!("rule {at}"),
            effect: RuleEffect::Deny,
            tools: patterns.transpose()?,
            condition: Some(LocatedName { text: condition, position: FilePosition::default() }),
            time_window: None,
            examples: Vec::new(),
            position: FilePosition::default(),
        })
    };
    let rules = (0..rules).map(rule).collect::<Result<_, _>>()?;
    let roles = (0..sizes.classes).map(|at| (format!("r{at}"), PolicyLayer::default()));
    let document = PolicyDocument {
        global: PolicyLayer { rules, ..PolicyLayer::default() },
        roles: roles.collect(),
        ..PolicyDocument::default()
    };
    Policy::new(document).map_err(|diagnostics| format!("{diagnostics:?}"))
}
