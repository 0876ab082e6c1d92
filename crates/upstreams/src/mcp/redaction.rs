//! What a child was given and must not be told of it: secrets of its environment, and its arguments.

use guard::process::{EnvValue, Spec};
use tool::Secret;

/// Texts shorter than this are too common to be looked for, in bytes.
const LEAST: usize = 6;

/// Texts that are replaced, the longest first, each with what stands in its place.
#[derive(Debug, Clone)]
pub(super) struct Redaction(Vec<(Secret, String)>);

impl Redaction {
    /// The secrets among the variables of a command.
    pub(super) fn of_environment(spec: &Spec) -> Self {
        let values = spec.env.iter().filter_map(|(_, value)| match value {
            EnvValue::Secret(secret) => Some((secret.clone(), "[secret]".to_owned())),
            EnvValue::Plain(_) => None,
        });
        Self::sorted(values.collect())
    }

    /// The same with the values of its arguments: names of options stay.
    pub(super) fn and_arguments(self, spec: &Spec) -> Self {
        let mut all = self.0;
        for (number, arg) in (1..).zip(&spec.args) {
            let value = match arg.split_once('=') {
                Some((name, value)) if name.starts_with('-') => value,
                None if arg.starts_with('-') && !arg.contains(char::is_whitespace) => continue,
                Some(_) | None => arg.as_str(),
            };
            all.push((Secret::new(value), format!("[argument {number}]")));
        }
        Self::sorted(all)
    }

    fn sorted(mut all: Vec<(Secret, String)>) -> Self {
        all.retain(|(secret, _)| secret.open().len() >= LEAST);
        all.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.open().len()));
        Self(all)
    }

    /// `text` without any of it.
    pub(super) fn apply(&self, mut text: String) -> String {
        for (secret, instead) in &self.0 {
            if text.contains(secret.open()) {
                text = text.replace(secret.open(), instead);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use guard::process::{EnvValue, Spec};
    use tool::Secret;

    use super::Redaction;

    #[test]
    fn values_are_replaced_and_names_of_options_are_not() {
        let args = ["--verbose", "--token=SEKRET-1", "SEKRET-1-2", "short", "-p x", "PASS=hidden"];
        let spec = Spec {
            args: args.map(str::to_owned).to_vec(),
            env: vec![
                ("A".to_owned(), EnvValue::Secret(Secret::new("in-the-env"))),
                ("B".to_owned(), "plainly".into()),
            ],
            ..Spec::default()
        };
        let redaction = Redaction::of_environment(&spec);
        let text =
            || "--verbose SEKRET-1-2 SEKRET-1 short PASS=hidden in-the-env plainly".to_owned();
        assert!(redaction.apply(text()).contains("SEKRET-1-2 SEKRET-1"), "the control");
        assert_eq!(
            redaction.and_arguments(&spec).apply(text()),
            "--verbose [argument 3] [argument 2] short [argument 6] [secret] plainly"
        );
    }
}
