//! Python syntax check with ruff's parser.

use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};

use super::LintIssue;

/// Stack of the parser thread in bytes. The parser is recursive, and a long sum nests as deep as it
/// is long.
const PARSER_STACK_BYTES: usize = 256 << 20;
/// Largest number of reported errors.
const MAX_ERRORS: usize = 100;

pub(super) fn check_syntax(code: &str) -> Result<Vec<LintIssue>, String> {
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES);
        let reader = reader.spawn_scoped(scope, || syntax_errors(code));
        let reader = reader.map_err(|error| format!("cannot start the check: {error}"))?;
        reader.join().map_err(|_| "the check failed on this code".to_owned())
    })
}

fn syntax_errors(code: &str) -> Vec<LintIssue> {
    let parsed = parse_unchecked(code, ParseOptions::from(Mode::Module));
    let one = |error: &ruff_python_parser::ParseError| {
        let (line, column) = line_and_column(code, error.location.start().to_usize());
        LintIssue { code: "E999".to_owned(), message: error.error.to_string(), line, column }
    };
    parsed.errors().iter().take(MAX_ERRORS).map(one).collect()
}

/// Returns line and column of a byte offset, both from 1.
fn line_and_column(code: &str, at: usize) -> (u64, u64) {
    let before = code.get(..at).unwrap_or(code);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() as u64 + 1;
    let last = before.rsplit('\n').next().unwrap_or_default();
    (line, last.chars().count() as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::check_syntax;

    #[test]
    fn what_is_no_python_is_told_with_its_place() {
        assert_eq!(check_syntax("def f(x):\n    return x + 1\n").unwrap(), []);
        let issues = check_syntax("x = 1\ny = = 2\n").unwrap();
        assert_eq!((issues[0].code.as_str(), issues[0].line, issues[0].column), ("E999", 2, 5));
    }

    #[test]
    fn depth_ends_in_an_answer() {
        for (open, close) in [("(", ")"), ("-", ""), ("[", "]"), ("lambda:", ""), ("not ", "")] {
            let code = format!("x = {}1{}", open.repeat(20_000), close.repeat(20_000));
            let _answered = check_syntax(&code).unwrap();
        }
        assert_eq!(check_syntax(&format!("x = {}1", "1+".repeat(50_000))).unwrap(), []);
    }
}
