//! Text templates with placeholders such as `{{version}}`.

/// Replaces the placeholders of a template.
///
/// # Errors
/// If a placeholder has no value, or a value has no placeholder.
pub(crate) fn fill_template(
    name: &str,
    template: &str,
    values: &[(&str, &str)],
) -> Result<String, String> {
    let mut text = template.to_owned();
    for (key, value) in values {
        let placeholder = format!("{{{{{key}}}}}");
        if !text.contains(&placeholder) {
            return Err(format!("dist/{name} has no {placeholder}"));
        }
        text = text.replace(&placeholder, value);
    }
    match text.split_once("{{").and_then(|(_, rest)| rest.split_once("}}")) {
        Some((key, _)) => Err(format!("dist/{name}: nothing fills {{{{{key}}}}}")),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::fill_template;

    #[test]
    fn every_placeholder_and_every_value_is_used() {
        let fill = |values: &[(&str, &str)]| fill_template("a", "x {{b}} {{b}} {{c}}", values);
        assert_eq!(fill(&[("b", "1"), ("c", "2")]).unwrap(), "x 1 1 2");
        assert_eq!(fill(&[("b", "1")]).unwrap_err(), "dist/a: nothing fills {{c}}");
        let unknown = fill(&[("b", "1"), ("c", "2"), ("d", "3")]).unwrap_err();
        assert_eq!(unknown, "dist/a has no {{d}}");
    }
}
