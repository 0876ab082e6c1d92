//! `render_math`: LaTeX's mathematics as text in two dimensions, with Unicode's signs or in ASCII alone.
//!
//! What is not known is an error with its place, and never left out: a formula with a part missing would
//! be another formula.

mod block;
mod parse;
mod signs;
mod structures;

use serde_json::json;

use crate::fields::Fields;
use crate::work::{Answer, Run};

/// Characters of a formula.
const LONGEST: usize = 2_000;
/// Columns and rows of what comes out.
const WIDEST: usize = 2_000;
const HIGHEST: usize = 200;

/// Runs the tool.
pub(crate) fn render(fields: Fields<'_>, _run: &Run) -> Result<Answer, String> {
    let latex = fields.text("latex")?;
    let format = fields.choice("format", "unicode", &["unicode", "ascii"])?;
    let length = latex.chars().count();
    if length > LONGEST {
        return Err(format!("`latex` has {length} characters, {LONGEST} are allowed"));
    }
    let trimmed = latex.trim();
    let inner = [("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$")];
    let inner =
        inner.iter().find_map(|(open, close)| trimmed.strip_prefix(open)?.strip_suffix(close));
    let block = parse::parse(inner.unwrap_or(trimmed), format == "ascii")
        .map_err(|message| format!("`latex`: {message}"))?;
    if block.width() > WIDEST || block.height() > HIGHEST {
        let (width, height) = (block.width(), block.height());
        return Err(format!(
            "it would be {width} × {height} characters, {WIDEST} × {HIGHEST} are allowed"
        ));
    }
    Ok(json!({ "rendered": block.text(), "original": latex, "format": format }).into())
}

#[cfg(test)]
mod tests;
