use sandbox::process::{CommandSpec, EnvValue};
use tool::{Json, JsonLimits, Secret};

use super::{RedactedValue, Redaction};

fn command() -> CommandSpec {
    let args = [
        "--verbose",
        "--token=SEKRET-1",
        "SEKRET-1-2",
        "short",
        "-p x",
        "PASS=hidden",
        "/srv/data",
    ];
    CommandSpec {
        args: args.map(str::to_owned).to_vec(),
        env: vec![
            ("API_KEY".to_owned(), EnvValue::Secret(Secret::new("in-the-env"))),
            ("REGION".to_owned(), EnvValue::Secret(Secret::new("eu-west-1"))),
            ("B".to_owned(), "plainly".into()),
        ],
        ..CommandSpec::default()
    }
}

#[test]
fn values_are_replaced_and_names_of_options_are_not() {
    let text = || "--verbose SEKRET-1-2 SEKRET-1 short PASS=hidden in-the-env plainly".to_owned();
    let environment = Redaction::from_environment(&command());
    assert!(environment.redact_diagnostic(text()).contains("SEKRET-1-2 SEKRET-1"), "the control");
    assert_eq!(
        Redaction::from_command(&command()).redact_diagnostic(text()),
        "--verbose [argument 3] [argument 2] short [argument 6] [secret] plainly"
    );
}

#[test]
fn a_result_loses_credentials_and_keeps_the_rest_of_what_a_server_was_given() {
    let result = Json::encode("SEKRET-1 in-the-env eu-west-1 /srv/data");
    let redacted = Redaction::from_command(&command()).redact_json(result);
    assert_eq!(redacted.as_str(), r#""[argument 2] [secret] eu-west-1 /srv/data""#);
    let untouched = Json::encode("nothing of it");
    let before = untouched.bytes().as_ptr();
    assert_eq!(Redaction::from_command(&command()).redact_json(untouched).bytes().as_ptr(), before);
}

#[test]
fn a_credential_is_found_without_its_scheme_escaped_cut_and_beside_one_that_begins_alike() {
    let of = |values: &[&str]| {
        let given =
            values.iter().map(|it| RedactedValue::from_named("authorization", Secret::new(*it)));
        Redaction::new(&given.collect::<Vec<_>>())
    };
    let bearer = of(&["Bearer abcdefghijklmnopqrstuvwxyz"]);
    assert_eq!(
        bearer.redact_diagnostic("it is abcdefghijklmnopqrstuvwxyz!".to_owned()),
        "it is [secret]!"
    );
    assert_eq!(
        bearer.redact_diagnostic("x-auth: Bearer abcdefghijklmnopq…".to_owned()),
        "x-auth: [secret]…"
    );
    assert_eq!(
        bearer.redact_diagnostic("a text about abcdef".to_owned()),
        "a text about abcdef",
        "too short"
    );
    let alike = of(&["0123456789abcdef-one", "0123456789abcdef-another"]);
    let text = alike.redact_diagnostic("0123456789abcdef-another 0123456789abcdef-one".to_owned());
    assert_eq!(text, "[secret] [secret]");
    let quoted = of(&["of \"cheese\" é"]).redact_json(Json::encode("it is of \"cheese\" é."));
    assert_eq!(quoted.as_str(), r#""it is [secret].""#);
}

#[test]
fn a_credential_that_is_a_number_takes_the_result_with_it() {
    let redaction = Redaction::new(&[RedactedValue::from_credential(Secret::new("12345678"))]);
    let json = |text: &str| Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap();
    assert_eq!(redaction.redact_json(json(r#"{"a":"12345678"}"#)).as_str(), r#"{"a":"[secret]"}"#);
    assert_eq!(redaction.redact_json(json(r#"{"a":123456789}"#)).as_str(), r#""[secret]""#);
}

#[test]
fn values_of_a_query_are_found_as_they_are_sent_and_decoded() {
    let url = "https://h/mcp?key=a%2Fb-c-d-e&page=of-the-list#x";
    let redaction = Redaction::new(&RedactedValue::from_url_query(url));
    let text = "GET /mcp?key=a%2Fb-c-d-e&page=of-the-list a/b-c-d-e".to_owned();
    assert_eq!(redaction.redact_diagnostic(text), "GET /mcp?key=[secret]&page=[secret] [secret]");
    let result = redaction.redact_json(Json::encode("a/b-c-d-e of-the-list"));
    assert_eq!(result.as_str(), r#""[secret] of-the-list""#);
}
