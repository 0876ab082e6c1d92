//! Static analysis of a script: which tools it calls and in which waves the calls may run.
//!
//! Only scripts that consist of simple calls have waves. All others run as Python, in order.

mod simple_statements;
mod wave_order;

use std::collections::BTreeMap;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, ModModule};
use serde::{Deserialize, Serialize};

use simple_statements::{PlannedCall, SimpleScript};

/// Functions that call a tool by its name as text.
const CALL_BY_NAME_FUNCTIONS: [&str; 2] = ["TOOL", "CALL"];

#[derive(Deserialize)]
pub(super) struct ScriptAnalysisRequest {
    pub(super) code: String,
    /// Traits of the known functions, by name.
    functions: BTreeMap<String, AnalyzedFunction>,
    /// Names that have a value at the start.
    inputs: Vec<String>,
    mode: SchedulingMode,
    /// Whether read-only calls may run in parallel.
    parallel: bool,
    /// Whether calls with effects may run in parallel too.
    parallel_mutations: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct AnalyzedFunction {
    read_only: bool,
    /// Whether a program may call it.
    chain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum SchedulingMode {
    Seq,
    Dep,
    Legacy,
    ParallelReadOnly,
}

impl ScriptAnalysisRequest {
    /// Returns the functions that the script can call.
    pub(super) fn function_names(&self) -> Vec<String> {
        let by_name = CALL_BY_NAME_FUNCTIONS.into_iter().map(str::to_owned);
        self.functions.keys().cloned().chain(by_name).collect()
    }
}

/// Result of the analysis.
#[derive(Serialize)]
pub(super) struct ScriptAnalysis {
    /// Called functions in source order, with repetitions.
    called: Vec<String>,
    /// Functions that programs may not call, sorted.
    blocked: Vec<String>,
    /// Whether all called functions are read-only.
    read_only: bool,
    used: SchedulingMode,
    /// Whether waves were requested but are not possible.
    fallback: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    waves: Option<WaveSchedule>,
}

#[derive(Serialize)]
struct WaveSchedule {
    steps: Vec<PlannedCall>,
    /// Indices of the steps, grouped by wave.
    order: Vec<Vec<usize>>,
    /// Value of the script, if it ends with an expression.
    value: Option<simple_statements::LiteralTemplate>,
    /// Whether the value of the last call is the value of the script.
    last: bool,
}

impl ScriptAnalysis {
    /// Returns whether the script may run, without waves.
    pub(super) fn runs_as_python(&self) -> bool {
        self.waves.is_none() && self.blocked.is_empty()
    }
}

pub(super) fn plan_script(request: &ScriptAnalysisRequest) -> ScriptAnalysis {
    // Syntax errors are reported with their position when the script runs.
    let Ok(parsed) = ruff_python_parser::parse_module(&request.code) else {
        return sequential_plan(CallCollector::default(), request.mode == SchedulingMode::Dep);
    };
    let module = parsed.into_syntax();
    let calls = collect_calls(&module, &request.functions);
    let wanted = match request.mode {
        SchedulingMode::Dep => SchedulingMode::Dep,
        SchedulingMode::Seq if request.parallel && calls.read_only => {
            SchedulingMode::ParallelReadOnly
        }
        _ => return sequential_plan(calls, false),
    };
    match plan_waves(&module, request, wanted) {
        Some(waves) if calls.blocked.is_empty() => {
            ScriptAnalysis { waves: Some(waves), ..plan_from_calls(calls, wanted, false) }
        }
        _ => sequential_plan(calls, wanted == SchedulingMode::Dep),
    }
}

fn sequential_plan(calls: CallCollector<'_>, fallback: bool) -> ScriptAnalysis {
    plan_from_calls(calls, SchedulingMode::Seq, fallback)
}

fn plan_from_calls(
    calls: CallCollector<'_>,
    used: SchedulingMode,
    fallback: bool,
) -> ScriptAnalysis {
    let CallCollector { called, mut blocked, read_only, .. } = calls;
    blocked.sort();
    blocked.dedup();
    ScriptAnalysis { called, blocked, read_only, used, fallback, waves: None }
}

fn plan_waves(
    module: &ModModule,
    asked: &ScriptAnalysisRequest,
    wanted: SchedulingMode,
) -> Option<WaveSchedule> {
    let SimpleScript { steps, value, last } = simple_statements::parse_statements(module, asked)?;
    if steps.len() < 2 {
        return None;
    }
    let effects =
        |step: &PlannedCall| !asked.functions.get(&step.function).is_some_and(|it| it.read_only);
    let order = wave_order::order_waves(&steps, effects, asked.parallel_mutations);
    // Read-only calls run in parallel only if none depends on another.
    let fits = wanted == SchedulingMode::Dep || order.len() == 1;
    fits.then_some(WaveSchedule { steps, order, value, last })
}

/// Collects the tool calls of a script.
struct CallCollector<'a> {
    functions: Option<&'a BTreeMap<String, AnalyzedFunction>>,
    called: Vec<String>,
    blocked: Vec<String>,
    read_only: bool,
}

impl Default for CallCollector<'_> {
    fn default() -> Self {
        Self { functions: None, called: Vec::new(), blocked: Vec::new(), read_only: true }
    }
}

fn collect_calls<'a>(
    module: &'a ModModule,
    functions: &'a BTreeMap<String, AnalyzedFunction>,
) -> CallCollector<'a> {
    let mut calls = CallCollector { functions: Some(functions), ..CallCollector::default() };
    calls.visit_body(&module.body);
    calls
}

impl CallCollector<'_> {
    fn record_call(&mut self, name: &str, shown: impl FnOnce() -> String) {
        let found = self.functions.and_then(|it| it.get(name)).copied();
        let read_only = found.is_some_and(|it| it.read_only);
        let chain = found.is_some_and(|it| it.chain);
        self.called.push(name.to_owned());
        self.read_only &= read_only;
        // Read-only functions too: their source did not allow calls from programs.
        if !chain {
            self.blocked.push(shown());
        }
    }
}

impl<'a> Visitor<'a> for CallCollector<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(ExprCall { func, arguments, .. }) = expr
            && let Expr::Name(name) = &**func
        {
            let name = name.id.as_str();
            if CALL_BY_NAME_FUNCTIONS.contains(&name) {
                match arguments.args.first() {
                    Some(Expr::StringLiteral(text)) => {
                        let tool = text.value.to_str().to_owned();
                        self.record_call(&tool, || format!("{name}({tool})"));
                    }
                    _ => self.record_call("", || format!("{name}(dynamic)")),
                }
            } else if self.functions.is_some_and(|it| it.contains_key(name)) {
                self.record_call(name, || name.to_owned());
            }
        }
        visitor::walk_expr(self, expr);
    }
}
