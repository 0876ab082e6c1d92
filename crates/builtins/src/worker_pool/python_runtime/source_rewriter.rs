//! Rewrites a program for monty: adds Python implementations of modules that monty lacks, and
//! replaces operators that it does not support for some types.

use std::hash::{BuildHasher as _, Hasher as _};

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{
    Expr, ExprBinOp, Mod, Operator, Stmt, StmtAugAssign, StmtImport, StmtImportFrom,
};
use ruff_python_parser::{Mode, ParseOptions};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use super::ROUND_PRELUDE;

/// Largest nesting that is rewritten; monty itself stops at 200.
const MAX_DEPTH: u16 = 200;
/// Modules implemented in Python, by name.
const MODULES: &[(&str, &str)] = &[
    ("random", include_str!("random.py")),
    ("statistics", include_str!("statistics.py")),
    ("string", include_str!("string.py")),
];
const OPERATORS: &str = include_str!("operators.py");

/// A program with its prelude.
pub(super) struct PythonSource {
    pub(super) code: String,
    /// Lines of the prelude before the caller's code.
    pub(super) prelude_lines: usize,
}

impl PythonSource {
    /// Adds the required modules to a program. `rewrites_operators` also replaces arithmetic by
    /// function calls, which is slow but supports booleans and text formatting.
    pub(super) fn new(code: &str, rewrites_operators: bool) -> Self {
        let mut before = String::new();
        if code.contains("round") {
            before.push_str(ROUND_PRELUDE);
        }
        if !rewrites_operators && !code.contains("import") {
            return Self::with_prelude(before, code);
        }
        let options = ParseOptions::from(Mode::Module).with_max_recursion_depth(MAX_DEPTH);
        // monty reports syntax errors.
        let Ok(parsed) = ruff_python_parser::parse(code, options) else {
            return Self::with_prelude(before, code);
        };
        let mut rewriting = SourceRewriter {
            code,
            operators: rewrites_operators,
            edits: Vec::new(),
            modules: Vec::new(),
        };
        let tree = parsed.into_syntax();
        if let Mod::Module(module) = &tree {
            rewriting.visit_body(&module.body);
        }
        for (name, source) in MODULES {
            if rewriting.modules.contains(name) {
                before.push_str(&source.replace("_TOOLKEEP_SEED", &random_seed().to_string()));
            }
        }
        if rewrites_operators {
            before.push_str(OPERATORS);
        }
        Self::with_prelude(before, &rewriting.apply_edits())
    }

    fn with_prelude(before: String, code: &str) -> Self {
        let lines = before.lines().count();
        Self { code: before + code, prelude_lines: lines }
    }
}

/// Returns the names of the modules implemented in Python.
pub(super) fn module_names() -> impl Iterator<Item = &'static str> {
    MODULES.iter().map(|(name, _)| *name)
}

/// Returns a different number at each call.
fn random_seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// A replacement of a source range.
struct TextEdit {
    from: TextSize,
    to: TextSize,
    text: String,
}

struct SourceRewriter<'a> {
    code: &'a str,
    operators: bool,
    edits: Vec<TextEdit>,
    modules: Vec<&'static str>,
}

impl<'a> Visitor<'a> for SourceRewriter<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => self.rewrite_import(import),
            Stmt::ImportFrom(import) => self.rewrite_import_from(import),
            Stmt::AugAssign(assign) if self.operators => self.rewrite_assignment(assign),
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::BinOp(operation) if self.operators => self.rewrite_operation(operation),
            // `f"{a + b=}"` prints its own text.
            Expr::FString(text) if self.prints_own_text(text.range) => {}
            _ => walk_expr(self, expr),
        }
    }
}

impl<'a> SourceRewriter<'a> {
    fn replace_range(&mut self, from: TextSize, to: TextSize, text: String) {
        self.edits.push(TextEdit { from, to, text });
    }

    fn rewrite_operation(&mut self, operation: &'a ExprBinOp) {
        let place = self.operator_range(operation);
        let (Some(call), Some((from, to))) = (operator_function(operation.op), place) else {
            self.visit_expr(&operation.left);
            self.visit_expr(&operation.right);
            return;
        };
        self.replace_range(operation.range.start(), operation.range.start(), format!("{call}("));
        self.visit_expr(&operation.left);
        self.replace_range(from, to, ",".to_owned());
        self.visit_expr(&operation.right);
        self.replace_range(operation.range.end(), operation.range.end(), ")".to_owned());
    }

    /// Rewrites `x += y`; mutable values such as lists are still changed in place.
    fn rewrite_assignment(&mut self, assign: &'a StmtAugAssign) {
        // Parentheses around the value belong to the statement alone.
        let (target_end, end) = (assign.target.range().end(), assign.range.end());
        let between = self.code.get(target_end.to_usize()..).unwrap_or_default();
        let sign = between.find('=').and_then(|at| TextSize::try_from(at + 1).ok());
        let Some(value) = sign.map(|length| target_end + length) else { return };
        let call = match assign.op {
            Operator::Add => Some("_toolkeep_iadd"),
            Operator::Sub => Some("_toolkeep_isub"),
            Operator::Mult => Some("_toolkeep_imul"),
            op => operator_function(op),
        };
        match (&*assign.target, call) {
            (Expr::Name(name), Some(call)) => {
                let target = name.id.as_str();
                self.replace_range(
                    assign.range.start(),
                    value,
                    format!("{target} = {call}({target}, ("),
                );
            }
            _ => self.replace_range(value, value, " _toolkeep_n((".to_owned()),
        }
        self.visit_expr(&assign.value);
        self.replace_range(end, end, "))".to_owned());
    }

    fn prints_own_text(&self, range: TextRange) -> bool {
        let text = self.code.get(range.start().to_usize()..range.end().to_usize());
        text.is_none_or(|text| text.contains('='))
    }

    /// Returns the range of the operator between its operands, which may be in parentheses.
    fn operator_range(&self, operation: &ExprBinOp) -> Option<(TextSize, TextSize)> {
        let (left, right) = (operation.left.range().end(), operation.right.range().start());
        let between = self.code.get(left.to_usize()..right.to_usize())?;
        let sign = operation.op.as_str();
        // A comment could contain the operator; such code is not rewritten.
        let at = between.find(sign).filter(|_| !between.contains('#'))?;
        let from = left + TextSize::try_from(at).ok()?;
        Some((from, from + TextSize::try_from(sign.len()).ok()?))
    }

    fn rewrite_import(&mut self, import: &StmtImport) {
        let own = |name: &str| MODULES.iter().map(|(known, _)| *known).find(|known| *known == name);
        if !import.names.iter().any(|alias| own(alias.name.as_str()).is_some()) {
            return;
        }
        let mut parts = Vec::new();
        for alias in &import.names {
            let name = alias.name.as_str();
            let bound = alias.asname.as_ref().map(ruff_python_ast::Identifier::as_str);
            parts.push(match own(name) {
                Some(module) => {
                    self.modules.push(module);
                    format!("{} = _toolkeep_{module}", bound.unwrap_or(module))
                }
                None => match bound {
                    Some(bound) => format!("import {name} as {bound}"),
                    None => format!("import {name}"),
                },
            });
        }
        self.replace_range(import.range.start(), import.range.end(), parts.join("; "));
    }

    fn rewrite_import_from(&mut self, import: &StmtImportFrom) {
        let name = import.module.as_ref().map(ruff_python_ast::Identifier::as_str);
        let own = MODULES.iter().map(|(known, _)| *known).find(|known| Some(*known) == name);
        let Some(module) = own.filter(|_| import.level == 0) else { return };
        if import.names.iter().any(|alias| alias.name.as_str() == "*") {
            return;
        }
        self.modules.push(module);
        let part = |alias: &ruff_python_ast::Alias| {
            let name = alias.name.as_str();
            let bound = alias.asname.as_ref().map_or(name, |bound| bound.as_str());
            format!("{bound} = _toolkeep_{module}.{name}")
        };
        let parts: Vec<_> = import.names.iter().map(part).collect();
        self.replace_range(import.range.start(), import.range.end(), parts.join("; "));
    }

    /// Applies the edits; edits at the same position keep their order.
    fn apply_edits(mut self) -> String {
        self.edits.sort_by_key(|edit| edit.from);
        let (mut out, mut at) = (String::with_capacity(self.code.len()), 0);
        for edit in &self.edits {
            out.push_str(self.code.get(at..edit.from.to_usize()).unwrap_or_default());
            out.push_str(&edit.text);
            at = at.max(edit.to.to_usize());
        }
        out.push_str(self.code.get(at..).unwrap_or_default());
        out
    }
}

/// Returns the function that implements an operator.
fn operator_function(op: Operator) -> Option<&'static str> {
    Some(match op {
        Operator::Add => "_toolkeep_add",
        Operator::Sub => "_toolkeep_sub",
        Operator::Mult => "_toolkeep_mul",
        Operator::Div => "_toolkeep_div",
        Operator::FloorDiv => "_toolkeep_floordiv",
        Operator::Mod => "_toolkeep_mod",
        Operator::Pow => "_toolkeep_pow",
        _ => return None,
    })
}
