//! The right-hand side of dy/dt: a linear system, or one expression per component.

use faer::Mat;
use serde_json::Value;

use crate::tool_arguments::{
    ToolArguments, compile_expression, indexed_variable, variable_names_text,
};

/// Function that writes f(t, y) into its last argument.
pub(super) type RightHandSide<'a> = dyn FnMut(f64, &[f64], &mut [f64]) + 'a;

const NEITHER: &str = "one of `system` and `coefficients` is needed: expressions such as \
                       `y1; -y0`, or {\"A\": matrix, \"b\": vector} for dy/dt = A y + b";

pub(super) fn parse_system(
    arguments: ToolArguments<'_>,
    count: usize,
) -> Result<Box<RightHandSide<'static>>, String> {
    match (arguments.get_value("system"), arguments.get_value("coefficients")) {
        (Some(_), coefficients) => {
            expression_system(arguments.string_value("system")?, coefficients, count)
        }
        (None, Some(coefficients)) => linear_system(ToolArguments::from_value(coefficients), count),
        (None, None) => Err(NEITHER.to_owned()),
    }
}

fn linear_system(
    fields: ToolArguments<'_>,
    count: usize,
) -> Result<Box<RightHandSide<'static>>, String> {
    if !fields.has_value("A") {
        return Err(NEITHER.to_owned());
    }
    let a: Mat<f64> = fields.matrix_value("A", count.max(1))?;
    let b = if fields.has_value("b") { fields.f64_list("b", 0..=count)? } else { vec![0.0; count] };
    if a.nrows() != count || a.ncols() != count || b.len() != count {
        let (rows, columns, length) = (a.nrows(), a.ncols(), b.len());
        return Err(format!(
            "`y0` has {count} numbers, but `A` is {rows} × {columns} and `b` has {length}"
        ));
    }
    Ok(Box::new(move |_, y, out| {
        for (i, (out, b)) in out.iter_mut().zip(&b).enumerate() {
            *out = b + y.iter().enumerate().map(|(j, y)| a[(i, j)] * y).sum::<f64>();
        }
    }))
}

/// Parses expressions separated by `;` or newlines, in t, y0, y1, … and the names of
/// `coefficients`.
fn expression_system(
    text: &str,
    coefficients: Option<&Value>,
    count: usize,
) -> Result<Box<RightHandSide<'static>>, String> {
    let parts: Vec<&str> =
        text.split([';', '\n']).map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.len() != count {
        let found = parts.len();
        return Err(format!(
            "`system` has {found} expressions, `y0` has {count} numbers; write one for each, parted by `;`"
        ));
    }
    let constants = named_constants(coefficients)?;
    let slot = |name: &str| match name {
        "t" => Some(0),
        _ => indexed_variable('y', count)(name)
            .map(|slot| slot + 1)
            .or_else(|| Some(constants.iter().position(|(known, _)| known == name)? + 1 + count)),
    };
    let mut known = vec!["t".to_owned(), variable_names_text('y', count)];
    known.extend(constants.iter().map(|(name, _)| name.clone()));
    let known = known.join(", ");
    let programs = parts.iter().map(|part| compile_expression("system", part, slot, &known));
    let programs = programs.collect::<Result<Vec<_>, _>>()?;
    let mut values = vec![0.0; 1 + count];
    values.extend(constants.iter().map(|(_, value)| value));
    let mut stack = Vec::new();
    Ok(Box::new(move |t, y, out| {
        let places = std::iter::once(&t).chain(y);
        values.iter_mut().zip(places).for_each(|(value, now)| *value = *now);
        for (out, program) in out.iter_mut().zip(&programs) {
            *out = program.evaluate_f64(&values, &mut stack);
        }
    }))
}

fn named_constants(coefficients: Option<&Value>) -> Result<Vec<(String, f64)>, String> {
    let Some(coefficients) = coefficients else { return Ok(Vec::new()) };
    let object = coefficients.as_object().ok_or("`coefficients` must be an object")?;
    let one = |(name, value): (&String, &Value)| {
        let number = value.as_f64().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| {
            let name = crate::tool_arguments::escape_for_message(name);
            format!("`coefficients.{name}` must be a number beside `system`")
        })?;
        Ok((name.clone(), number))
    };
    object.iter().take(100).map(one).collect()
}
