//! LaTeX structures of several parts: fractions, roots, accents, brackets and matrices.

use super::latex_parser::{LatexParser, Result};
use super::latex_symbols;
use super::text_block::TextBlock;

/// Maximum cells of a matrix.
const CELLS: usize = 400;

impl LatexParser {
    pub(super) fn parse_fraction(&mut self) -> Result<TextBlock> {
        let (top, bottom) = (self.parse_argument()?, self.parse_argument()?);
        let width = top.width().max(bottom.width()) + 2;
        let bar = TextBlock::horizontal_rule(if self.ascii { '-' } else { '─' }, width);
        Ok(TextBlock::stack_blocks(&[top, bar, bottom], 1))
    }

    pub(super) fn parse_root(&mut self) -> Result<TextBlock> {
        self.skip_spaces();
        let mut degree = None;
        if self.peek() == Some('[') {
            let from = self.at;
            self.at += 1;
            degree = Some(self.parse_until(&["]"])?);
            self.expect_close(']', from)?;
        }
        let inside = self.parse_argument()?;
        let degree = degree.map(|degree| degree.to_text()).filter(|text| !text.is_empty());
        if self.ascii {
            let name = degree.map_or_else(|| "sqrt".to_owned(), |degree| format!("root[{degree}]"));
            return Ok(
                TextBlock::from_text(&name).append_right(&inside.with_brackets("(", ")", true))
            );
        }
        let sign = match degree.as_deref() {
            None => "√".to_owned(),
            Some("3") => "∛".to_owned(),
            Some("4") => "∜".to_owned(),
            Some(other) => {
                format!(
                    "{}√",
                    latex_symbols::inline_script(other, true)
                        .unwrap_or_else(|| format!("({other})"))
                )
            }
        };
        let whole = if inside.height() == 1 && inside.width() == 1 {
            inside
        } else {
            inside.with_brackets("(", ")", false)
        };
        Ok(TextBlock::from_text(&sign).append_right(&whole))
    }

    pub(super) fn parse_accent(&mut self, name: &str) -> Result<TextBlock> {
        let inside = self.parse_argument()?;
        let (sign, wide) = match (name, self.ascii) {
            ("hat", _) => ('^', false),
            ("bar" | "overline", true) => ('_', true),
            ("bar" | "overline", false) => ('‾', true),
            ("vec", true) => ('>', false),
            ("vec", false) => ('→', false),
            ("tilde", _) => ('~', false),
            ("ddot", true) => (':', false),
            ("ddot", false) => ('¨', false),
            (_, true) => ('.', false),
            (_, false) => ('˙', false),
        };
        let above = TextBlock::horizontal_rule(sign, if wide { inside.width() } else { 1 });
        Ok(TextBlock::stack_blocks(&[above, inside], 1))
    }

    /// Parses `\left( … \right)` with any brackets.
    pub(super) fn parse_fenced(&mut self, start: usize) -> Result<TextBlock> {
        let open = self.parse_bracket()?;
        let inside = self.parse_until(&["\\right"])?;
        if !self.starts_with("\\right") {
            self.at = start;
            return Err(self.error_here("`\\left` without `\\right`"));
        }
        self.at += "\\right".len();
        let close = self.parse_bracket()?;
        Ok(inside.with_brackets(&open, &close, self.ascii))
    }

    fn parse_bracket(&mut self) -> Result<String> {
        self.skip_spaces();
        let c = self.peek().ok_or_else(|| self.error_here("expected a bracket, found the end"))?;
        if "()[]|/.<>".contains(c) {
            self.at += 1;
            return Ok(c.to_string());
        }
        if c != '\\' {
            return Err(self.error_here(&format!("`{c}` is not a bracket")));
        }
        let from = self.at;
        self.at += 1;
        let mut name = self.take_while(|c| c.is_ascii_alphabetic());
        if name.is_empty() {
            name = self.peek().map(String::from).unwrap_or_default();
            self.at += 1;
        }
        let sign = latex_symbols::symbol_for(&name, self.ascii).map(|sign| sign.trim().to_owned());
        sign.ok_or_else(|| {
            self.at = from;
            self.error_here("no bracket")
        })
    }

    pub(super) fn parse_environment(&mut self, start: usize) -> Result<TextBlock> {
        let name = self.parse_verbatim()?;
        let (open, close) = match name.as_str() {
            "matrix" | "smallmatrix" | "aligned" | "align" | "align*" => ("", ""),
            "pmatrix" => ("(", ")"),
            "bmatrix" => ("[", "]"),
            "Bmatrix" => ("{", "}"),
            "vmatrix" => ("|", "|"),
            "Vmatrix" => ("‖", "‖"),
            "cases" => ("{", ""),
            other => {
                let other: String = other.chars().take(32).collect();
                self.at = start;
                return Err(self.error_here(&format!("unknown environment `{other}`")));
            }
        };
        let mut rows: Vec<Vec<TextBlock>> = vec![Vec::new()];
        let mut cells = 0;
        loop {
            let cell = self.parse_until(&["&", "\\\\", "\\end"])?;
            cells += 1;
            if cells > CELLS {
                return Err(self.error_here(&format!("more than {CELLS} cells")));
            }
            if let Some(row) = rows.last_mut() {
                row.push(cell);
            }
            if self.starts_with("&") {
                self.at += 1;
            } else if self.starts_with("\\\\") {
                self.at += 2;
                rows.push(Vec::new());
            } else if self.starts_with("\\end") {
                self.at += "\\end".len();
                break;
            } else {
                self.at = start;
                return Err(self.error_here(&format!("`\\begin{{{name}}}` without its end")));
            }
        }
        let closed = self.parse_verbatim()?;
        if closed != name {
            return Err(self.error_here(&format!("`\\end{{{closed}}}` for `\\begin{{{name}}}`")));
        }
        rows.retain(|row| row.len() > 1 || row.iter().any(|cell| !cell.is_empty()));
        let tight = name.starts_with("align");
        Ok(layout_grid(&rows, tight).with_brackets(
            open,
            if self.ascii && close == "‖" { "||" } else { close },
            self.ascii,
        ))
    }
}

/// Lays out cells in columns, two spaces apart, with an empty line between high rows.
fn layout_grid(rows: &[Vec<TextBlock>], tight: bool) -> TextBlock {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |j: usize| {
        rows.iter().filter_map(|row| row.get(j)).map(TextBlock::width).max().unwrap_or(0)
    };
    let gap = TextBlock::from_text(if tight { " " } else { "  " });
    let line = |row: &Vec<TextBlock>| {
        (0..columns).fold(TextBlock::default(), |line, j| {
            let cell = row.get(j).cloned().filter(|cell| !cell.is_empty());
            let cell = cell.unwrap_or_else(|| TextBlock::from_text(" ")).pad_columns(width(j));
            if j == 0 { cell } else { line.append_right(&gap).append_right(&cell) }
        })
    };
    let lines: Vec<TextBlock> = rows.iter().map(line).collect();
    TextBlock::stack_blocks(&lines, 0).center_baseline()
}
