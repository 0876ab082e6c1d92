//! Calls of functions: which function a name means, and what it is called with.

use builtins::ExpressionError;
use num_bigint::BigInt;
use ruff_python_ast::{Expr, ExprCall};

use super::arguments::{Arguments, Signature};
use super::arrays::{Array, Data};
use super::budget::Budget;
use super::evaluate::Evaluator;
use super::names::{self, Module, Path};
use super::value::Value;
use super::{floats, math_functions, numpy_functions, numpy_reductions, python_functions};

/// A function and what it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    pub(super) name: &'static str,
    signature: Signature,
    run: Run,
}

type Body = fn(&Arguments, &mut Budget) -> Result<Value, String>;

#[derive(Debug, Clone, Copy)]
enum Run {
    /// Of one float, as Python has it.
    Real(fn(f64) -> f64),
    /// Of each float, as numpy has it.
    Each(fn(f64) -> f64),
    /// All others.
    Body(Body),
}

const ONE: Signature = Signature { parameters: &["x"], required: 1 };

impl Function {
    pub(super) const fn real(name: &'static str, of: fn(f64) -> f64) -> Self {
        Self { name, signature: ONE, run: Run::Real(of) }
    }

    pub(super) const fn each(name: &'static str, of: fn(f64) -> f64) -> Self {
        Self { name, signature: ONE, run: Run::Each(of) }
    }

    pub(super) const fn body(
        name: &'static str,
        parameters: &'static [&'static str],
        required: usize,
        body: Body,
    ) -> Self {
        Self { name, signature: Signature { parameters, required }, run: Run::Body(body) }
    }

    fn run(self, arguments: &Arguments, budget: &mut Budget) -> Result<Value, String> {
        match self.run {
            Run::Body(body) => body(arguments, budget),
            Run::Real(of) => {
                let number = arguments.float("x")?;
                floats::checked(of(number), &[number]).map(Value::Float)
            }
            Run::Each(of) => {
                let array = arguments.array("x")?;
                budget.vector(array.len())?;
                let each = |number: f64| floats::checked(of(number), &[number]);
                let data = array.floats().into_iter().map(each).collect::<Result<_, _>>()?;
                Ok(Value::Array(Array { scalar: array.scalar, data: Data::Float(data) }))
            }
        }
    }
}

/// The functions of numpy, in their two files.
pub(super) fn all_of_numpy() -> impl Iterator<Item = &'static Function> {
    numpy_functions::FUNCTIONS.iter().chain(numpy_reductions::FUNCTIONS)
}

/// The function of a module.
pub(super) fn find(module: Module, name: &str) -> Option<Function> {
    let named = |function: &&Function| function.name == name;
    match module {
        Module::Python => python_functions::FUNCTIONS.iter().find(named),
        Module::Math => math_functions::FUNCTIONS.iter().find(named),
        Module::Numpy => all_of_numpy().find(named),
    }
    .copied()
}

/// What a bare name means: Python's own function, `math`'s for numbers and numpy's for lists.
fn chosen(path: &Path<'_>, lists: bool) -> Option<Function> {
    let name = path.name.as_str();
    let Some(module) = path.module else {
        let own = find(Module::Python, name);
        // These take a list in `math` too, and are exact.
        let math = find(Module::Math, name);
        let exact = matches!(name, "prod" | "fsum" | "dist");
        let math = math.filter(|_| exact || !lists || find(Module::Numpy, name).is_none());
        return own.or(math).or_else(|| find(Module::Numpy, name));
    };
    find(module, name)
}

/// Evaluates a call.
pub(super) fn call(
    evaluator: &mut Evaluator<'_>,
    call: &ExprCall,
) -> Result<Value, ExpressionError> {
    let function = &*call.func;
    let (path, mut positional) = callee(evaluator, function)?;
    if chosen(&path, false).is_none() {
        return Err(evaluator.at(function, names::unknown_function(&path)));
    }
    let mut keywords = Vec::new();
    for argument in &call.arguments.args {
        if let Expr::Starred(starred) = argument {
            let items = evaluator.value(&starred.value)?.items();
            positional.extend(items.map_err(|message| evaluator.at(argument, message))?);
        } else {
            positional.push(evaluator.value(argument)?);
        }
    }
    for keyword in &call.arguments.keywords {
        let Some(name) = &keyword.arg else {
            return Err(evaluator.at(&keyword.value, "`**` is not known in a call"));
        };
        keywords.push((name.as_str().to_owned(), evaluator.value(&keyword.value)?));
    }
    let lists = positional.iter().any(Value::is_sequence);
    let found = chosen(&path, lists).ok_or_else(|| names::unknown_function(&path));
    let value = found.and_then(|found| {
        let label = path.to_string();
        let arguments = Arguments::bind(&label, found.signature, positional, keywords)?;
        let value = found.run(&arguments, &mut evaluator.budget)?;
        if let Value::Int(number) = &value {
            evaluator.budget.product(number, &BigInt::ZERO)?;
        }
        Ok(value)
    });
    value.map_err(|message| evaluator.at(function, message))
}

/// The function's name, and the value whose method it is.
fn callee<'e>(
    evaluator: &mut Evaluator<'_>,
    function: &'e Expr,
) -> Result<(Path<'e>, Vec<Value>), ExpressionError> {
    if let Some(path) = names::path(function) {
        return Ok((path, Vec::new()));
    }
    let Expr::Attribute(attribute) = function else {
        return Err(evaluator.at(function, "only functions that have a name can be called"));
    };
    let value = evaluator.value(&attribute.value)?;
    let name = attribute.attr.as_str();
    if !matches!(value, Value::Array(_)) {
        let message = format!("{} has no method `{name}` here; write np.{name}(…)", value.kind());
        return Err(evaluator.at(function, message));
    }
    let name = name.to_owned();
    Ok((Path { module: Some(Module::Numpy), name, prefix: "" }, vec![value]))
}
