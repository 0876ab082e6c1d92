use std::time::Duration;

use crate::tests::{faults, reading};
use crate::{Config, Faults, Reading, SourceKind};

fn with(text: &str, variables: &[(&str, &str)]) -> (Config, Vec<String>) {
    let reading: Reading = reading(text, variables);
    let told = faults(&reading);
    (reading.config.expect("a configuration"), told)
}

fn services(variables: &[(&str, &str)]) -> Vec<(String, String, u64)> {
    let (config, told) = with("version: 1\n", variables);
    assert_eq!(told, [""; 0]);
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
fn the_four_slow_modules_of_spec_0_are_slow() {
    let names = "garmin,renpho_biometrics,claude_code,deployer,research";
    let times: Vec<_> =
        services(&[("MODULE_SERVICES", names)]).into_iter().map(|row| row.2).collect();
    assert_eq!(times, [120, 120, 120, 120, 30]);
}

#[test]
fn the_service_token_goes_to_modules_of_the_environment_alone() {
    let text = "version: 1\nsources:\n  - { name: own, module: 'http://own:1' }\n";
    let variables = [("MODULE_SERVICES", "research,own"), ("SERVICE_AUTH_TOKEN", "t0ken")];
    let (config, told) = with(text, &variables);
    assert_eq!(told, [""; 0]);
    let rows: Vec<_> = config
        .sources
        .iter()
        .map(|s| (s.name.as_str(), s.credential.as_ref().map(tool::Secret::open)))
        .collect();
    // The file comes first: its own module stays as it is.
    assert_eq!(rows, [("own", None), ("research", Some("t0ken"))]);
}

#[test]
fn one_bad_service_leaves_the_others() {
    let json = r#"{"a": "ftp://a", "b": "http://u:hunter2@b", "c": 5, "d e": "http://d", "good": "http://good:1"}"#;
    let (config, told) = with("version: 1\n", &[("MODULE_SERVICES", json)]);
    let names: Vec<_> = config.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told.iter().any(|told| told.contains("the URL of `c` is no text")), "{told:?}");
    assert!(!told.concat().contains("hunter2"), "{told:?}");
    for broken in ["{", r#"{"a""#] {
        let (config, told) = with("version: 1\n", &[("MODULE_SERVICES", broken)]);
        assert!(config.sources.is_empty() && told[0].contains("this is no JSON"), "{told:?}");
    }
}

#[test]
fn guests_are_a_list_or_a_text_and_the_file_comes_first() {
    let guests = |text: &str, variable: &str| {
        let (config, told) =
            with(&format!("version: 1\n{text}\n"), &[("DEFAULT_GUEST_MODULES", variable)]);
        assert_eq!(told, [""; 0]);
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
    let reading = reading("version: 1\n", &[("DEFAULT_GUEST_MODULES", r#"["a""#)]);
    assert!(reading.config.is_none());
    let told = faults(&reading);
    assert!(told[0].contains("this is no list"), "{told:?}");
}

#[test]
fn the_redis_of_the_environment_is_for_its_modules() {
    let redis = |variables: &[(&str, &str)]| with("version: 1\n", variables).0.redis.is_some();
    assert!(!redis(&[("REDIS_URL", "redis://h:1")]));
    assert!(redis(&[("REDIS_URL", "redis://h:1"), ("MODULE_SERVICES", "a")]));
}

#[test]
fn without_a_file_the_environment_is_read_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let mut setting = crate::tests::setting(
        folder.path(),
        &[("MODULE_SERVICES", "research"), ("TOOL_EXECUTION_TIMEOUT", "0")],
    );
    setting.file = None;
    let reading = crate::read(&setting);
    let Faults(told) = &reading.faults;
    assert!(told[0].to_string().contains("`0` is no time for a call"), "{told:?}");
    let config = reading.config.expect("the module stays");
    assert_eq!(config.sources.len(), 1);
}

#[test]
fn retry_once_is_a_word_of_a_source() {
    let text = |retry: &str| {
        format!("version: 1\nsources:\n  - {{ name: a, module: 'http://a', retry: {retry} }}\n")
    };
    assert!(with(&text("once"), &[]).0.sources[0].retry);
    let (config, _) = with(&text("never"), &[]);
    assert!(!config.sources[0].retry);
    assert_eq!(config.sources[0].timeout, Duration::from_secs(30));
    assert!(with(&text("twice"), &[]).0.sources.is_empty());
}
