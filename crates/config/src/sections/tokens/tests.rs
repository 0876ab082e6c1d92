use identity::Algorithm;
use tool::Level;

use crate::tests::{faults, good, reading};

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
      grants: [{ claim: sub, value: bot, level: guest }]
";

#[test]
fn what_is_said_of_issuers_is_kept() {
    let tokens = good(GOOD).tokens.unwrap();
    assert_eq!(tokens.resource, "https://tools.example/mcp");
    let [corp, ci] = tokens.issuers.as_slice() else { panic!() };
    assert_eq!((corp.issuer.issuer.as_str(), &corp.jwks), ("https://login.example/", &None));
    assert_eq!(corp.issuer.algorithms, [Algorithm::Es256].into());
    assert_eq!((corp.issuer.longest, corp.issuer.person), (7_200_000, false));
    assert_eq!(corp.issuer.orgs.as_ref().unwrap().1["t1"].as_str(), "acme");
    assert_eq!(corp.issuer.grants[1].level, Level::Admin);
    assert_eq!(corp.issuer.grants[1].roles, ["ops"]);
    assert_eq!(ci.jwks.as_deref(), Some("http://127.0.0.1:9/keys"));
    assert_eq!((ci.issuer.longest, ci.issuer.person), (3_600_000, true));
    let usual = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
    assert_eq!(ci.issuer.algorithms, usual.into());
    assert_eq!(good("version: 1\n").tokens, None);
}

#[test]
fn what_would_let_in_too_much_or_nobody_is_told() {
    for (from, to, told) in [
        (
            "https://tools.example/mcp",
            "https://tools.example",
            "`https://tools.example` is no address of `/mcp`",
        ),
        (
            "https://tools.example/mcp",
            "http://tools.example/mcp",
            "is no address of `/mcp` that tokens can be for",
        ),
        ("https://login.example/", "http://login.example/", "is no address for secrets and tokens"),
        ("name: ci", "name: corp", "there is an issuer of this name or this address already"),
        ("name: ci", "name: Ci", "`Ci` is no name of an issuer"),
        ("[ES256]", "[HS256]", "`HS256` is no algorithm that tokens may be signed with"),
        ("[ES256]", "[none]", "`none` is no algorithm"),
        ("[ES256]", "[]", "with no algorithm no token can hold"),
        ("max_lifetime: 2h", "max_lifetime: 8000h", "`8000h` is no life of a token"),
        ("level: admin", "level: owner", "no token makes an owner"),
        ("level: admin", "level: root", "`root` is no level"),
        ("value: tools", "value: 'a b'", "`a b` is no scope"),
        ("roles: [ops]", "roles: ['a/b']", "`a/b` is no name of a role"),
        ("org_claim: tenant", "org: acme", "`org_claim` and `orgs` belong together"),
        ("grants: [{ claim: sub, value: bot, level: guest }]", "grants: []", "there are 0 grants"),
        ("claim: sub, ", "", "the key `claim` is missing or empty"),
        ("name: ci", "nam: ci", "unknown key `nam`"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let found = faults(&reading(&GOOD.replacen(from, to, 1), &[]));
        assert!(found.iter().any(|fault| fault.contains(told)), "{to}: {found:?}");
    }
}
