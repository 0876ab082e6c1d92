use crate::tests::{error_lines, load_yaml, valid_config};
use crate::{OAuthClientAuth, SourceKind};

fn load_errors(mcp: &str) -> Vec<String> {
    let text = format!("version: 1\nsources:\n  - name: a\n    mcp: {mcp}\n");
    error_lines(&load_yaml(&text, &[("TOKEN", "s3cret")]))
}

#[test]
fn what_is_said_of_tokens_is_kept() {
    let config = valid_config(
        "version: 1\nsources:\n  - name: a\n    mcp:\n      url: https://h/mcp\n      oauth:\n        grant: client_credentials\n        client_id: us\n        client_secret_env: TOKEN\n        scopes: [read, 'a:b']\n        issuer: https://as.example\n        token_endpoint: https://as.example/token\n",
    );
    assert!(!format!("{config:?}").contains("s3cret"));
    let SourceKind::McpUrl { oauth: Some(oauth), .. } = &config.sources[0].kind else { panic!() };
    assert!(oauth.is_client_credentials);
    assert_eq!(oauth.client_id.as_deref(), Some("us"));
    assert!(
        matches!(&oauth.client_auth, OAuthClientAuth::ClientSecret(secret) if secret.expose() == "s3cret")
    );
    assert_eq!(oauth.scopes, ["read", "a:b"]);
    assert_eq!(oauth.issuer.as_deref(), Some("https://as.example"), "as it is written");
    let person = valid_config(
        "version: 1\nsources:\n  - name: a\n    mcp: { url: 'http://127.0.0.1:1/', oauth: {} }\n",
    );
    let SourceKind::McpUrl { oauth: Some(oauth), .. } = &person.sources[0].kind else { panic!() };
    assert!(!oauth.is_client_credentials && oauth.client_id.is_none());
}

#[test]
fn secrets_of_callers_are_kept_by_subject() {
    let config = valid_config(
        "version: 1\nsources:\n  - name: a\n    mcp:\n      url: https://h/mcp\n      per_caller: { secrets: { ann: '${TOKEN}', bob: b }, list_as: bob }\n  - name: b\n    mcp: { url: 'https://h/mcp', per_caller: { header: X-Key, secrets: { ann: k } } }\n",
    );
    assert!(!format!("{config:?}").contains("s3cret"));
    let each = |index: usize| match &config.sources[index].kind {
        SourceKind::McpUrl { per_caller: Some(each), .. } => each.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(each(0).header_values["ann"].expose(), "Bearer s3cret");
    assert_eq!(
        (each(0).header.as_str(), each(0).listing_subject.as_deref()),
        ("authorization", Some("bob"))
    );
    assert_eq!((each(1).header.as_str(), each(1).header_values["ann"].expose()), ("x-key", "k"));
}

#[test]
fn what_cannot_be_meant_is_told_with_its_place_and_fix() {
    for (mcp, words) in [
        (
            "{ url: 'http://h/', oauth: {} }",
            "4:37 tokens are only sent over https, or to this machine = write the `url` with `https://`",
        ),
        (
            "{ url: 'https://h/', oauth: { grant: client_credentials } }",
            "needs a `client_id` and a credential",
        ),
        (
            "{ url: 'https://h/', oauth: { grant: client_credentials, client_id: a } }",
            "needs a `client_id` and a credential",
        ),
        (
            "{ url: 'https://h/', oauth: { client_secret: a } }",
            "a client credential needs a `client_id` = write the id",
        ),
        (
            "{ url: 'https://h/', oauth: { client_id: a, client_secret: b, client_secret_env: TOKEN } }",
            "found client_secret and client_secret_env = remove all but one",
        ),
        (
            "{ url: 'https://h/', oauth: { client_id: a, client_secret_env: NONE } }",
            "the environment variable `NONE` is not set",
        ),
        (
            "{ url: 'https://h/', oauth: { client_id: a, client_secret_file: ./none } }",
            "`./none` cannot be read",
        ),
        (
            "{ url: 'https://h/', oauth: { client_id: a, private_key_env: TOKEN } }",
            "the private key cannot be used: it has no `-----BEGIN PRIVATE KEY-----`",
        ),
        ("{ url: 'https://h/', oauth: { scopes: ['a b'] } }", "invalid scope `a b`"),
        (
            "{ url: 'https://h/', oauth: { issuer: 'http://as.example' } }",
            "secrets and tokens cannot be sent to `http://as.example`",
        ),
        (
            "{ url: 'https://h/', oauth: { client_metadata: 'https://as.example/' } }",
            "secrets and tokens cannot be sent to",
        ),
    ] {
        messages(mcp, words);
    }
    let two = "version: 1\nsources:\n  - { name: a, mcp: { url: 'https://h/', oauth: {} }, credential: { bearer: x } }\n";
    assert!(
        error_lines(&load_yaml(two, &[]))[0]
            .contains("`credential` excludes `oauth` and `per_caller`")
    );
}

#[test]
fn secrets_of_callers_are_held_to_their_rules() {
    for (mcp, words) in [
        (
            "{ url: 'https://h/', headers: { Authorization: x }, oauth: {} }",
            "`oauth` and the header `authorization` exclude each other",
        ),
        (
            "{ url: 'https://h/', oauth: {}, per_caller: { secrets: { a: b } } }",
            "`oauth` and `per_caller` exclude each other",
        ),
        ("{ url: 'https://h/', per_caller: {} }", "`secrets` is missing or empty"),
        (
            "{ url: 'https://h/', per_caller: { secrets: { a: '' } } }",
            "the secret of `a` cannot be sent",
        ),
        (
            "{ url: 'https://h/', per_caller: { header: Host, secrets: { a: b } } }",
            "the header `Host` cannot be set",
        ),
        (
            "{ url: 'https://h/', headers: { X: y }, per_caller: { header: X, secrets: { a: b } } }",
            "the header `x` is set in `headers` and in `per_caller`",
        ),
        (
            "{ url: 'https://h/', per_caller: { secrets: { a: b }, list_as: c } }",
            "`list_as` names `c`, which has no secret",
        ),
        ("{ command: x, oauth: {} }", "`oauth` is only for a `url`"),
        ("{ url: 'https://h/', oauth: { client_idd: a } }", "client_idd"),
    ] {
        messages(mcp, words);
    }
}

fn messages(mcp: &str, words: &str) {
    let errors = load_errors(mcp);
    assert!(errors.iter().any(|error| error.contains(words)), "{mcp}: {errors:#?}");
    assert!(!errors.join("").contains("s3cret"));
}

#[test]
fn a_fault_in_one_leaves_the_other_sources() {
    let text = "version: 1\nsources:\n  - { name: a, mcp: { url: 'https://h/', oauth: { client_secret_env: NONE } } }\n  - { name: b, mcp: { url: 'https://h/' } }\n";
    let report = load_yaml(text, &[]);
    assert!(!report.errors.0.is_empty());
    let names: Vec<_> =
        report.config.unwrap().sources.iter().map(|source| source.name.to_string()).collect();
    assert_eq!(names, ["b"]);
}
