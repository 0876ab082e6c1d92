//! Function calls: resolves a name to a function and binds its arguments.

use builtins::ExpressionError;
use num_bigint::BigInt;
use ruff_python_ast::{Expr, ExprCall};

use super::arguments::{CallArguments, FunctionSignature};
use super::arrays::{ArrayData, NumpyArray};
use super::budget::EvalBudget;
use super::evaluate::Evaluator;
use super::names::{self, FunctionPath, Module};
use super::value::PythonValue;
use super::{floats, math_functions, numpy_functions, numpy_reductions, python_functions};

/// Function with its signature.
#[derive(Debug, Clone, Copy)]
pub(super) struct CalculateFunction {
    pub(super) name: &'static str,
    signature: FunctionSignature,
    run: FunctionKind,
}

type FunctionBody = fn(&CallArguments, &mut EvalBudget) -> Result<PythonValue, String>;

#[derive(Debug, Clone, Copy)]
enum FunctionKind {
    /// Function of one float, as in Python.
    RealFunction(fn(f64) -> f64),
    /// Function of each element, as in NumPy.
    ElementFunction(fn(f64) -> f64),
    /// Any other function.
    Body(FunctionBody),
}

const ONE: FunctionSignature = FunctionSignature { parameters: &["x"], required: 1 };

impl CalculateFunction {
    pub(super) const fn from_real_function(name: &'static str, function: fn(f64) -> f64) -> Self {
        Self { name, signature: ONE, run: FunctionKind::RealFunction(function) }
    }

    pub(super) const fn from_elementwise(name: &'static str, function: fn(f64) -> f64) -> Self {
        Self { name, signature: ONE, run: FunctionKind::ElementFunction(function) }
    }

    pub(super) const fn from_body(
        name: &'static str,
        parameters: &'static [&'static str],
        required: usize,
        body: FunctionBody,
    ) -> Self {
        Self {
            name,
            signature: FunctionSignature { parameters, required },
            run: FunctionKind::Body(body),
        }
    }

    fn call_with(
        self,
        arguments: &CallArguments,
        budget: &mut EvalBudget,
    ) -> Result<PythonValue, String> {
        match self.run {
            FunctionKind::Body(body) => body(arguments, budget),
            FunctionKind::RealFunction(of) => {
                let number = arguments.float("x")?;
                floats::check_result(of(number), &[number]).map(PythonValue::Float)
            }
            FunctionKind::ElementFunction(of) => {
                let array = arguments.array("x")?;
                budget.charge_array(array.len())?;
                let each = |number: f64| floats::check_result(of(number), &[number]);
                let data = array.floats().into_iter().map(each).collect::<Result<_, _>>()?;
                Ok(PythonValue::Array(NumpyArray {
                    scalar: array.scalar,
                    data: ArrayData::Float(data),
                }))
            }
        }
    }
}

/// Returns all functions of NumPy, from both files.
pub(super) fn numpy_functions() -> impl Iterator<Item = &'static CalculateFunction> {
    numpy_functions::FUNCTIONS.iter().chain(numpy_reductions::FUNCTIONS)
}

/// Finds a function of a module by name.
pub(super) fn find_function(module: Module, name: &str) -> Option<CalculateFunction> {
    let named = |function: &&CalculateFunction| function.name == name;
    match module {
        Module::Python => python_functions::FUNCTIONS.iter().find(named),
        Module::Math => math_functions::FUNCTIONS.iter().find(named),
        Module::Numpy => numpy_functions().find(named),
    }
    .copied()
}

/// Resolves a name without a module: Python's own function, `math`'s for numbers, NumPy's for
/// lists.
fn choose_function(path: &FunctionPath<'_>, lists: bool) -> Option<CalculateFunction> {
    let name = path.name.as_str();
    let Some(module) = path.module else {
        let own = find_function(Module::Python, name);
        // These accept a list in `math` too, and are exact.
        let math = find_function(Module::Math, name);
        let exact = matches!(name, "prod" | "fsum" | "dist");
        let math = math.filter(|_| exact || !lists || find_function(Module::Numpy, name).is_none());
        return own.or(math).or_else(|| find_function(Module::Numpy, name));
    };
    find_function(module, name)
}

/// Evaluates a function or method call.
pub(super) fn evaluate_call(
    evaluator: &mut Evaluator<'_>,
    call: &ExprCall,
) -> Result<PythonValue, ExpressionError> {
    let function = &*call.func;
    let (path, mut positional) = resolve_callee(evaluator, function)?;
    if choose_function(&path, false).is_none() {
        return Err(evaluator.error_at(function, names::unknown_function(&path)));
    }
    let mut keywords = Vec::new();
    for argument in &call.arguments.args {
        if let Expr::Starred(starred) = argument {
            let items = evaluator.evaluate_value(&starred.value)?.items();
            positional.extend(items.map_err(|message| evaluator.error_at(argument, message))?);
        } else {
            positional.push(evaluator.evaluate_value(argument)?);
        }
    }
    for keyword in &call.arguments.keywords {
        let Some(name) = &keyword.arg else {
            return Err(evaluator.error_at(&keyword.value, "`**` is not supported in a call"));
        };
        keywords.push((name.as_str().to_owned(), evaluator.evaluate_value(&keyword.value)?));
    }
    let lists = positional.iter().any(PythonValue::is_sequence);
    let found = choose_function(&path, lists).ok_or_else(|| names::unknown_function(&path));
    let value = found.and_then(|found| {
        let label = path.to_string();
        let arguments = CallArguments::bind(&label, found.signature, positional, keywords)?;
        let value = found.call_with(&arguments, &mut evaluator.budget)?;
        if let PythonValue::Int(number) = &value {
            evaluator.budget.charge_product(number, &BigInt::ZERO)?;
        }
        Ok(value)
    });
    value.map_err(|message| evaluator.error_at(function, message))
}

/// Returns the function's name, and the value if it is a method of one.
fn resolve_callee<'e>(
    evaluator: &mut Evaluator<'_>,
    function: &'e Expr,
) -> Result<(FunctionPath<'e>, Vec<PythonValue>), ExpressionError> {
    if let Some(path) = names::parse_path(function) {
        return Ok((path, Vec::new()));
    }
    let Expr::Attribute(attribute) = function else {
        return Err(evaluator.error_at(function, "only named functions can be called"));
    };
    let value = evaluator.evaluate_value(&attribute.value)?;
    let name = attribute.attr.as_str();
    if !matches!(value, PythonValue::Array(_)) {
        let message = format!("{} has no method `{name}` here; write np.{name}(…)", value.kind());
        return Err(evaluator.error_at(function, message));
    }
    let name = name.to_owned();
    Ok((FunctionPath { module: Some(Module::Numpy), name, prefix: "" }, vec![value]))
}
