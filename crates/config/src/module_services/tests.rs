use std::time::Duration;

use crate::tests::{error_lines, load_yaml};
use crate::{Config, ConfigErrors, LoadReport, SourceKind};

fn with(text: &str, variables: &[(&str, &str)]) -> (Config, Vec<String>) {
    let report: LoadReport = load_yaml(text, variables);
    let messages = error_lines(&report);
    (report.config.expect("a configuration"), messages)
}

fn services(variables: &[(&str, &str)]) -> Vec<(String, String, u64)> {
    let (config, messages) = with("version: 1\n", variables);
    assert_eq!(messages, [""; 0]);
    let row = |source: &crate::SourceConfig| {
        let SourceKind::Module(url) = &source.kind else { panic!("no module") };
        (source.name.to_string(), url.to_string(), source.timeout.as_secs())
    };
    config.sources.iter().map(row).collect()
}

fn row(name: &str, url: &str, seconds: u64) -> (String, String, u64) {
    (name.to_owned(), url.to_owned(), seconds)
}

#[test]
fn module_services_of_the_environment_are_modules() {
    let json = r#"{"research": "http://research:8000", "garmin": "http://garmin:8000"}"#;
    let expected =
        [row("research", "http://research:8000/", 30), row("garmin", "http://garmin:8000/", 120)];
    assert_eq!(services(&[("MODULE_SERVICES", json)]), expected);
    assert_eq!(services(&[("MODULE_SERVICES", " ")]), []);
}

/// The rule of spec 0's own list: `_` becomes `-`, port 8000.
#[test]
fn names_alone_are_the_names_of_hosts() {
    let expected = [
        row("file_manager", "http://file-manager:8000/", 30),
        row("research", "http://research:8000/", 30),
    ];
    for text in ["file_manager, research", r#"["file_manager","research"]"#] {
        assert_eq!(services(&[("MODULE_SERVICES", text)]), expected, "{text}");
    }
}

#[test]
fn slow_modules_are_a_json_list_or_text_with_commas_and_have_their_own_time() {
    let slow = |slow: &str, seconds: &str| {
        services(&[
            ("MODULE_SERVICES", "a,b,garmin"),
            ("SLOW_MODULES", slow),
            ("TOOL_EXECUTION_TIMEOUT", seconds),
        ])
        .into_iter()
        .map(|(_, _, seconds)| seconds)
        .collect::<Vec<_>>()
    };
    assert_eq!(slow("a, b", ""), [120, 120, 30]);
    assert_eq!(slow(r#"["b"]"#, "300"), [30, 300, 30]);
    assert_eq!(slow("", "45"), [30, 30, 45], "spec 0's own list where nothing is said");
}

#[test]
fn the_four_slow_modules_of_the_module_api_are_slow() {
    let names = "garmin,renpho_biometrics,claude_code,deployer,research";
    let times: Vec<_> =
        services(&[("MODULE_SERVICES", names)]).into_iter().map(|row| row.2).collect();
    assert_eq!(times, [120, 120, 120, 120, 30]);
}

#[test]
fn the_service_token_goes_to_modules_of_the_environment_alone() {
    let text = "version: 1\nsources:\n  - { name: own, module: 'http://own:1' }\n";
    let variables = [("MODULE_SERVICES", "research,own"), ("SERVICE_AUTH_TOKEN", "t0ken")];
    let (config, messages) = with(text, &variables);
    assert_eq!(messages, [""; 0]);
    let rows: Vec<_> = config
        .sources
        .iter()
        .map(|s| (s.name.as_str(), s.credential.as_ref().map(tool::Secret::expose)))
        .collect();
    // The file comes first: its own module stays as it is.
    assert_eq!(rows, [("own", None), ("research", Some("t0ken"))]);
}

#[test]
fn one_bad_service_leaves_the_others() {
    let json = r#"{"a": "ftp://a", "b": "http://u:hunter2@b", "c": 5, "d e": "http://d", "good": "http://good:1"}"#;
    let (config, messages) = with("version: 1\n", &[("MODULE_SERVICES", json)]);
    let names: Vec<_> = config.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(
        messages.iter().any(|message| message.contains("the URL of `c` is not a string")),
        "{messages:?}"
    );
    assert!(!messages.concat().contains("hunter2"), "{messages:?}");
    for broken in ["{", r#"{"a""#] {
        let (config, messages) = with("version: 1\n", &[("MODULE_SERVICES", broken)]);
        assert!(config.sources.is_empty() && messages[0].contains("invalid JSON"), "{messages:?}");
    }
}

#[test]
fn guests_are_a_list_or_a_text_and_the_file_comes_first() {
    let guests = |text: &str, variable: &str| {
        let (config, messages) =
            with(&format!("version: 1\n{text}\n"), &[("DEFAULT_GUEST_MODULES", variable)]);
        assert_eq!(messages, [""; 0]);
        config.default_guest_modules.map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(guests("", ""), None);
    assert_eq!(guests("", "research, knowledge").unwrap(), "knowledge research");
    assert_eq!(guests("", r#"["research"]"#).unwrap(), "research");
    assert_eq!(guests("default_guest_modules: a,b", "research").unwrap(), "a b");
    assert_eq!(guests("default_guest_modules: [a]", "research").unwrap(), "a");
    assert_eq!(guests("default_guest_modules: []", "research").unwrap(), "");
}

#[test]
fn a_list_that_cannot_be_read_opens_nothing() {
    let report = load_yaml("version: 1\n", &[("DEFAULT_GUEST_MODULES", r#"["a""#)]);
    assert!(report.config.is_none());
    let messages = error_lines(&report);
    assert!(messages[0].contains("invalid list"), "{messages:?}");
}

#[test]
fn the_redis_of_the_environment_is_for_its_modules() {
    let redis = |variables: &[(&str, &str)]| with("version: 1\n", variables).0.redis_url.is_some();
    assert!(!redis(&[("REDIS_URL", "redis://h:1")]));
    assert!(redis(&[("REDIS_URL", "redis://h:1"), ("MODULE_SERVICES", "a")]));
}

#[test]
fn without_a_file_the_environment_is_read_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = crate::tests::load_options(
        folder.path(),
        &[("MODULE_SERVICES", "research"), ("TOOL_EXECUTION_TIMEOUT", "0")],
    );
    options.file = None;
    let report = crate::load_config(&options);
    let ConfigErrors(messages) = &report.errors;
    assert!(messages[0].to_string().contains("invalid call timeout `0`"), "{messages:?}");
    let config = report.config.expect("the module stays");
    assert_eq!(config.sources.len(), 1);
}

#[test]
fn retry_once_is_a_word_of_a_source() {
    let text = |retry: &str| {
        format!("version: 1\nsources:\n  - {{ name: a, module: 'http://a', retry: {retry} }}\n")
    };
    assert!(with(&text("once"), &[]).0.sources[0].retries_once);
    let (config, _) = with(&text("never"), &[]);
    assert!(!config.sources[0].retries_once);
    assert_eq!(config.sources[0].timeout, Duration::from_secs(30));
    assert!(with(&text("twice"), &[]).0.sources.is_empty());
}
