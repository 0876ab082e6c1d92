//! Licences that the program may contain, by the list of `deny.toml`.

use super::dependency_graph::DependencyGraph;

/// Returns the crates whose licence is not in the list `allow` of `deny.toml`, each with it.
///
/// # Errors
/// If the list is not found.
pub(crate) fn find_unlisted(
    graph: &DependencyGraph,
    deny_file: &str,
) -> Result<Vec<String>, String> {
    let allowed = parse_allowed(deny_file).ok_or("deny.toml has no list `allow` of licences")?;
    let mut unlisted = Vec::new();
    for found in &graph.crates {
        let expression = found.license_expression();
        if !is_allowed(&expression, &allowed) {
            unlisted.push(format!("{} {}: {expression}", found.name, found.version));
        }
    }
    Ok(unlisted)
}

/// Returns the licences in the list `allow` of the section `[licenses]`.
fn parse_allowed(deny_file: &str) -> Option<Vec<&str>> {
    let (_, section) = deny_file.split_once("\n[licenses]\n")?;
    let (_, list) = section.split_once("\nallow = [\n")?;
    let (list, _) = list.split_once("\n]")?;
    Some(list.lines().filter_map(|line| line.split('"').nth(1)).collect())
}

/// Evaluates an SPDX expression: `OR` of `AND`s of licences and parentheses.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let result = evaluate_any(&mut words, allowed);
    result && words.next().is_none()
}

type Words<'a, 'b> = &'a mut std::iter::Peekable<std::str::SplitWhitespace<'b>>;

fn evaluate_any(words: Words<'_, '_>, allowed: &[&str]) -> bool {
    let mut result = evaluate_all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        // Not `||`, which would leave words unread.
        result |= evaluate_all(words, allowed);
    }
    result
}

fn evaluate_all(words: Words<'_, '_>, allowed: &[&str]) -> bool {
    let mut result = evaluate_license(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        result &= evaluate_license(words, allowed);
    }
    result
}

fn evaluate_license(words: Words<'_, '_>, allowed: &[&str]) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let result = evaluate_any(words, allowed);
        return words.next_if_eq(&")").is_some() && result;
    }
    let Some(mut name) = words.next().map(str::to_owned) else { return false };
    if words.next_if_eq(&"WITH").is_some() {
        let exception = words.next().unwrap_or_default();
        name = format!("{name} WITH {exception}");
    }
    allowed.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::{is_allowed, parse_allowed};

    #[test]
    fn expressions_are_evaluated() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for expression in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT AND (GPL-3.0 OR ISC)",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "ISC AND MIT OR GPL-3.0",
        ] {
            assert!(is_allowed(expression, &allowed), "{expression}");
        }
        for expression in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT",
            "MIT MIT",
            "Apache-2.0",
            "MIT WITH x",
            "OR MIT",
        ] {
            assert!(!is_allowed(expression, &allowed), "{expression}");
        }
    }

    #[test]
    fn the_list_of_the_repository_is_read() {
        let workspace = crate::workspace::Workspace::load_workspace().unwrap();
        let file = std::fs::read_to_string(workspace.root_dir.join("deny.toml")).unwrap();
        let allowed = parse_allowed(&file).unwrap();
        assert!(allowed.contains(&"MIT") && allowed.contains(&"BSL-1.0"), "{allowed:?}");
    }
}
