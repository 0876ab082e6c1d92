//! LaTeX parser that builds text blocks while it reads.

use super::latex_symbols;
use super::text_block::TextBlock;

/// Maximum nesting of groups.
const DEEPEST: usize = 40;
pub(super) type Result<T> = std::result::Result<T, String>;

/// Parses and lays out a whole formula.
pub(super) fn parse_formula(text: &str, ascii: bool) -> Result<TextBlock> {
    let mut reader = LatexParser { chars: text.chars().collect(), at: 0, depth: 0, ascii };
    let block = reader.parse_until(&[])?;
    match reader.peek() {
        None if block.is_empty() => Err("there is nothing to render".to_owned()),
        None => Ok(block),
        Some(found) => Err(reader.error_here(&format!("unexpected `{found}`"))),
    }
}

/// Parser state: position in a formula.
pub(super) struct LatexParser {
    chars: Vec<char>,
    pub(super) at: usize,
    depth: usize,
    pub(super) ascii: bool,
}

impl LatexParser {
    /// Parses up to one of `terminators`, which is not consumed, or to the end.
    pub(super) fn parse_until(&mut self, terminators: &[&str]) -> Result<TextBlock> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error_here(&format!("nested deeper than {DEEPEST} levels")));
        }
        let mut all = TextBlock::default();
        loop {
            self.skip_spaces();
            let stop = self.peek().is_none_or(|c| c == '}')
                || terminators.iter().any(|end| self.starts_with(end));
            if stop {
                break;
            }
            let atom = self.parse_atom()?;
            let scripted = self.parse_scripts(atom)?;
            all = all.append_right(&scripted);
        }
        self.depth -= 1;
        Ok(all)
    }

    /// Parses one atom, without its scripts.
    fn parse_atom(&mut self) -> Result<LatexAtom> {
        let c = self.peek().ok_or_else(|| self.error_here("expected something, found the end"))?;
        match c {
            '{' => self.parse_group().map(LatexAtom::plain),
            '\\' => self.parse_command(),
            '&' => Err(self.error_here("`&` outside of a matrix")),
            '^' | '_' => Ok(LatexAtom::plain(TextBlock::default())),
            '=' | '<' | '>' | '+' | '-' => {
                self.at += 1;
                let alone = c == '-' && self.ascii;
                let sign = if c == '-' && !alone { '−' } else { c };
                // A sign at the beginning is unary.
                let first = self.previous_char().is_none_or(|c| "({[=<>,^_&\\".contains(c));
                let text = if first { sign.to_string() } else { format!(" {sign} ") };
                Ok(LatexAtom::plain(TextBlock::from_text(&text)))
            }
            ',' => {
                self.at += 1;
                Ok(LatexAtom::plain(TextBlock::from_text(", ")))
            }
            c if c.is_ascii_digit() => {
                let digits = self.take_while(|c| c.is_ascii_digit() || c == '.');
                Ok(LatexAtom::plain(TextBlock::from_text(&digits)))
            }
            c if c.is_control() => Err(self.error_here("a control character")),
            c if self.ascii && !c.is_ascii() => {
                Err(self.error_here(&format!("`{c}` is not ASCII; use `unicode`")))
            }
            c => {
                self.at += 1;
                Ok(LatexAtom::plain(TextBlock::from_text(&c.to_string())))
            }
        }
    }

    /// Returns the last non-space character before the current one.
    fn previous_char(&self) -> Option<char> {
        let before = self.chars.get(..self.at.saturating_sub(1)).unwrap_or_default();
        before.iter().rev().find(|c| !c.is_whitespace()).copied()
    }

    fn parse_scripts(&mut self, atom: LatexAtom) -> Result<TextBlock> {
        let (mut above, mut below) = (None, None);
        loop {
            self.skip_spaces();
            let place = match self.peek() {
                Some('^') => &mut above,
                Some('_') => &mut below,
                Some('\'') => {
                    let primes = self.take_while(|c| c == '\'');
                    let sign = if self.ascii { primes } else { "′".repeat(primes.len()) };
                    above = Some(TextBlock::from_text(&sign));
                    continue;
                }
                _ => break,
            };
            if place.is_some() {
                return Err(
                    self.error_here("two scripts on one symbol: put braces around the first")
                );
            }
            self.at += 1;
            self.skip_spaces();
            *place = Some(self.parse_argument()?);
        }
        let LatexAtom { block, has_limits: limits } = atom;
        if limits {
            let mut rows = Vec::new();
            let base = above.iter().len();
            rows.extend(above);
            rows.push(block);
            rows.extend(below);
            let stacked = TextBlock::stack_blocks(&rows, base);
            return Ok(stacked.append_right(&TextBlock::from_text(" ")));
        }
        if !self.ascii && block.height() == 1 {
            let small = |script: &Option<TextBlock>, up| match script {
                None => Some(String::new()),
                Some(script) if script.height() == 1 => {
                    latex_symbols::inline_script(&script.to_text().replace('−', "-"), up)
                        .or_else(|| prime_marks(script))
                }
                Some(_) => None,
            };
            if let (Some(up), Some(down)) = (small(&above, true), small(&below, false)) {
                return Ok(block.append_right(&TextBlock::from_text(&format!("{down}{up}"))));
            }
        }
        if self.ascii && block.height() == 1 && above.iter().chain(&below).all(|s| s.height() == 1)
        {
            return Ok(block.append_right(&TextBlock::from_text(&inline_scripts(
                above.as_ref(),
                below.as_ref(),
            ))));
        }
        Ok(block.with_scripts(above.as_ref(), below.as_ref()))
    }

    pub(super) fn parse_argument(&mut self) -> Result<TextBlock> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error_here(&format!("nested deeper than {DEEPEST} levels")));
        }
        let block = self.parse_single()?;
        self.depth -= 1;
        Ok(block)
    }

    fn parse_single(&mut self) -> Result<TextBlock> {
        self.skip_spaces();
        match self.peek() {
            Some('{') => self.parse_group(),
            // A single digit, as in TeX.
            Some(c) if c.is_ascii_digit() => {
                self.at += 1;
                Ok(TextBlock::from_text(&c.to_string()))
            }
            _ => Ok(self.parse_atom()?.block),
        }
    }

    fn parse_group(&mut self) -> Result<TextBlock> {
        let from = self.at;
        self.at += 1;
        let inside = self.parse_until(&[])?;
        self.expect_close('}', from)?;
        Ok(inside)
    }

    pub(super) fn expect_close(&mut self, closing: char, start: usize) -> Result<()> {
        if self.peek() == Some(closing) {
            self.at += 1;
            return Ok(());
        }
        let place = start + 1;
        Err(self.error_here(&format!("expected `{closing}` for what opens at position {place}")))
    }

    fn parse_command(&mut self) -> Result<LatexAtom> {
        let from = self.at;
        self.at += 1;
        let mut name = self.take_while(|c| c.is_ascii_alphabetic());
        if name.is_empty() {
            name = self.peek().map(String::from).unwrap_or_default();
            self.at += 1;
        }
        if let Some((rows, limits)) = latex_symbols::large_operator(&name, self.ascii) {
            let rows: Vec<TextBlock> = rows.iter().map(|row| TextBlock::from_text(row)).collect();
            return Ok(LatexAtom {
                block: TextBlock::stack_blocks(&rows, 0).center_baseline(),
                has_limits: limits,
            });
        }
        if let Some(word) = latex_symbols::operator_with_limits(&name) {
            return Ok(LatexAtom { block: TextBlock::from_text(word), has_limits: true });
        }
        if let Some(word) = latex_symbols::function_name(&name) {
            return Ok(LatexAtom::plain(TextBlock::from_text(&format!(
                "{word}{}",
                self.function_spacing()
            ))));
        }
        if let Some(sign) = latex_symbols::symbol_for(&name, self.ascii) {
            return Ok(LatexAtom::plain(TextBlock::from_text(sign)));
        }
        let block = match name.as_str() {
            "frac" | "dfrac" | "tfrac" | "cfrac" => self.parse_fraction()?,
            "binom" => {
                let (top, bottom) = (self.parse_argument()?, self.parse_argument()?);
                let rows = [top, TextBlock::horizontal_rule(' ', 1), bottom];
                TextBlock::stack_blocks(&rows, 1).with_brackets("(", ")", self.ascii)
            }
            "sqrt" => self.parse_root()?,
            "text" | "mathrm" | "textrm" | "operatorname" => {
                TextBlock::from_text(&self.parse_verbatim()?)
            }
            "mathbf" | "mathit" | "boldsymbol" | "mathcal" | "mathsf" | "displaystyle"
            | "mathbb" => {
                return self.parse_styled(&name);
            }
            "left" => self.parse_fenced(from)?,
            "begin" => self.parse_environment(from)?,
            "hat" | "bar" | "overline" | "vec" | "tilde" | "dot" | "ddot" => {
                self.parse_accent(&name)?
            }
            "limits" | "nolimits" | "big" | "Big" | "bigl" | "bigr" | "Bigl" | "Bigr" => {
                TextBlock::default()
            }
            _ => {
                self.at = from;
                let name: String = name.chars().take(32).collect();
                return Err(self.error_here(&format!("`\\{name}` is not known")));
            }
        };
        Ok(LatexAtom::plain(block))
    }

    /// Returns the space between a function's name and its argument, unless that is a bracket or
    /// script.
    fn function_spacing(&mut self) -> &'static str {
        self.skip_spaces();
        if self.peek().is_none_or(|c| "([{^_}&".contains(c)) || self.starts_with("\\left") {
            ""
        } else {
            " "
        }
    }

    pub(super) fn parse_verbatim(&mut self) -> Result<String> {
        self.skip_spaces();
        let from = self.at;
        if self.peek() != Some('{') {
            return Err(self.error_here("expected `{`"));
        }
        self.at += 1;
        let text = self.take_while(|c| c != '}' && c != '{');
        self.expect_close('}', from)?;
        if text.chars().any(|c| c.is_control() || (self.ascii && !c.is_ascii())) {
            self.at = from;
            return Err(self.error_here("a character that cannot be rendered"));
        }
        Ok(text)
    }

    /// Text cannot show most styles; only blackboard letters have their own characters.
    fn parse_styled(&mut self, name: &str) -> Result<LatexAtom> {
        if name == "displaystyle" {
            return Ok(LatexAtom::plain(TextBlock::default()));
        }
        let block = self.parse_argument()?;
        let doubled = match block.to_text().as_str() {
            "R" => "ℝ",
            "N" => "ℕ",
            "Z" => "ℤ",
            "Q" => "ℚ",
            "C" => "ℂ",
            _ => return Ok(LatexAtom::plain(block)),
        };
        Ok(LatexAtom::plain(if name == "mathbb" && !self.ascii {
            TextBlock::from_text(doubled)
        } else {
            block
        }))
    }

    pub(super) fn skip_spaces(&mut self) {
        self.take_while(|c| c.is_whitespace() || c == '~');
    }

    pub(super) fn take_while(&mut self, predicate: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek().filter(|c| predicate(*c)) {
            taken.push(c);
            self.at += 1;
        }
        taken
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn starts_with(&self, text: &str) -> bool {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let same = text.chars().zip(rest).filter(|(a, b)| a == *b).count() == text.chars().count();
        // A command ends at its last letter.
        let letter = rest.get(text.chars().count()).is_some_and(char::is_ascii_alphabetic);
        same && !(letter && text.ends_with(|c: char| c.is_ascii_alphabetic()))
    }

    pub(super) fn error_here(&self, message: &str) -> String {
        format!("{message} at position {}", self.at + 1)
    }
}

/// Block, and whether its scripts are limits above and below it instead of at its side.
struct LatexAtom {
    block: TextBlock,
    has_limits: bool,
}

impl LatexAtom {
    fn plain(block: TextBlock) -> Self {
        Self { block, has_limits: false }
    }
}

fn prime_marks(script: &TextBlock) -> Option<String> {
    let text = script.to_text();
    text.chars().all(|c| c == '′').then_some(text)
}

/// Formats inline scripts, such as `^2` and `_(i+1)`; longer ones are in parentheses.
fn inline_scripts(above: Option<&TextBlock>, below: Option<&TextBlock>) -> String {
    let mut text = String::new();
    for (sign, script) in [("_", below), ("^", above)] {
        let Some(script) = script.map(|script| script.to_text().trim().replace(' ', "")) else {
            continue;
        };
        let quoted = script.chars().all(|c| c == '\'') && !script.is_empty();
        match script.chars().count() {
            _ if quoted => text.push_str(&script),
            0..=1 => text.extend([sign, &script]),
            _ => text.extend([sign, "(", &script, ")"]),
        }
    }
    text
}
