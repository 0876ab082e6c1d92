//! `bench policy`: time of policy decisions, without network and disk.
//!
//! Admission is one lookup in an existing view. A rebuild creates a view, as after a change of
//! catalog or policy or for a new rights class. A decision is what a call needs: find the view,
//! find the tool, run the second stage. Further rows show the parts and the cost without any cache:
//! all six layers for one tool.

pub(crate) mod policy_fixture;
mod report;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::policy::{
    PolicyDecision, PolicyRequest, ResidualPolicy, SessionTaint, ToolAdmission, ToolFacts,
    decide_call,
};
use catalog::CatalogEntry;
use gateway::{CallRequest, CatalogView, Gateway};
use identity::Principal;
use tool::{CallArguments, CallerType, Interface};

use crate::system_stats;
use crate::target_check;
use policy_fixture::{
    NOW, build_caller, build_gateway, is_conditional, is_file_tool, is_plain, tool_name,
};
use report::{DecisionTimes, PolicyReport, PolicyResults};

pub(crate) const USAGE: &str = "usage: cargo xtask bench policy [--write]

  --write   also write the report, docs/reference/benchmarks-policy.md";

/// The size of one benchmark run.
#[derive(Debug, Clone, Copy)]
struct PolicyRunSize {
    /// Number of tools in the catalog.
    tools: usize,
    /// Numbers of rights classes that call in turn.
    classes: [usize; 3],
    /// Number of calls in one slice.
    calls: usize,
    /// Slices for each number of classes; the report shows the median.
    rounds: usize,
    /// Repetitions of an operation that takes nanoseconds.
    repetitions: usize,
}

const FULL_SIZES: PolicyRunSize = PolicyRunSize {
    tools: 10_000,
    classes: [1, 10, 1_000],
    calls: 10_000,
    rounds: 31,
    repetitions: 100_000,
};

/// Runs the benchmark, prints the report and writes it if requested.
pub(crate) async fn run_policy_bench(flags: &[&str]) -> Result<(), String> {
    let file = match flags {
        [] => None,
        ["--write", file] => Some(file),
        _ => return Err(USAGE.to_owned()),
    };
    let found = measure_policy(FULL_SIZES).await?;
    let text = PolicyReport { found, machine: system_stats::describe_machine() }.to_string();
    target_check::publish_report(&text, file.copied())
}

async fn measure_policy(sizes: PolicyRunSize) -> Result<PolicyResults, String> {
    let max_classes = sizes.classes.iter().copied().max().unwrap_or(1);
    let gateway = Arc::new(build_gateway(sizes.tools, max_classes)?);
    let callers = (0..max_classes).map(build_caller).collect::<Result<Vec<_>, _>>()?;
    let resident = || system_stats::process_memory(std::process::id()).0;
    let before = resident();
    let mut rebuilt: Vec<_> = callers.iter().map(|who| time_rebuild(&gateway, who)).collect();
    rebuilt.sort_unstable();
    // Keeps views that the cache evicted, so that the memory of all views is counted.
    let held: Vec<_> =
        callers.iter().map(|who| gateway.view_for(who, CallerType::Direct)).collect();
    let views = resident() - before;
    drop(held);
    let first = callers.first().ok_or("no caller")?;
    let view = gateway.view_for(first, CallerType::Direct);
    let names: Vec<_> = (0..sizes.tools).map(tool_name).collect();
    let mut turn = names.iter().cycle();
    let mut next = || turn.next().map_or("", String::as_str);
    let seen = names.iter().filter(|name| view.find_tool(name).is_some()).count();
    let admitted = median_nanos(sizes, sizes.repetitions, || {
        let _found = black_box(view.find_tool(next()));
    });
    let view_lookup = median_nanos(sizes, sizes.repetitions, || {
        let _found = black_box(gateway.view_for(first, CallerType::Direct).find_tool(next()));
    });
    let args = CallArguments::parse(r#"{"env":"prod","n":3,"paths":["/srv/a","/srv/b"]}"#);
    let args = args.map_err(|error| error.to_string())?;
    let decided =
        DecisionTimer { sizes, gateway: &gateway, view: &view, caller: first, args: &args };
    let times = DecisionTimes {
        admission: admitted,
        view_lookup,
        named_call: decided.decide_call(&names)?,
        six_layers: decided.decide_layers(&names, false)?,
        uncached_layers: decided.decide_layers(&names, true)?,
        second_stage: decided.decide_second_stage(&names, &is_plain)?,
        folder_rules: decided.decide_second_stage(&names, &is_file_tool)?,
        condition_rules: decided.decide_second_stage(&names, &is_conditional)?,
    };
    let rates = measure_rates(sizes, &gateway, &callers, &open_tools(&view, &names)).await?;
    let (tools, classes) = (sizes.tools, max_classes);
    Ok(PolicyResults {
        tools,
        classes,
        visible_tools: seen,
        rebuild_times: rebuilt,
        views_mib: views,
        times,
        rates,
    })
}

/// Returns the nanoseconds of one operation: the median over all rounds.
fn median_nanos(sizes: PolicyRunSize, often: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<_> = (0..sizes.rounds)
        .map(|_| {
            let begun = Instant::now();
            (0..often).for_each(|_| work());
            begun.elapsed().as_secs_f64() * 1e9 / often as f64
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn time_rebuild(gateway: &Gateway, who: &Principal) -> Duration {
    let begun = Instant::now();
    drop(black_box(gateway.view_for(who, CallerType::Direct)));
    begun.elapsed()
}

/// Measures the decisions of one caller.
struct DecisionTimer<'a> {
    sizes: PolicyRunSize,
    gateway: &'a Gateway,
    view: &'a CatalogView,
    caller: &'a Principal,
    args: &'a CallArguments,
}

impl<'a> DecisionTimer<'a> {
    fn policy_request(&self, entry: &'a CatalogEntry) -> PolicyRequest<'a> {
        PolicyRequest {
            caller: self.caller.caller(),
            rights: self.caller.rights_class(),
            caller_type: CallerType::Direct,
            tool: ToolFacts::from_tool(&entry.tool_key, &entry.tool),
            arguments: self.args,
            now: NOW,
            taint: SessionTaint::default(),
        }
    }

    /// Measures the complete decision of a call by name, for each visible tool in turn.
    fn decide_call(&self, names: &[String]) -> Result<f64, String> {
        let seen =
            names.iter().filter(|name| is_plain(name) && self.view.find_tool(name).is_some());
        let seen: Vec<_> = seen.collect();
        let mut turn = seen.iter().cycle();
        if seen.is_empty() {
            return Err("no tool is seen".to_owned());
        }
        Ok(median_nanos(self.sizes, self.sizes.repetitions, || {
            let view = self.gateway.view_for(black_box(self.caller), CallerType::Direct);
            let found = turn.next().and_then(|name| view.find_tool(black_box(name)));
            let decided = found.map(|(entry, residual)| {
                let args = self.args;
                let tool = ToolFacts::from_tool(&entry.tool_key, &entry.tool);
                let (caller, rights) = (self.caller.caller(), self.caller.rights_class());
                let (by, now, taint) = (CallerType::Direct, NOW, SessionTaint::default());
                decide_call(
                    residual,
                    &PolicyRequest {
                        caller,
                        rights,
                        caller_type: by,
                        tool,
                        arguments: args,
                        now,
                        taint,
                    },
                )
            });
            let _decided = black_box(decided);
        }))
    }

    /// Measures both stages without cached results of the tool and, if `anew`, of the caller's
    /// layers.
    fn decide_layers(&self, names: &[String], anew: bool) -> Result<f64, String> {
        let found =
            names.iter().filter(|name| is_plain(name)).filter_map(|name| self.view.find_tool(name));
        let all: Vec<_> = found.map(|(entry, _)| self.policy_request(entry)).collect();
        let mut turn = all.iter().cycle();
        let rights = self.caller.rights_class();
        let lens = || self.view.policy().for_class(rights, CallerType::Direct, NOW);
        let (kept, first) = (lens(), all.first().ok_or("no tool is seen")?);
        Ok(median_nanos(self.sizes, self.sizes.repetitions / 10, || {
            let asking = black_box(turn.next().unwrap_or(first));
            let admitted =
                if anew { lens().admit_tool(&asking.tool) } else { kept.admit_tool(&asking.tool) };
            let decided = match admitted {
                ToolAdmission::Visible(residual) => Some(decide_call(&residual, asking)),
                ToolAdmission::Hidden(_) => None,
            };
            let _decided = black_box(decided);
        }))
    }

    /// Measures the second stage alone, for the tools of one kind in turn.
    fn decide_second_stage(
        &self,
        names: &[String],
        kind: &dyn Fn(&str) -> bool,
    ) -> Result<f64, String> {
        let found =
            names.iter().filter(|name| kind(name)).filter_map(|name| self.view.find_tool(name));
        let all: Vec<(&ResidualPolicy, PolicyRequest<'_>)> =
            found.map(|(entry, residual)| (residual, self.policy_request(entry))).collect();
        let first = all.first().ok_or("no tool of a kind is seen")?;
        // Every request is allowed, so that all rules are evaluated.
        let denied = |(residual, asking): &&(&ResidualPolicy, PolicyRequest<'_>)| {
            matches!(decide_call(residual, asking), PolicyDecision::Deny(_))
        };
        if all.iter().find(denied).is_some() {
            return Err("a tool that is measured is denied".to_owned());
        }
        let mut turn = all.iter().cycle();
        Ok(median_nanos(self.sizes, self.sizes.repetitions / 10, || {
            let (residual, asking) = black_box(turn.next().unwrap_or(first));
            let _decided = black_box(decide_call(residual, asking));
        }))
    }
}

/// Returns tools that need no approval.
fn open_tools<'a>(view: &CatalogView, names: &'a [String]) -> Vec<&'a str> {
    let free = |name: &&str| {
        let found = view.find_tool(name);
        is_plain(name) && found.is_some_and(|(_, residual)| residual.approval_reason.is_none())
    };
    names.iter().map(String::as_str).filter(free).take(100).collect()
}

/// Measures calls per second for each number of classes, slice by slice in turn. All views exist
/// already.
async fn measure_rates(
    sizes: PolicyRunSize,
    gateway: &Arc<Gateway>,
    callers: &[Principal],
    open: &[&str],
) -> Result<Vec<(usize, Vec<f64>)>, String> {
    let mut rates: Vec<_> = sizes.classes.iter().map(|classes| (*classes, Vec::new())).collect();
    for round in 0..sizes.rounds {
        // Alternates the order, so that no row always follows the same other.
        if round > 0 {
            rates.reverse();
        }
        for (classes, rates) in &mut rates {
            let callers = callers.iter().take(*classes).cycle();
            let begun = Instant::now();
            for (who, name) in callers.zip(open.iter().cycle()).take(sizes.calls) {
                let request = CallRequest::new(*name, "{}", Interface::Library);
                let answer = black_box(gateway.call_tool(who, request).await);
                answer.result.map_err(|failure| format!("`{name}`: {}", failure.message))?;
            }
            rates.push(sizes.calls as f64 / begun.elapsed().as_secs_f64());
        }
    }
    rates.sort_unstable_by_key(|(classes, _)| *classes);
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::report::PolicyReport;
    use super::{PolicyRunSize, measure_policy};

    #[tokio::test]
    async fn every_figure_of_a_small_run_is_there() {
        let sizes =
            PolicyRunSize { tools: 500, classes: [1, 2, 3], calls: 50, rounds: 2, repetitions: 40 };
        let found = measure_policy(sizes).await.unwrap();
        assert!(found.visible_tools > 100, "{found:?}");
        assert_eq!(found.rebuild_times.len(), 3);
        assert!(found.rates.iter().all(|(_, rates)| rates.len() == 2), "{found:?}");
        let text = PolicyReport { found, machine: "two cores".to_owned() }.to_string();
        assert_eq!(text.matches("\n| ").count(), 18, "{text}");
    }
}
