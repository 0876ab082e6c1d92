use std::path::{Path, PathBuf};

use super::{Config, Environment, LoadOptions, LoadReport, load_config};

/// Reads `text` as a file of its own folder, with these variables.
pub(crate) fn load_yaml(text: &str, variables: &[(&str, &str)]) -> LoadReport {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.yaml"), text).unwrap();
    let mut report = load_config(&load_options(folder.path(), variables));
    for error in &mut report.errors.0 {
        error.file = error.file.strip_prefix(folder.path()).unwrap_or(&error.file).to_owned();
    }
    report
}

pub(crate) fn load_options(folder: &Path, variables: &[(&str, &str)]) -> LoadOptions {
    let environment: Environment =
        variables.iter().copied().chain([("HOME", "/home/me")]).collect();
    let file = Some(PathBuf::from("t.yaml"));
    LoadOptions {
        file,
        listen: None,
        allowed_hosts: Vec::new(),
        behind_tls: false,
        data_dir: None,
        current_dir: folder.to_owned(),
        environment: environment.into(),
    }
}

/// The faults, each on one line: place, message, fix.
pub(crate) fn error_lines(report: &LoadReport) -> Vec<String> {
    let line = |error: &super::ConfigError| {
        let fix = error.help.as_ref().map(|fix| format!(" = {fix}")).unwrap_or_default();
        format!("{}:{} {}{fix}", error.position.line, error.position.column, error.message)
    };
    report.errors.0.iter().map(line).collect()
}

pub(crate) fn valid_config(text: &str) -> Config {
    let report = load_yaml(text, &[("TOKEN", "s3cret"), ("EMPTY", "")]);
    assert_eq!(error_lines(&report), [""; 0]);
    report.into_valid_config().unwrap()
}

fn load_errors(text: &str) -> Vec<String> {
    error_lines(&load_yaml(text, &[]))
}

#[test]
fn all_faults_are_told_at_once_with_their_places() {
    let text = "\
version: 1
lissten: 127.0.0.1:1
sources:
  - name: a
    tools: ./a.yaml
    slow: maybe
    trsut: review
  - name: b b
    module: ftp://x
  - mcp: { command: npx, args: no }
  - just text
limits: { calls: none, calls_per_key: 0 }
";
    assert_eq!(
        load_errors(text),
        [
            "2:1 unknown key `lissten` = did you mean `listen`?",
            "6:11 expected `true` or `false`, found `maybe`",
            "7:5 unknown key `trsut` = did you mean `trust`?",
            "8:11 the name `b b` contains ' '; allowed are letters, digits, `_`, `.` and `-`",
            "9:13 invalid HTTP URL `ftp://x` = write it as `http://HOST:PORT` or `https://HOST`",
            "10:5 the source has no name = add `name: …`",
            "10:32 expected a list, found a string = write a list: `[one, two]`, or each item on its own line after `- `",
            "11:5 expected a mapping of keys to values, found `just text`",
            "12:18 expected a whole number, found `none`",
            "12:39 `0` is out of range = use a number from 1 to 100000",
        ]
    );
}

#[test]
fn what_is_typed_otherwise_than_it_is_meant_is_told_with_the_fix() {
    for (text, messages) in [
        (
            "version: \"1\"\n",
            "1:10 expected a whole number, found the string `\"1\"` = write it without quotes: `1`",
        ),
        (
            "version: 1\nsources:\n  - { name: x, mcp: { command: npx, args: \"-y foo\" } }\n",
            "3:43 expected a list, found a string = write a list: `[one, two]`, or each item on its own line after `- `",
        ),
        (
            "version: 1\npolicy:\n  rules: [{ name: a, effect: hold, time: { days: [sat], zone: Europe/Berlim } }]\n",
            "3:63 unknown time zone `Europe/Berlim` = use an IANA name such as `Europe/Berlin`",
        ),
    ] {
        assert_eq!(load_errors(text), [messages], "{text}");
    }
    let tab = load_errors("version: 1\nsources:\n\t- name: x\n");
    assert!(tab[0].ends_with(" = indent with spaces: YAML allows no tabs there"), "{tab:?}");
    let cel = load_errors(
        "version: 1\npolicy: { rules: [{ name: a, effect: deny, when: \"a &&& 'b'\" }] }\n",
    );
    assert!(
        cel[0].contains(
            "cannot parse the condition: \
        column "
        ) && !cel[0].contains('\\'),
        "{cel:?}"
    );
}

#[test]
fn a_fault_in_a_source_leaves_only_that_source_out() {
    let text =
        "version: 1\nsources:\n  - { name: a, tools: a.yaml }\n  - { name: b, tols: b.yaml }\n";
    let report = load_yaml(text, &[]);
    let names: Vec<_> =
        report.config.clone().unwrap().sources.iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names, ["a"]);
    assert!(report.into_valid_config().is_err(), "a reload takes it whole or not at all");
}

#[test]
fn a_fault_elsewhere_leaves_nothing() {
    for text in [
        "version: 2\n",
        "listen: 127.0.0.1:80\n",
        "version: 1\nlisten: nowhere\n",
        "version: 1\npolicy: { deny: ['a b'] }\n",
        "version: 1\nserver: { max_body: 1TiB }\n",
        "version: 1\nsources: 5\n",
        "version: 1\nunknown: 5\n",
        "version: 1\nredis: ${NONE}\n",
        "- a list\n",
        "text",
    ] {
        let report = load_yaml(text, &[]);
        assert!(report.config.is_none() && !report.errors.0.is_empty(), "{text}");
    }
}

#[test]
fn a_file_of_another_kind_is_told_where_it_belongs() {
    let messages = |text: &str| load_errors(&format!("version: 1\n{text}")).remove(0);
    let tools = "it belongs to a source: `sources: [{ name: NAME, tools: … }]`";
    assert_eq!(messages("tools: []\n"), format!("2:1 unknown key `tools` = {tools}"));
    let servers = "it belongs to a source: `sources: [{ mcp_servers: FILE }]`";
    assert_eq!(messages("mcpServers: {}\n"), format!("2:1 unknown key `mcpServers` = {servers}"));
    // The tools themselves, in the place of their file.
    let list = messages("sources:\n  - { name: a, tools: [{ name: t }] }\n");
    let path = "expected the path of a tool file, found a list = save the tools in a separate file and \
                name it here, such as `tools: ./tools.yaml`";
    assert_eq!(list, format!("3:23 {path}"));
    let mapping = messages("sources:\n  - { name: a, tools: { registry: [] } }\n");
    assert_eq!(mapping, format!("3:23 {}", path.replace("a list", "a mapping")));
    // Within a source the nearest key is meant, as everywhere.
    let within = messages("sources:\n  - { name: a, tools: t, mcpServers: m }\n");
    assert_eq!(within, "3:26 unknown key `mcpServers` = did you mean `mcp_servers`?");
}

#[test]
fn an_empty_file_lacks_its_version() {
    assert_eq!(
        load_errors(""),
        ["1:1 the key `version` is missing = write `version: 1` as the first line"]
    );
}

#[test]
fn faults_are_drawn_but_secrets_are_not() {
    let text = "version: 1\nsources:\n  - { name: a, module: 'http://h', credential: { bearer: [hunter2] } }\n";
    let shown = load_yaml(text, &[]).errors.to_string();
    assert_eq!(shown, "t.yaml:3:58: expected a string, found a list");
    let text = "version: 1\nsources:\n  - { name: a, toools: 'x' }\n";
    let shown = load_yaml(text, &[]).errors.to_string();
    let expected = "t.yaml:3:16: unknown key `toools`\n  |\n3 |   - { name: a, toools: 'x' }\n  |                ^\n  help: did you mean `tools`?";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn variables_fill_in_values_of_every_kind() {
    let text = "\
version: ${VERSION:-1}
limits: { calls: '${CALLS:-7}' }
redis: ${EMPTY:-}
sources:
  - name: a
    module: http://${HOST:-127.0.0.1}:${PORT:-9}
    slow: ${SLOW:-true}
    credential: { bearer: '${TOKEN}' }
";
    let config = valid_config(text);
    assert_eq!(config.limits.concurrency.total, 7);
    assert!(config.redis_url.is_none(), "an empty variable is as no key at all");
    let source = &config.sources[0];
    assert!(source.is_slow);
    assert_eq!(source.credential.as_ref().unwrap().expose(), "s3cret");
}

#[test]
fn a_missing_variable_takes_its_source_out_and_never_becomes_text() {
    let text = "version: 1\nsources:\n  - name: a\n    module: http://h\n    credential: { bearer: \"${NOPE}\" }\n  - { name: b, tools: b }\n";
    let report = load_yaml(text, &[]);
    let expected =
        "5:27 the environment variable `NOPE` is not set = set it, or give a default: `${NOPE:-…}`";
    assert_eq!(error_lines(&report), [expected]);
    assert_eq!(report.config.unwrap().sources.len(), 1);
}

#[test]
fn what_a_variable_holds_is_never_structure() {
    let sly = "x\nsources:\n  - name: sly";
    let text = "version: 1\nsources:\n  - name: ${SLY}\n    tools: a\n";
    let report = load_yaml(text, &[("SLY", sly)]);
    assert!(report.config.unwrap().sources.is_empty());
    assert!(report.errors.0[0].message.starts_with("the name `x\\nsources"), "{:?}", report.errors);
}

#[test]
fn files_that_cannot_be_read_are_faults() {
    let folder = tempfile::tempdir().unwrap();
    let message = |options: &LoadOptions| load_config(options).errors.0.remove(0).message;
    assert!(message(&load_options(folder.path(), &[])).contains("No such file"));
    std::fs::create_dir(folder.path().join("t.yaml")).unwrap();
    assert!(message(&load_options(folder.path(), &[])).ends_with("is a folder"));
    std::fs::remove_dir(folder.path().join("t.yaml")).unwrap();
    std::fs::write(folder.path().join("t.yaml"), b"version: 1\n\xff").unwrap();
    let error = load_config(&load_options(folder.path(), &[])).errors.0.remove(0);
    assert_eq!((error.message.as_str(), error.position.line), ("the file is not UTF-8", 2));
    std::fs::write(folder.path().join("t.yaml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(message(&load_options(folder.path(), &[])), "the file has more than 1048576 bytes");
}

/// Everything that the format knows, to be spoiled.
const WHOLE: &str = r#"version: 1
listen: 127.0.0.1:8080
sources:
  - name: local
    tools: ./tools.yaml
    read_only: [a, b]
    timeout: 30s
  - name: research
    module: http://127.0.0.1:8000
    credential: { bearer: "${TOKEN:-none}" }
  - name: files
    mcp: { command: npx, args: ["-y", 'x'], env: { PORT: 8080, K: "${HOME}" } }
    idempotent: true
server: { allowed_hosts: [a.b], behind_tls: false }
limits: { calls: 5, result_bytes: 1MiB }
policy: { safety_limit: cautious, categories: [math], allow: ['*'], deny: ["source:x", a.b] }
redis: ${REDIS:-}
"#;

proptest::proptest! {
    #[test]
    fn no_spoiled_file_breaks_the_reader_or_loses_its_place(
        spoils in proptest::collection::vec((0_usize..WHOLE.len(), "[ -~\n\té]{0,3}", 0_usize..4), 1..4),
    ) {
        let mut text = WHOLE.to_owned();
        for (at, put, cut) in spoils {
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let end = (at..=text.len()).filter(|end| text.is_char_boundary(*end)).nth(cut);
            text.replace_range(at..end.unwrap_or(text.len()), &put);
        }
        let report = load_yaml(&text, &[]);
        let lines = text.lines().count().max(1) + 1;
        for error in &report.errors.0 {
            proptest::prop_assert!(error.position.line >= 1 && error.position.line <= lines, "{error}\n{text}");
            proptest::prop_assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error:?}");
        }
        proptest::prop_assert_eq!(report.clone().into_valid_config().is_ok(), report.errors.0.is_empty());
    }

    #[test]
    fn no_text_breaks_the_reader(text in "[ -~\n\t{}:\\[\\]&*!|>%@$']{0,120}") {
        drop(load_yaml(&text, &[]));
    }
}
