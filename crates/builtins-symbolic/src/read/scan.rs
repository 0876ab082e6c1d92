//! The tokenizer for equations.

/// Digits of one number.
const DIGITS: usize = 60;
/// Pieces of one text.
const LETTERS: usize = 30;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number(String, f64),
    Name(String),
    /// A power in raised digits, such as `²`.
    Raised(String, f64),
    /// One sign; `^` for `**` too, `=` for `==`.
    Sign(char),
    /// What is no piece of an equation, or is too long for one.
    Strange(String),
    End,
}

/// Looks one piece ahead.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    text: &'a str,
    /// Bytes before the piece that is looked at, and behind it.
    at: usize,
    end: usize,
    token: Token,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut scan = Self { text, at: 0, end: 0, token: Token::End };
        scan.next();
        scan
    }

    pub(super) fn peek(&self) -> &Token {
        &self.token
    }

    /// Goes on if it is this piece.
    pub(super) fn take(&mut self, token: &Token) -> Option<()> {
        (self.token == *token).then(|| self.next())
    }

    pub(super) fn wanted(&mut self, sign: char) -> Result<(), String> {
        self.take(&Token::Sign(sign)).ok_or_else(|| self.expected(&format!("`{sign}`")))
    }

    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        let before = self.text.get(..self.at).map_or(0, |text| text.chars().count());
        format!("at character {}", before + 1)
    }

    pub(super) fn expected(&self, what: &str) -> String {
        let found = match &self.token {
            Token::End => "the end".to_owned(),
            Token::Strange(why) => return format!("{}: {why}", self.place()),
            _ => {
                let found = self.text.get(self.at..self.end).unwrap_or_default();
                format!("`{found}`")
            }
        };
        format!("{}: {what} was expected, not {found}", self.place())
    }

    pub(super) fn next(&mut self) {
        let rest = self.text.get(self.end..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at = self.end + rest.len() - trimmed.len();
        let (token, length) = piece(trimmed);
        self.end = self.at + length;
        self.token = token;
    }
}

fn piece(text: &str) -> (Token, usize) {
    let Some(first) = text.chars().next() else { return (Token::End, 0) };
    if first.is_ascii_digit() || first == '.' {
        return number(text);
    }
    if first.is_alphabetic() || first == '_' {
        return name(text);
    }
    if raised(first).is_some() {
        return power(text);
    }
    for (written, sign) in [("**", '^'), ("==", '=')] {
        if text.starts_with(written) {
            return (Token::Sign(sign), 2);
        }
    }
    match first {
        '+' | '-' | '*' | '/' | '^' | '(' | ')' | ',' | ';' | '=' | '[' | ']' => {
            (Token::Sign(first), 1)
        }
        '√' => (Token::Sign('√'), first.len_utf8()),
        '−' => (Token::Sign('-'), first.len_utf8()),
        '·' | '×' => (Token::Sign('*'), first.len_utf8()),
        '<' | '>' => (Token::Strange("only equations are solved".to_owned()), 1),
        _ => {
            // A sign that can be seen is shown as it was written.
            let escaped = first.is_control() || first.is_whitespace() || first == '\u{feff}';
            let shown =
                if escaped { first.escape_default().to_string() } else { first.to_string() };
            let why = format!("`{shown}` has no meaning in an equation");
            (Token::Strange(why), first.len_utf8())
        }
    }
}

fn name(text: &str) -> (Token, usize) {
    let belongs = |c: char| (c.is_alphanumeric() && raised(c).is_none()) || c == '_';
    let length = text.find(|c: char| !belongs(c)).unwrap_or(text.len());
    let found = text.get(..length).unwrap_or_default();
    // As numpy and sympy are called.
    let prefixed = matches!(found, "np" | "math" | "sp" | "sympy" | "numpy");
    if prefixed && text.get(length..).is_some_and(|rest| rest.starts_with('.')) {
        let (token, more) = name(text.get(length + 1..).unwrap_or_default());
        return (token, length + 1 + more);
    }
    if found.chars().count() > LETTERS {
        return (Token::Strange(format!("a name has more than {LETTERS} letters")), length);
    }
    if found.is_empty() {
        return (Token::Strange("a name was expected".to_owned()), 1);
    }
    (Token::Name(found.to_owned()), length)
}

/// The digit that stands raised.
fn raised(c: char) -> Option<char> {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digit = RAISED.iter().position(|raised| *raised == c)?;
    char::from_digit(u32::try_from(digit).ok()?, 10)
}

fn power(text: &str) -> (Token, usize) {
    let digits: String = text.chars().map_while(raised).take(DIGITS).collect();
    let length = text.chars().take(digits.len()).map(char::len_utf8).sum();
    let value = digits.parse().unwrap_or(f64::NAN);
    (Token::Raised(digits, value), length)
}

fn number(text: &str) -> (Token, usize) {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
    };
    let mut end = digits(0);
    if text.get(end..).is_some_and(|rest| rest.starts_with('.')) {
        end = digits(end + 1);
    }
    // `2e` is twice e; `2e3` is 2000.
    if text.get(end..).is_some_and(|rest| rest.starts_with(['e', 'E'])) {
        let sign = text.get(end + 1..).is_some_and(|rest| rest.starts_with(['+', '-']));
        let from = end + 1 + usize::from(sign);
        let past = digits(from);
        if past > from {
            end = past;
        }
    }
    let found = text.get(..end).unwrap_or_default();
    let value = found.parse::<f64>().unwrap_or(f64::NAN);
    if end > DIGITS {
        return (Token::Strange(format!("a number has more than {DIGITS} digits")), end);
    }
    if !(value == 0.0 || (1e-60..1e60).contains(&value)) {
        let shown = format!("`{found}` is no number between 1e-60 and 1e60");
        return (Token::Strange(shown), end.max(1));
    }
    // Digits on both sides of a point.
    let whole = if found.starts_with('.') { format!("0{found}") } else { found.to_owned() };
    (Token::Number(whole.trim_end_matches('.').replace(".e", "e").replace(".E", "E"), value), end)
}
