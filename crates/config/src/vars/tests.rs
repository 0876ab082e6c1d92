use super::{Environment, Variables};

fn expand(text: &str) -> Result<String, String> {
    let environment = [("HOME", "/h"), ("EMPTY", ""), ("SLY", "x\nkey: ${HOME}")];
    let environment: Environment = environment.into_iter().collect();
    Variables::ours(&environment).expand(text).map_err(|(_, message, _)| message)
}

#[test]
fn variables_and_defaults() {
    for (text, expected) in [
        ("plain $HOME $", "plain $HOME $"),
        ("${HOME}/x", "/h/x"),
        ("${HOME:-y}", "/h"),
        ("${NONE:-y}", "y"),
        ("${NONE:-}", ""),
        ("${EMPTY:-y}", "y"),
        ("${EMPTY}", ""),
        ("a${NONE:-b}c${HOME}", "abc/h"),
        ("$${HOME}", "${HOME}"),
        ("$$${HOME}", "$${HOME}"),
        ("${NONE:-a:-b}", "a:-b"),
    ] {
        assert_eq!(expand(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_a_variable_holds_is_text_and_nothing_else() {
    assert_eq!(expand("${SLY}").unwrap(), "x\nkey: ${HOME}");
}

#[test]
fn faults_name_the_variable() {
    for (text, message) in [
        ("${NONE}", "the environment variable `NONE` is not set"),
        ("${HOME", "`${` is not closed"),
        ("${}", "`${}` is no variable"),
        ("${1A}", "`${1A}` is no variable"),
        ("${A-b}", "`${A-b}` is no variable"),
        ("${A:-${B}}", "a variable stands within the default of `A`"),
        ("${env:HOME}", "`${env:HOME}` is no variable"),
    ] {
        assert_eq!(expand(text).unwrap_err(), message, "{text}");
    }
}

#[test]
fn the_variables_that_a_text_mentions_are_found() {
    let text = "a: ${TOKEN}\nb: '${env:HOME}/x${PORT:-80}'\nc: $${ESCAPED} ${input:key} ${open";
    assert_eq!(super::mentioned(text), ["TOKEN", "HOME", "PORT", "ESCAPED"]);
}

#[test]
fn a_variable_cannot_blow_a_text_up() {
    let environment: Environment = [("BIG", "x".repeat(40_000))].into_iter().collect();
    let variables = Variables::ours(&environment);
    assert!(variables.expand("${BIG}").is_ok());
    assert!(variables.expand("${BIG}${BIG}").is_err());
}

#[test]
fn foreign_files_have_words_and_env() {
    let environment: Environment = [("HOME", "/h")].into_iter().collect();
    let variables = Variables::foreign(&environment, vec![("workspaceFolder", "/w".to_owned())]);
    assert_eq!(variables.expand("${workspaceFolder}${env:HOME}${HOME}").unwrap(), "/w/h/h");
    assert!(variables.expand("${input:key}").is_err());
}
