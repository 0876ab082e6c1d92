//! Matches URIs against URI templates (RFC 6570), to find the source of a resource that no list
//! contains.

/// One part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplatePart<'a> {
    Literal(&'a str),
    /// An expression. `reserved` if its value may contain `/`, `?` and `#`.
    Expression {
        reserved: bool,
    },
}

/// Maximum bytes of a URI or template that is matched.
const MAX_MATCHED_BYTES: usize = 1_024;
/// Maximum number of parts of a template that is matched.
const MAX_PARTS: usize = 33;

/// Splits a template; `None` if an expression is not closed, or if it has too many parts.
fn split_template(template: &str) -> Option<Vec<TemplatePart<'_>>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        let (expression, after) = after.split_once('}')?;
        parts.push(TemplatePart::Literal(literal));
        // `{var}` percent-encodes reserved characters; every operator writes some of them.
        let reserved = expression.starts_with(['+', '#', '/', '.', ';', '?', '&'])
            || expression.ends_with('*');
        parts.push(TemplatePart::Expression { reserved });
        rest = after;
        if parts.len() >= MAX_PARTS {
            return None;
        }
    }
    parts.push(TemplatePart::Literal(rest));
    Some(parts)
}

/// Returns true if some values of its variables expand the template to this URI. An expression
/// without an operator matches no `/`, `?` or `#`.
pub(crate) fn matches_template(template: &str, uri: &str) -> bool {
    let prefix = template.split('{').next().unwrap_or_default();
    if template.len().max(uri.len()) > MAX_MATCHED_BYTES || !uri.starts_with(prefix) {
        return false;
    }
    let Some(parts) = split_template(template) else { return false };
    // The offsets up to which the parts so far can reach.
    let mut reached = vec![0];
    for part in parts {
        reached = match part {
            TemplatePart::Literal(literal) => {
                let at = |from: &usize| uri.get(*from..).is_some_and(|it| it.starts_with(literal));
                reached.into_iter().filter(at).map(|from| from + literal.len()).collect()
            }
            TemplatePart::Expression { reserved } => expand_reach(uri, &reached, reserved),
        };
        if reached.is_empty() {
            return false;
        }
    }
    reached.contains(&uri.len())
}

/// Returns every offset that an expression reaches from one of these, which are ascending.
fn expand_reach(uri: &str, from: &[usize], reserved: bool) -> Vec<usize> {
    let mut starts = from.iter().peekable();
    let mut is_open = false;
    let mut reached = Vec::new();
    for (offset, char) in uri.char_indices() {
        is_open |= starts.next_if_eq(&&offset).is_some();
        if is_open {
            reached.push(offset);
        }
        is_open &= reserved || !matches!(char, '/' | '?' | '#');
    }
    if is_open || starts.next_if_eq(&&uri.len()).is_some() {
        reached.push(uri.len());
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::matches_template;

    #[test]
    fn a_uri_matches_what_some_values_expand_to() {
        for (template, uri, expected) in [
            ("test://{id}", "test://7", true),
            ("test://{id}", "test://", true),
            ("test://{id}", "test://a/b", false),
            ("test://{+path}", "test://a/b?c#d", true),
            ("test://{a}/{b}/end", "test://x/y/end", true),
            ("test://{a}/{b}/end", "test://x/end", false),
            ("db://{table}/rows{?from,to}", "db://t/rows?from=1&to=2", true),
            ("db://{table}/rows{?from,to}", "db://t/rows", true),
            ("db://{table}{/path*}", "db://t/a/b", true),
            ("plain://a", "plain://a", true),
            ("plain://a", "plain://ab", false),
            ("open://{a", "open://x", false),
            ("é://{a}-{b}", "é://ü-ö", true),
            ("x://{a}{b}{c}{d}", "x://aaaa", true),
        ] {
            assert_eq!(matches_template(template, uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn many_expressions_take_no_exponential_time() {
        let uri = format!("x://{}", "a".repeat(1_000));
        for expressions in [15, 1_000] {
            let template = format!("x://{}!", "{+a}".repeat(expressions));
            assert!(!matches_template(&template, &uri), "{expressions}");
        }
        assert!(!matches_template("x{+a}", &"x".repeat(10_000)));
    }
}
