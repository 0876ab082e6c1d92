//! Tables in docs/reference/builtins.md that a test run writes.

use std::path::Path;

/// Compares the part between two marks with `told`, or writes it if `TOOLKEEP_BLESS=1`.
pub(crate) fn part(name: &str, told: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/builtins.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- end {name} -->"));
    let (before, rest) = page.split_once(&open).unwrap_or_else(|| panic!("no part `{name}`"));
    let (is, after) = rest.split_once(&close).unwrap();
    if std::env::var_os("TOOLKEEP_BLESS").is_some_and(|word| word == "1") {
        std::fs::write(&path, format!("{before}{open}{told}{close}{after}")).unwrap();
    } else {
        assert_eq!(is, told, "docs/reference/builtins.md is old; run with TOOLKEEP_BLESS=1");
    }
}
