//! Lowering of the syntax tree to CAS expressions. Names become `v0`, `v1`, …, so that none clashes
//! with a CAS keyword.

use std::fmt::Write as _;

use symplex::prelude::{Assumption, Context, Ex};

use crate::equation_parser::EquationNode;

/// Names of one call in alphabetical order, with their CAS symbols.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    pub(crate) cas: Context,
    pub(crate) symbols: Vec<(String, Ex)>,
}

impl SymbolTable {
    /// Creates the symbols. `assumption_of` returns the assumption on a name that is not a general
    /// complex number.
    pub(crate) fn with_assumptions(
        names: Vec<String>,
        assumption_of: impl Fn(&str) -> Option<Assumption>,
    ) -> Result<Self, String> {
        let algebra = Context::new();
        let mut all = Vec::new();
        for (i, name) in names.into_iter().enumerate() {
            let own = format!("v{i}");
            let assumptions: Vec<Assumption> = assumption_of(&name).into_iter().collect();
            let made =
                algebra.symbol_with(&own, &assumptions).map_err(|error| error.to_string())?;
            all.push((name, made));
        }
        Ok(Self { cas: algebra, symbols: all })
    }

    pub(crate) fn find_symbol(&self, name: &str) -> Option<&Ex> {
        self.symbols.iter().find(|(known, _)| known == name).map(|(_, made)| made)
    }

    /// Converts the syntax tree to a CAS expression.
    pub(crate) fn lower_node(&self, node: &EquationNode) -> Result<Ex, String> {
        let mut text = String::new();
        self.write_expr(node, &mut text);
        self.cas.parse(&text).map_err(|error| format!("cannot be computed with: {error}"))
    }

    fn write_expr(&self, node: &EquationNode, into: &mut String) {
        match node {
            EquationNode::Number(digits, _) => into.push_str(digits),
            EquationNode::Constant(name) => into.push_str(name),
            EquationNode::Symbol(name) => {
                let at = self.symbols.iter().position(|(known, _)| known == name);
                let _written = write!(into, "v{}", at.unwrap_or_default());
            }
            EquationNode::Negate(inner) => {
                into.push_str("(-(");
                self.write_expr(inner, into);
                into.push_str("))");
            }
            EquationNode::Binary(sign, left, right) => {
                into.push_str("((");
                self.write_expr(left, into);
                let _written = write!(into, ") {sign} (");
                self.write_expr(right, into);
                into.push_str("))");
            }
            EquationNode::Call(name, inner) => {
                into.push_str(match *name {
                    "log" => "ln",
                    "Abs" => "abs",
                    name => name,
                });
                into.push('(');
                self.write_expr(inner, into);
                into.push(')');
            }
        }
    }
}
