//! Tokenizer of equations in Python notation.

/// Maximum digits of one number.
const DIGITS: usize = 60;
/// Maximum letters of a name.
const LETTERS: usize = 30;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum EquationToken {
    Number(String, f64),
    Name(String),
    /// Superscript exponent, such as `²`.
    Raised(String, f64),
    /// Single-character operator; `^` also stands for `**`, and `=` for `==`.
    Operator(char),
    /// Invalid or overlong token, with the reason.
    Invalid(String),
    End,
}

/// Tokenizer with one token of lookahead.
#[derive(Debug)]
pub(super) struct EquationTokenizer<'a> {
    text: &'a str,
    /// Byte offsets of the start and end of the current token.
    at: usize,
    end: usize,
    token: EquationToken,
}

impl<'a> EquationTokenizer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut scan = Self { text, at: 0, end: 0, token: EquationToken::End };
        scan.advance_token();
        scan
    }

    pub(super) fn peek(&self) -> &EquationToken {
        &self.token
    }

    /// Advances if the current token equals `token`.
    pub(super) fn accept_token(&mut self, token: &EquationToken) -> Option<()> {
        (self.token == *token).then(|| self.advance_token())
    }

    pub(super) fn expect_sign(&mut self, sign: char) -> Result<(), String> {
        self.accept_token(&EquationToken::Operator(sign))
            .ok_or_else(|| self.unexpected_error(&format!("`{sign}`")))
    }

    /// Returns the position of the current token, for error messages.
    pub(super) fn position_text(&self) -> String {
        let before = self.text.get(..self.at).map_or(0, |text| text.chars().count());
        format!("at character {}", before + 1)
    }

    pub(super) fn unexpected_error(&self, expected: &str) -> String {
        let found = match &self.token {
            EquationToken::End => "the end".to_owned(),
            EquationToken::Invalid(why) => return format!("{}: {why}", self.position_text()),
            _ => {
                let found = self.text.get(self.at..self.end).unwrap_or_default();
                format!("`{found}`")
            }
        };
        format!("{}: {expected} was expected, not {found}", self.position_text())
    }

    pub(super) fn advance_token(&mut self) {
        let rest = self.text.get(self.end..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at = self.end + rest.len() - trimmed.len();
        let (token, length) = next_token(trimmed);
        self.end = self.at + length;
        self.token = token;
    }
}

fn next_token(text: &str) -> (EquationToken, usize) {
    let Some(first) = text.chars().next() else { return (EquationToken::End, 0) };
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
            return (EquationToken::Operator(sign), 2);
        }
    }
    match first {
        '+' | '-' | '*' | '/' | '^' | '(' | ')' | ',' | ';' | '=' | '[' | ']' => {
            (EquationToken::Operator(first), 1)
        }
        '√' => (EquationToken::Operator('√'), first.len_utf8()),
        '−' => (EquationToken::Operator('-'), first.len_utf8()),
        '·' | '×' => (EquationToken::Operator('*'), first.len_utf8()),
        '<' | '>' => (EquationToken::Invalid("only equations are supported".to_owned()), 1),
        _ => {
            // A visible character is shown as written.
            let escaped = first.is_control() || first.is_whitespace() || first == '\u{feff}';
            let shown =
                if escaped { first.escape_default().to_string() } else { first.to_string() };
            let why = format!("`{shown}` has no meaning in an equation");
            (EquationToken::Invalid(why), first.len_utf8())
        }
    }
}

fn name(text: &str) -> (EquationToken, usize) {
    let belongs = |c: char| (c.is_alphanumeric() && raised(c).is_none()) || c == '_';
    let length = text.find(|c: char| !belongs(c)).unwrap_or(text.len());
    let found = text.get(..length).unwrap_or_default();
    // Prefixes under which numpy and sympy are imported.
    let prefixed = matches!(found, "np" | "math" | "sp" | "sympy" | "numpy");
    if prefixed && text.get(length..).is_some_and(|rest| rest.starts_with('.')) {
        let (token, more) = name(text.get(length + 1..).unwrap_or_default());
        return (token, length + 1 + more);
    }
    if found.chars().count() > LETTERS {
        return (EquationToken::Invalid(format!("a name has more than {LETTERS} letters")), length);
    }
    if found.is_empty() {
        return (EquationToken::Invalid("a name was expected".to_owned()), 1);
    }
    (EquationToken::Name(found.to_owned()), length)
}

/// Returns the digit of a superscript character.
fn raised(c: char) -> Option<char> {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digit = RAISED.iter().position(|raised| *raised == c)?;
    char::from_digit(u32::try_from(digit).ok()?, 10)
}

fn power(text: &str) -> (EquationToken, usize) {
    let digits: String = text.chars().map_while(raised).take(DIGITS).collect();
    let length = text.chars().take(digits.len()).map(char::len_utf8).sum();
    let value = digits.parse().unwrap_or(f64::NAN);
    (EquationToken::Raised(digits, value), length)
}

fn number(text: &str) -> (EquationToken, usize) {
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
        return (EquationToken::Invalid(format!("a number has more than {DIGITS} digits")), end);
    }
    if !(value == 0.0 || (1e-60..1e60).contains(&value)) {
        let shown = format!("`{found}` is not a number between 1e-60 and 1e60");
        return (EquationToken::Invalid(shown), end.max(1));
    }
    // Ensures digits on both sides of the decimal point.
    let whole = if found.starts_with('.') { format!("0{found}") } else { found.to_owned() };
    (
        EquationToken::Number(
            whole.trim_end_matches('.').replace(".e", "e").replace(".E", "E"),
            value,
        ),
        end,
    )
}
