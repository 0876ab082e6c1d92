use super::{Environment, VariableExpander};

fn expand(text: &str) -> Result<String, String> {
    let environment = [("HOME", "/h"), ("EMPTY", ""), ("SLY", "x\nkey: ${HOME}")];
    let environment: Environment = environment.into_iter().collect();
    VariableExpander::for_config_file(&environment).expand_text(text).map_err(|error| error.message)
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
        ("${}", "invalid variable reference `${}`"),
        ("${1A}", "invalid variable reference `${1A}`"),
        ("${A-b}", "invalid variable reference `${A-b}`"),
        ("${A:-${B}}", "the default of `A` contains a variable"),
        ("${env:HOME}", "invalid variable reference `${env:HOME}`"),
    ] {
        assert_eq!(expand(text).unwrap_err(), message, "{text}");
    }
}

#[test]
fn the_variables_that_a_text_mentions_are_found() {
    let text = "a: ${TOKEN}\nb: '${env:HOME}/x${PORT:-80}'\nc: $${ESCAPED} ${input:key} ${open";
    assert_eq!(super::find_variable_names(text), ["TOKEN", "HOME", "PORT", "ESCAPED"]);
}

#[test]
fn a_variable_cannot_blow_a_text_up() {
    let environment: Environment = [("BIG", "x".repeat(40_000))].into_iter().collect();
    let variables = VariableExpander::for_config_file(&environment);
    assert!(variables.expand_text("${BIG}").is_ok());
    assert!(variables.expand_text("${BIG}${BIG}").is_err());
}

#[test]
fn foreign_files_have_words_and_env() {
    let environment: Environment = [("HOME", "/h")].into_iter().collect();
    let variables = VariableExpander::for_mcp_servers_file(
        &environment,
        vec![("workspaceFolder", "/w".to_owned())],
    );
    assert_eq!(variables.expand_text("${workspaceFolder}${env:HOME}${HOME}").unwrap(), "/w/h/h");
    assert!(variables.expand_text("${input:key}").is_err());
}
