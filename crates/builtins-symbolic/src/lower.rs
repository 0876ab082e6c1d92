//! Lowering of the syntax tree to CAS expressions. Names become `v0`, `v1`, …, so that none clashes
//! with a CAS keyword.

use std::fmt::Write as _;

use symplex::prelude::{Assumption, Context, Ex};

use crate::read::Node;

/// The names of one call, in the order of the alphabet, and what they are in the algebra.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) algebra: Context,
    pub(crate) all: Vec<(String, Ex)>,
}

impl Names {
    /// `assumed` says what a name stands for, where it is no complex number.
    pub(crate) fn new(
        names: Vec<String>,
        assumed: impl Fn(&str) -> Option<Assumption>,
    ) -> Result<Self, String> {
        let algebra = Context::new();
        let mut all = Vec::new();
        for (i, name) in names.into_iter().enumerate() {
            let own = format!("v{i}");
            let assumptions: Vec<Assumption> = assumed(&name).into_iter().collect();
            let made =
                algebra.symbol_with(&own, &assumptions).map_err(|error| error.to_string())?;
            all.push((name, made));
        }
        Ok(Self { algebra, all })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Ex> {
        self.all.iter().find(|(known, _)| known == name).map(|(_, made)| made)
    }

    /// The expression in the algebra.
    pub(crate) fn lower(&self, node: &Node) -> Result<Ex, String> {
        let mut text = String::new();
        self.write(node, &mut text);
        self.algebra.parse(&text).map_err(|error| format!("cannot be computed with: {error}"))
    }

    fn write(&self, node: &Node, into: &mut String) {
        match node {
            Node::Number(digits, _) => into.push_str(digits),
            Node::Constant(name) => into.push_str(name),
            Node::Name(name) => {
                let at = self.all.iter().position(|(known, _)| known == name);
                let _written = write!(into, "v{}", at.unwrap_or_default());
            }
            Node::Negative(inner) => {
                into.push_str("(-(");
                self.write(inner, into);
                into.push_str("))");
            }
            Node::Binary(sign, left, right) => {
                into.push_str("((");
                self.write(left, into);
                let _written = write!(into, ") {sign} (");
                self.write(right, into);
                into.push_str("))");
            }
            Node::Call(name, inner) => {
                into.push_str(match *name {
                    "log" => "ln",
                    "Abs" => "abs",
                    name => name,
                });
                into.push('(');
                self.write(inner, into);
                into.push(')');
            }
        }
    }
}
