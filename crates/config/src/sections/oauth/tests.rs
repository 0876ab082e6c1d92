use crate::tests::{faults, good, reading};
use crate::{OAuthProof, SourceKind};

fn bad(mcp: &str) -> Vec<String> {
    let text = format!("version: 1\nsources:\n  - name: a\n    mcp: {mcp}\n");
    faults(&reading(&text, &[("TOKEN", "s3cret")]))
}

#[test]
fn what_is_said_of_tokens_is_kept() {
    let config = good(
        "version: 1\nsources:\n  - name: a\n    mcp:\n      url: https://h/mcp\n      oauth:\n        grant: client_credentials\n        client_id: us\n        client_secret_env: TOKEN\n        scopes: [read, 'a:b']\n        issuer: https://as.example\n        token_endpoint: https://as.example/token\n",
    );
    assert!(!format!("{config:?}").contains("s3cret"));
    let SourceKind::McpUrl { oauth: Some(oauth), .. } = &config.sources[0].kind else { panic!() };
    assert!(oauth.alone);
    assert_eq!(oauth.client_id.as_deref(), Some("us"));
    assert!(matches!(&oauth.proof, OAuthProof::Secret(secret) if secret.open() == "s3cret"));
    assert_eq!(oauth.scopes, ["read", "a:b"]);
    assert_eq!(oauth.issuer.as_deref(), Some("https://as.example"), "as it is written");
    let person = good(
        "version: 1\nsources:\n  - name: a\n    mcp: { url: 'http://127.0.0.1:1/', oauth: {} }\n",
    );
    let SourceKind::McpUrl { oauth: Some(oauth), .. } = &person.sources[0].kind else { panic!() };
    assert!(!oauth.alone && oauth.client_id.is_none());
}

#[test]
fn secrets_of_callers_are_kept_by_subject() {
    let config = good(
        "version: 1\nsources:\n  - name: a\n    mcp:\n      url: https://h/mcp\n      per_caller: { secrets: { ann: '${TOKEN}', bob: b }, list_as: bob }\n  - name: b\n    mcp: { url: 'https://h/mcp', per_caller: { header: X-Key, secrets: { ann: k } } }\n",
    );
    assert!(!format!("{config:?}").contains("s3cret"));
    let each = |index: usize| match &config.sources[index].kind {
        SourceKind::McpUrl { per_caller: Some(each), .. } => each.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(each(0).values["ann"].open(), "Bearer s3cret");
    assert_eq!(
        (each(0).header.as_str(), each(0).list_as.as_deref()),
        ("authorization", Some("bob"))
    );
    assert_eq!((each(1).header.as_str(), each(1).values["ann"].open()), ("x-key", "k"));
}

#[test]
fn what_cannot_be_meant_is_told_with_its_place_and_fix() {
    for (mcp, words) in [
        (
            "{ url: 'http://h/', oauth: {} }",
            "4:37 tokens go over https only, but for this machine itself = write the `url` with `https://`",
        ),
        (
            "{ url: 'https://h/', oauth: { grant: client_credentials } }",
            "needs a client and its credential",
        ),
        (
            "{ url: 'https://h/', oauth: { grant: client_credentials, client_id: a } }",
            "needs a client and its credential",
        ),
        ("{ url: 'https://h/', oauth: { client_secret: a } }", "no `client_id` = write the id"),
        (
            "{ url: 'https://h/', oauth: { client_id: a, client_secret: b, client_secret_env: TOKEN } }",
            "here are client_secret and client_secret_env = remove all but one",
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
            "the private key cannot be used: it holds no `-----BEGIN PRIVATE KEY-----`",
        ),
        ("{ url: 'https://h/', oauth: { scopes: ['a b'] } }", "`a b` is no scope"),
        (
            "{ url: 'https://h/', oauth: { issuer: 'http://as.example' } }",
            "`http://as.example` is no address for secrets",
        ),
        (
            "{ url: 'https://h/', oauth: { client_metadata: 'https://as.example/' } }",
            "is no address for secrets and tokens",
        ),
    ] {
        told(mcp, words);
    }
    let two = "version: 1\nsources:\n  - { name: a, mcp: { url: 'https://h/', oauth: {} }, credential: { bearer: x } }\n";
    assert!(faults(&reading(two, &[]))[0].contains("a source has one credential"));
}

#[test]
fn secrets_of_callers_are_held_to_their_rules() {
    for (mcp, words) in [
        (
            "{ url: 'https://h/', headers: { Authorization: x }, oauth: {} }",
            "so no token can be sent",
        ),
        (
            "{ url: 'https://h/', oauth: {}, per_caller: { secrets: { a: b } } }",
            "here are `oauth` and `per_caller`",
        ),
        ("{ url: 'https://h/', per_caller: {} }", "no secrets by subject"),
        (
            "{ url: 'https://h/', per_caller: { secrets: { a: '' } } }",
            "the secret of `a` cannot be sent",
        ),
        (
            "{ url: 'https://h/', per_caller: { header: Host, secrets: { a: b } } }",
            "`Host` is no header that can be set",
        ),
        (
            "{ url: 'https://h/', headers: { X: y }, per_caller: { header: X, secrets: { a: b } } }",
            "the header `x` is set for all callers too",
        ),
        (
            "{ url: 'https://h/', per_caller: { secrets: { a: b }, list_as: c } }",
            "`list_as` names `c`, who has no secret",
        ),
        ("{ command: x, oauth: {} }", "`oauth` belongs to a `url`"),
        ("{ url: 'https://h/', oauth: { client_idd: a } }", "client_idd"),
    ] {
        told(mcp, words);
    }
}

fn told(mcp: &str, words: &str) {
    let faults = bad(mcp);
    assert!(faults.iter().any(|fault| fault.contains(words)), "{mcp}: {faults:#?}");
    assert!(!faults.join("").contains("s3cret"));
}

#[test]
fn a_fault_in_one_leaves_the_other_sources() {
    let text = "version: 1\nsources:\n  - { name: a, mcp: { url: 'https://h/', oauth: { client_secret_env: NONE } } }\n  - { name: b, mcp: { url: 'https://h/' } }\n";
    let reading = reading(text, &[]);
    assert!(!reading.faults.0.is_empty());
    let names: Vec<_> =
        reading.config.unwrap().sources.iter().map(|it| it.name.to_string()).collect();
    assert_eq!(names, ["b"]);
}
