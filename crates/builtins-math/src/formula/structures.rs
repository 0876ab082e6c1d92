//! LaTeX structures of several parts: fractions, roots, accents, brackets and matrices.

use super::block::Block;
use super::parse::{Reader, Result};
use super::signs;

/// Rows and columns of a matrix.
const CELLS: usize = 400;

impl Reader {
    pub(super) fn fraction(&mut self) -> Result<Block> {
        let (top, bottom) = (self.argument()?, self.argument()?);
        let width = top.width().max(bottom.width()) + 2;
        let bar = Block::bar(if self.ascii { '-' } else { '─' }, width);
        Ok(Block::stacked(&[top, bar, bottom], 1))
    }

    pub(super) fn root(&mut self) -> Result<Block> {
        self.spaces();
        let mut degree = None;
        if self.peek() == Some('[') {
            let from = self.at;
            self.at += 1;
            degree = Some(self.until(&["]"])?);
            self.closed(']', from)?;
        }
        let inside = self.argument()?;
        let degree = degree.map(|degree| degree.text()).filter(|text| !text.is_empty());
        if self.ascii {
            let name = degree.map_or_else(|| "sqrt".to_owned(), |degree| format!("root[{degree}]"));
            return Ok(Block::of(&name).beside(&inside.fenced("(", ")", true)));
        }
        let sign = match degree.as_deref() {
            None => "√".to_owned(),
            Some("3") => "∛".to_owned(),
            Some("4") => "∜".to_owned(),
            Some(other) => {
                format!("{}√", signs::small(other, true).unwrap_or_else(|| format!("({other})")))
            }
        };
        let whole = if inside.height() == 1 && inside.width() == 1 {
            inside
        } else {
            inside.fenced("(", ")", false)
        };
        Ok(Block::of(&sign).beside(&whole))
    }

    pub(super) fn accent(&mut self, name: &str) -> Result<Block> {
        let inside = self.argument()?;
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
        let above = Block::bar(sign, if wide { inside.width() } else { 1 });
        Ok(Block::stacked(&[above, inside], 1))
    }

    /// `\left( … \right)`.
    pub(super) fn fenced(&mut self, from: usize) -> Result<Block> {
        let open = self.bracket()?;
        let inside = self.until(&["\\right"])?;
        if !self.stands("\\right") {
            self.at = from;
            return Err(self.wrong("`\\left` without `\\right`"));
        }
        self.at += "\\right".len();
        let close = self.bracket()?;
        Ok(inside.fenced(&open, &close, self.ascii))
    }

    fn bracket(&mut self) -> Result<String> {
        self.spaces();
        let c = self.peek().ok_or_else(|| self.wrong("expected a bracket, found the end"))?;
        if "()[]|/.<>".contains(c) {
            self.at += 1;
            return Ok(c.to_string());
        }
        if c != '\\' {
            return Err(self.wrong(&format!("`{c}` is no bracket")));
        }
        let from = self.at;
        self.at += 1;
        let mut name = self.take(|c| c.is_ascii_alphabetic());
        if name.is_empty() {
            name = self.peek().map(String::from).unwrap_or_default();
            self.at += 1;
        }
        let sign = signs::sign(&name, self.ascii).map(|sign| sign.trim().to_owned());
        sign.ok_or_else(|| {
            self.at = from;
            self.wrong("no bracket")
        })
    }

    pub(super) fn environment(&mut self, from: usize) -> Result<Block> {
        let name = self.verbatim()?;
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
                self.at = from;
                return Err(self.wrong(&format!("the environment `{other}` is not known")));
            }
        };
        let mut rows: Vec<Vec<Block>> = vec![Vec::new()];
        let mut cells = 0;
        loop {
            let cell = self.until(&["&", "\\\\", "\\end"])?;
            cells += 1;
            if cells > CELLS {
                return Err(self.wrong(&format!("more than {CELLS} cells")));
            }
            if let Some(row) = rows.last_mut() {
                row.push(cell);
            }
            if self.stands("&") {
                self.at += 1;
            } else if self.stands("\\\\") {
                self.at += 2;
                rows.push(Vec::new());
            } else if self.stands("\\end") {
                self.at += "\\end".len();
                break;
            } else {
                self.at = from;
                return Err(self.wrong(&format!("`\\begin{{{name}}}` without its end")));
            }
        }
        let closed = self.verbatim()?;
        if closed != name {
            return Err(self.wrong(&format!("`\\end{{{closed}}}` for `\\begin{{{name}}}`")));
        }
        rows.retain(|row| row.len() > 1 || row.iter().any(|cell| !cell.is_empty()));
        let tight = name.starts_with("align");
        Ok(grid(&rows, tight).fenced(
            open,
            if self.ascii && close == "‖" { "||" } else { close },
            self.ascii,
        ))
    }
}

/// Cells in columns, two spaces apart, with an empty line between high rows.
fn grid(rows: &[Vec<Block>], tight: bool) -> Block {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |j: usize| rows.iter().filter_map(|row| row.get(j)).map(Block::width).max().unwrap_or(0);
    let gap = Block::of(if tight { " " } else { "  " });
    let line = |row: &Vec<Block>| {
        (0..columns).fold(Block::default(), |line, j| {
            let cell = row.get(j).cloned().filter(|cell| !cell.is_empty());
            let cell = cell.unwrap_or_else(|| Block::of(" ")).widened(width(j));
            if j == 0 { cell } else { line.beside(&gap).beside(&cell) }
        })
    };
    let lines: Vec<Block> = rows.iter().map(line).collect();
    Block::stacked(&lines, 0).centred()
}
