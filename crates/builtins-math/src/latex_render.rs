//! `render_math`: renders LaTeX formulas as two-dimensional text, in Unicode or ASCII only.
//!
//! An unknown command is an error with its position. It is never left out, since that would change
//! the formula.

mod latex_parser;
mod latex_symbols;
mod structures;
mod text_block;

use serde_json::json;

use crate::tool_arguments::ToolArguments;
use crate::tool_execution::{Answer, RunContext};

/// Maximum characters of a formula.
const LONGEST: usize = 2_000;
/// Maximum columns and rows of the output.
const WIDEST: usize = 2_000;
const HIGHEST: usize = 200;

/// Runs the tool `render_math` with its arguments.
pub(crate) fn render_formula(
    arguments: ToolArguments<'_>,
    _run: &RunContext,
) -> Result<Answer, String> {
    let latex = arguments.string_value("latex")?;
    let format = arguments.one_of("format", "unicode", &["unicode", "ascii"])?;
    let length = latex.chars().count();
    if length > LONGEST {
        return Err(format!("`latex` has {length} characters; the maximum is {LONGEST}"));
    }
    let trimmed = latex.trim();
    let inner = [("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$")];
    let inner =
        inner.iter().find_map(|(open, close)| trimmed.strip_prefix(open)?.strip_suffix(close));
    let block = latex_parser::parse_formula(inner.unwrap_or(trimmed), format == "ascii")
        .map_err(|message| format!("`latex`: {message}"))?;
    if block.width() > WIDEST || block.height() > HIGHEST {
        let (width, height) = (block.width(), block.height());
        return Err(format!(
            "it would have {width} × {height} characters; the maximum is {WIDEST} × {HIGHEST}"
        ));
    }
    Ok(json!({ "rendered": block.to_text(), "original": latex, "format": format }).into())
}

#[cfg(test)]
mod tests;
