//! The LaTeX parser, which builds text blocks while it reads.

use super::block::Block;
use super::signs;

/// Groups inside of each other.
const DEEPEST: usize = 40;
pub(super) type Result<T> = std::result::Result<T, String>;

/// The whole formula.
pub(super) fn parse(text: &str, ascii: bool) -> Result<Block> {
    let mut reader = Reader { chars: text.chars().collect(), at: 0, depth: 0, ascii };
    let block = reader.until(&[])?;
    match reader.peek() {
        None if block.is_empty() => Err("there is nothing to be shown".to_owned()),
        None => Ok(block),
        Some(found) => Err(reader.wrong(&format!("unexpected `{found}`"))),
    }
}

/// Where it stands in a formula.
pub(super) struct Reader {
    chars: Vec<char>,
    pub(super) at: usize,
    depth: usize,
    pub(super) ascii: bool,
}

impl Reader {
    /// Everything up to one of `ends`, which is left, or to the end.
    pub(super) fn until(&mut self, ends: &[&str]) -> Result<Block> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(&format!("nested deeper than {DEEPEST} levels")));
        }
        let mut all = Block::default();
        loop {
            self.spaces();
            let stop =
                self.peek().is_none_or(|c| c == '}') || ends.iter().any(|end| self.stands(end));
            if stop {
                break;
            }
            let atom = self.atom()?;
            let scripted = self.scripts(atom)?;
            all = all.beside(&scripted);
        }
        self.depth -= 1;
        Ok(all)
    }

    /// One thing with nothing above or below it yet.
    fn atom(&mut self) -> Result<Atom> {
        let c = self.peek().ok_or_else(|| self.wrong("expected something, found the end"))?;
        match c {
            '{' => self.group().map(Atom::plain),
            '\\' => self.command(),
            '&' => Err(self.wrong("`&` outside of a matrix")),
            '^' | '_' => Ok(Atom::plain(Block::default())),
            '=' | '<' | '>' | '+' | '-' => {
                self.at += 1;
                let alone = c == '-' && self.ascii;
                let sign = if c == '-' && !alone { '−' } else { c };
                // A sign at the beginning belongs to what follows it.
                let first = self.before().is_none_or(|c| "({[=<>,^_&\\".contains(c));
                let text = if first { sign.to_string() } else { format!(" {sign} ") };
                Ok(Atom::plain(Block::of(&text)))
            }
            ',' => {
                self.at += 1;
                Ok(Atom::plain(Block::of(", ")))
            }
            c if c.is_ascii_digit() => {
                let digits = self.take(|c| c.is_ascii_digit() || c == '.');
                Ok(Atom::plain(Block::of(&digits)))
            }
            c if c.is_control() => Err(self.wrong("a control character")),
            c if self.ascii && !c.is_ascii() => {
                Err(self.wrong(&format!("`{c}` is no ASCII; ask for `unicode`")))
            }
            c => {
                self.at += 1;
                Ok(Atom::plain(Block::of(&c.to_string())))
            }
        }
    }

    /// The last sign before the one just read.
    fn before(&self) -> Option<char> {
        let before = self.chars.get(..self.at.saturating_sub(1)).unwrap_or_default();
        before.iter().rev().find(|c| !c.is_whitespace()).copied()
    }

    fn scripts(&mut self, atom: Atom) -> Result<Block> {
        let (mut above, mut below) = (None, None);
        loop {
            self.spaces();
            let place = match self.peek() {
                Some('^') => &mut above,
                Some('_') => &mut below,
                Some('\'') => {
                    let primes = self.take(|c| c == '\'');
                    let sign = if self.ascii { primes } else { "′".repeat(primes.len()) };
                    above = Some(Block::of(&sign));
                    continue;
                }
                _ => break,
            };
            if place.is_some() {
                return Err(self.wrong("two of them on one thing: put braces around the first"));
            }
            self.at += 1;
            self.spaces();
            *place = Some(self.argument()?);
        }
        let Atom { block, limits } = atom;
        if limits {
            let mut rows = Vec::new();
            let base = above.iter().len();
            rows.extend(above);
            rows.push(block);
            rows.extend(below);
            let stacked = Block::stacked(&rows, base);
            return Ok(stacked.beside(&Block::of(" ")));
        }
        if !self.ascii && block.height() == 1 {
            let small = |script: &Option<Block>, up| match script {
                None => Some(String::new()),
                Some(script) if script.height() == 1 => {
                    signs::small(&script.text().replace('−', "-"), up).or_else(|| prime(script))
                }
                Some(_) => None,
            };
            if let (Some(up), Some(down)) = (small(&above, true), small(&below, false)) {
                return Ok(block.beside(&Block::of(&format!("{down}{up}"))));
            }
        }
        if self.ascii && block.height() == 1 && above.iter().chain(&below).all(|s| s.height() == 1)
        {
            return Ok(block.beside(&Block::of(&inline(above.as_ref(), below.as_ref()))));
        }
        Ok(block.scripted(above.as_ref(), below.as_ref()))
    }

    pub(super) fn argument(&mut self) -> Result<Block> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(&format!("nested deeper than {DEEPEST} levels")));
        }
        let block = self.one()?;
        self.depth -= 1;
        Ok(block)
    }

    fn one(&mut self) -> Result<Block> {
        self.spaces();
        match self.peek() {
            Some('{') => self.group(),
            // One sign alone, as TeX has it.
            Some(c) if c.is_ascii_digit() => {
                self.at += 1;
                Ok(Block::of(&c.to_string()))
            }
            _ => Ok(self.atom()?.block),
        }
    }

    fn group(&mut self) -> Result<Block> {
        let from = self.at;
        self.at += 1;
        let inside = self.until(&[])?;
        self.closed('}', from)?;
        Ok(inside)
    }

    pub(super) fn closed(&mut self, wanted: char, from: usize) -> Result<()> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        let place = from + 1;
        Err(self.wrong(&format!("expected `{wanted}` for what opens at position {place}")))
    }

    fn command(&mut self) -> Result<Atom> {
        let from = self.at;
        self.at += 1;
        let mut name = self.take(|c| c.is_ascii_alphabetic());
        if name.is_empty() {
            name = self.peek().map(String::from).unwrap_or_default();
            self.at += 1;
        }
        if let Some((rows, limits)) = signs::large(&name, self.ascii) {
            let rows: Vec<Block> = rows.iter().map(|row| Block::of(row)).collect();
            return Ok(Atom { block: Block::stacked(&rows, 0).centred(), limits });
        }
        if let Some(word) = signs::limited(&name) {
            return Ok(Atom { block: Block::of(word), limits: true });
        }
        if let Some(word) = signs::word(&name) {
            return Ok(Atom::plain(Block::of(&format!("{word}{}", self.gap()))));
        }
        if let Some(sign) = signs::sign(&name, self.ascii) {
            return Ok(Atom::plain(Block::of(sign)));
        }
        let block = match name.as_str() {
            "frac" | "dfrac" | "tfrac" | "cfrac" => self.fraction()?,
            "binom" => {
                let (top, bottom) = (self.argument()?, self.argument()?);
                let rows = [top, Block::bar(' ', 1), bottom];
                Block::stacked(&rows, 1).fenced("(", ")", self.ascii)
            }
            "sqrt" => self.root()?,
            "text" | "mathrm" | "textrm" | "operatorname" => Block::of(&self.verbatim()?),
            "mathbf" | "mathit" | "boldsymbol" | "mathcal" | "mathsf" | "displaystyle"
            | "mathbb" => {
                return self.styled(&name);
            }
            "left" => self.fenced(from)?,
            "begin" => self.environment(from)?,
            "hat" | "bar" | "overline" | "vec" | "tilde" | "dot" | "ddot" => self.accent(&name)?,
            "limits" | "nolimits" | "big" | "Big" | "bigl" | "bigr" | "Bigl" | "Bigr" => {
                Block::default()
            }
            _ => {
                self.at = from;
                let name: String = name.chars().take(32).collect();
                return Err(self.wrong(&format!("`\\{name}` is not known")));
            }
        };
        Ok(Atom::plain(block))
    }

    /// Between a function's name and what follows, unless that is a bracket or a script.
    fn gap(&mut self) -> &'static str {
        self.spaces();
        if self.peek().is_none_or(|c| "([{^_}&".contains(c)) || self.stands("\\left") {
            ""
        } else {
            " "
        }
    }

    pub(super) fn verbatim(&mut self) -> Result<String> {
        self.spaces();
        let from = self.at;
        if self.peek() != Some('{') {
            return Err(self.wrong("expected `{`"));
        }
        self.at += 1;
        let text = self.take(|c| c != '}' && c != '{');
        self.closed('}', from)?;
        if text.chars().any(|c| c.is_control() || (self.ascii && !c.is_ascii())) {
            self.at = from;
            return Err(self.wrong("a character that cannot be shown"));
        }
        Ok(text)
    }

    /// A style changes letters in no way that text can show; blackboard letters have signs of their own.
    fn styled(&mut self, name: &str) -> Result<Atom> {
        if name == "displaystyle" {
            return Ok(Atom::plain(Block::default()));
        }
        let block = self.argument()?;
        let doubled = match block.text().as_str() {
            "R" => "ℝ",
            "N" => "ℕ",
            "Z" => "ℤ",
            "Q" => "ℚ",
            "C" => "ℂ",
            _ => return Ok(Atom::plain(block)),
        };
        Ok(Atom::plain(if name == "mathbb" && !self.ascii { Block::of(doubled) } else { block }))
    }

    pub(super) fn spaces(&mut self) {
        self.take(|c| c.is_whitespace() || c == '~');
    }

    pub(super) fn take(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek().filter(|c| belongs(*c)) {
            taken.push(c);
            self.at += 1;
        }
        taken
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn stands(&self, text: &str) -> bool {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let same = text.chars().zip(rest).filter(|(a, b)| a == *b).count() == text.chars().count();
        // A command ends where its letters do.
        let letter = rest.get(text.chars().count()).is_some_and(char::is_ascii_alphabetic);
        same && !(letter && text.ends_with(|c: char| c.is_ascii_alphabetic()))
    }

    pub(super) fn wrong(&self, what: &str) -> String {
        format!("{what} at position {}", self.at + 1)
    }
}

/// A block, and whether what is above and below it stands there and not at its side.
struct Atom {
    block: Block,
    limits: bool,
}

impl Atom {
    fn plain(block: Block) -> Self {
        Self { block, limits: false }
    }
}

fn prime(script: &Block) -> Option<String> {
    let text = script.text();
    text.chars().all(|c| c == '′').then_some(text)
}

/// `^2`, `_(i+1)`: what is longer than a sign in brackets.
fn inline(above: Option<&Block>, below: Option<&Block>) -> String {
    let mut text = String::new();
    for (sign, script) in [("_", below), ("^", above)] {
        let Some(script) = script.map(|script| script.text().trim().replace(' ', "")) else {
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
