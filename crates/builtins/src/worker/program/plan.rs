//! Static analysis of a script: which tools it calls and in which waves the calls may run.
//!
//! Only scripts that consist of simple calls have waves. All others run as Python, in order.

mod plain;
mod waves;

use std::collections::BTreeMap;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, ModModule};
use serde::{Deserialize, Serialize};

use plain::{Statements, Step};

/// Functions that call a tool by its name as text.
const BY_NAME: [&str; 2] = ["TOOL", "CALL"];

#[derive(Deserialize)]
pub(super) struct Asked {
    pub(super) code: String,
    /// Traits of the known functions, by name.
    functions: BTreeMap<String, Function>,
    /// Names that have a value at the start.
    inputs: Vec<String>,
    mode: Mode,
    /// Whether read-only calls may run in parallel.
    parallel: bool,
    /// Whether calls with effects may run in parallel too.
    parallel_mutations: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Function {
    read_only: bool,
    /// Whether a program may call it.
    chain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Seq,
    Dep,
    Legacy,
    ParallelReadOnly,
}

impl Asked {
    /// Returns the functions that the script can call.
    pub(super) fn names(&self) -> Vec<String> {
        let by_name = BY_NAME.into_iter().map(str::to_owned);
        self.functions.keys().cloned().chain(by_name).collect()
    }
}

/// Result of the analysis.
#[derive(Serialize)]
pub(super) struct Plan {
    /// Called functions in source order, with repetitions.
    called: Vec<String>,
    /// Functions that programs may not call, sorted.
    blocked: Vec<String>,
    /// Whether all called functions are read-only.
    read_only: bool,
    used: Mode,
    /// Whether waves were requested but are not possible.
    fallback: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    waves: Option<Waves>,
}

#[derive(Serialize)]
struct Waves {
    steps: Vec<Step>,
    /// Indices of the steps, grouped by wave.
    order: Vec<Vec<usize>>,
    /// Value of the script, if it ends with an expression.
    value: Option<plain::Plain>,
    /// Whether the value of the last call is the value of the script.
    last: bool,
}

impl Plan {
    /// Returns whether the script may run, without waves.
    pub(super) fn runs_as_python(&self) -> bool {
        self.waves.is_none() && self.blocked.is_empty()
    }
}

pub(super) fn plan(asked: &Asked) -> Plan {
    // Syntax errors are reported with their position when the script runs.
    let Ok(parsed) = ruff_python_parser::parse_module(&asked.code) else {
        return seq(Calls::default(), asked.mode == Mode::Dep);
    };
    let module = parsed.into_syntax();
    let calls = calls(&module, &asked.functions);
    let wanted = match asked.mode {
        Mode::Dep => Mode::Dep,
        Mode::Seq if asked.parallel && calls.read_only => Mode::ParallelReadOnly,
        _ => return seq(calls, false),
    };
    match waves(&module, asked, wanted) {
        Some(waves) if calls.blocked.is_empty() => {
            Plan { waves: Some(waves), ..base(calls, wanted, false) }
        }
        _ => seq(calls, wanted == Mode::Dep),
    }
}

fn seq(calls: Calls<'_>, fallback: bool) -> Plan {
    base(calls, Mode::Seq, fallback)
}

fn base(calls: Calls<'_>, used: Mode, fallback: bool) -> Plan {
    let Calls { called, mut blocked, read_only, .. } = calls;
    blocked.sort();
    blocked.dedup();
    Plan { called, blocked, read_only, used, fallback, waves: None }
}

fn waves(module: &ModModule, asked: &Asked, wanted: Mode) -> Option<Waves> {
    let Statements { steps, value, last } = plain::statements(module, asked)?;
    if steps.len() < 2 {
        return None;
    }
    let effects = |step: &Step| !asked.functions.get(&step.function).is_some_and(|it| it.read_only);
    let order = waves::order(&steps, effects, asked.parallel_mutations);
    // Read-only calls run in parallel only if none depends on another.
    let fits = wanted == Mode::Dep || order.len() == 1;
    fits.then_some(Waves { steps, order, value, last })
}

/// Collects the tool calls of a script.
struct Calls<'a> {
    functions: Option<&'a BTreeMap<String, Function>>,
    called: Vec<String>,
    blocked: Vec<String>,
    read_only: bool,
}

impl Default for Calls<'_> {
    fn default() -> Self {
        Self { functions: None, called: Vec::new(), blocked: Vec::new(), read_only: true }
    }
}

fn calls<'a>(module: &'a ModModule, functions: &'a BTreeMap<String, Function>) -> Calls<'a> {
    let mut calls = Calls { functions: Some(functions), ..Calls::default() };
    calls.visit_body(&module.body);
    calls
}

impl Calls<'_> {
    fn note(&mut self, name: &str, shown: impl FnOnce() -> String) {
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

impl<'a> Visitor<'a> for Calls<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(ExprCall { func, arguments, .. }) = expr
            && let Expr::Name(name) = &**func
        {
            let name = name.id.as_str();
            if BY_NAME.contains(&name) {
                match arguments.args.first() {
                    Some(Expr::StringLiteral(text)) => {
                        let tool = text.value.to_str().to_owned();
                        self.note(&tool, || format!("{name}({tool})"));
                    }
                    _ => self.note("", || format!("{name}(dynamic)")),
                }
            } else if self.functions.is_some_and(|it| it.contains_key(name)) {
                self.note(name, || name.to_owned());
            }
        }
        visitor::walk_expr(self, expr);
    }
}
