//! What a script calls, and in which waves its calls may run, found out without running any of it.
//!
//! Waves are for scripts that are nothing but calls: what is not plainly so runs as Python, in order.

mod plain;
mod waves;

use std::collections::BTreeMap;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, ModModule};
use serde::{Deserialize, Serialize};

use plain::{Statements, Step};

/// The functions by which a tool is called under any name.
const BY_NAME: [&str; 2] = ["TOOL", "CALL"];

#[derive(Deserialize)]
pub(super) struct Asked {
    pub(super) code: String,
    /// By function name.
    functions: BTreeMap<String, Function>,
    /// Names that have a value at the start.
    inputs: Vec<String>,
    mode: Mode,
    /// Whether calls that change nothing may run beside each other.
    parallel: bool,
    /// Whether calls with effects may, too.
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
    /// The functions that the script can call.
    pub(super) fn names(&self) -> Vec<String> {
        let by_name = BY_NAME.into_iter().map(str::to_owned);
        self.functions.keys().cloned().chain(by_name).collect()
    }
}

/// What was found.
#[derive(Serialize)]
pub(super) struct Plan {
    /// Functions that are called, in order; each as often as it stands there.
    called: Vec<String>,
    /// What may not be called by a program, sorted.
    blocked: Vec<String>,
    /// Whether nothing that is called changes anything.
    read_only: bool,
    used: Mode,
    /// Whether waves were asked for, and there are none.
    fallback: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    waves: Option<Waves>,
}

#[derive(Serialize)]
struct Waves {
    steps: Vec<Step>,
    /// Steps by their place, those of one wave in order.
    order: Vec<Vec<usize>>,
    /// What the whole comes to, where it ends with a value.
    value: Option<plain::Plain>,
    /// Whether the last call's value is the whole's.
    last: bool,
}

impl Plan {
    /// Whether it may run, and in no waves.
    pub(super) fn runs_as_python(&self) -> bool {
        self.waves.is_none() && self.blocked.is_empty()
    }
}

pub(super) fn plan(asked: &Asked) -> Plan {
    // What is no Python says so itself, with the place, when it is run.
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
    // Calls that change nothing run at once only where none needs another.
    let fits = wanted == Mode::Dep || order.len() == 1;
    fits.then_some(Waves { steps, order, value, last })
}

/// The calls of tools in a script.
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
        // Also where it only looks: its source did not open it to programs.
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
