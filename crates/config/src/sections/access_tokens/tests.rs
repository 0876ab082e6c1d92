use identity::SignatureAlgorithm;
use tool::PermissionLevel;

use crate::tests::{error_lines, load_yaml, valid_config};

const GOOD: &str = "
version: 1
tokens:
  resource: https://tools.example/mcp
  issuers:
    - name: corp
      issuer: https://login.example/
      algorithms: [ES256]
      max_lifetime: 2h
      org_claim: tenant
      orgs: { t1: acme }
      grants:
        - { claim: scope, value: tools, level: user }
        - { claim: realm.groups, value: ops, level: admin, roles: [ops] }
    - name: ci
      issuer: http://127.0.0.1:9/
      jwks: http://127.0.0.1:9/keys
      person: true
      sign_in: { client_id: console, client_secret: s3cret, scopes: [groups], user_info: true }
      grants: [{ claim: sub, value: bot, level: guest }]
";

#[test]
fn what_is_said_of_issuers_is_kept() {
    let tokens = valid_config(GOOD).access_tokens.unwrap();
    assert_eq!(tokens.resource, "https://tools.example/mcp");
    let [corp, ci] = tokens.issuers.as_slice() else { panic!() };
    assert_eq!((corp.issuer.iss.as_str(), &corp.jwks_url), ("https://login.example/", &None));
    assert_eq!(corp.issuer.algorithms, [SignatureAlgorithm::Es256].into());
    assert_eq!((corp.issuer.max_lifetime_ms, corp.issuer.is_person), (7_200_000, false));
    assert_eq!(corp.issuer.org_claim.as_ref().unwrap().orgs["t1"].as_str(), "acme");
    assert_eq!(corp.issuer.grants[1].level, PermissionLevel::Admin);
    assert_eq!(corp.issuer.grants[1].roles, ["ops"]);
    assert_eq!(ci.jwks_url.as_deref(), Some("http://127.0.0.1:9/keys"));
    assert_eq!((ci.issuer.max_lifetime_ms, ci.issuer.is_person), (3_600_000, true));
    let usual = [SignatureAlgorithm::Rs256, SignatureAlgorithm::Es256, SignatureAlgorithm::EdDsa];
    assert_eq!(ci.issuer.algorithms, usual.into());
    assert!(valid_config("version: 1\n").access_tokens.is_none());
}

#[test]
fn people_sign_in_with_an_issuer_that_says_so() {
    let tokens = valid_config(GOOD).access_tokens.unwrap();
    let [corp, ci] = tokens.issuers.as_slice() else { panic!() };
    assert!(corp.sign_in.is_none() && corp.issuer.client_id.is_none());
    let sign_in = ci.sign_in.as_ref().unwrap();
    assert_eq!((sign_in.client_id.as_str(), sign_in.fetches_user_info), ("console", true));
    assert_eq!(sign_in.client_auth.secret().unwrap().expose(), "s3cret");
    assert_eq!(
        (sign_in.scopes.as_slice(), ci.issuer.client_id.as_deref()),
        (&["groups".to_owned()][..], Some("console"))
    );
}

#[test]
fn what_would_let_in_too_much_or_nobody_is_told() {
    for (from, to, messages) in [
        (
            "https://tools.example/mcp",
            "https://tools.example",
            "invalid resource URL `https://tools.example`",
        ),
        (
            "https://tools.example/mcp",
            "http://tools.example/mcp",
            "invalid resource URL `http://tools.example/mcp`",
        ),
        ("https://login.example/", "http://login.example/", "secrets and tokens cannot be sent to"),
        ("name: ci", "name: corp", "an issuer with this name or this URL is already listed"),
        ("client_id: console, ", "", "the key `client_id` is missing"),
        ("client_id: console", "client_id: ''", "the `client_id` is empty"),
        ("client_secret: s3cret", "client_secret: ''", "invalid client secret"),
        ("[groups]", "['a b']", "invalid scope `a b`"),
        ("name: ci", "name: Ci", "invalid issuer name `Ci`"),
        ("[ES256]", "[HS256]", "unsupported signature algorithm `HS256`"),
        ("[ES256]", "[none]", "unsupported signature algorithm `none`"),
        ("[ES256]", "[]", "`algorithms` is empty, so every token would be rejected"),
        ("max_lifetime: 2h", "max_lifetime: 8000h", "invalid token lifetime `8000h`"),
        ("level: admin", "level: owner", "a token cannot have the level `owner`"),
        ("level: admin", "level: root", "unknown level `root`"),
        ("value: tools", "value: 'a b'", "invalid scope `a b`"),
        ("roles: [ops]", "roles: ['a/b']", "invalid role name `a/b`"),
        ("org_claim: tenant", "org: acme", "`org_claim` and `orgs` need each other"),
        ("grants: [{ claim: sub, value: bot, level: guest }]", "grants: []", "0 grants are listed"),
        ("claim: sub, ", "", "the key `claim` is missing or empty"),
        ("name: ci", "nam: ci", "unknown key `nam`"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let found = error_lines(&load_yaml(&GOOD.replacen(from, to, 1), &[]));
        assert!(found.iter().any(|error| error.contains(messages)), "{to}: {found:?}");
    }
}
