//! Tests of invalid tokens and keys, and of foreign sessions.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::shared_data::read_rows;
use tool::PermissionLevel;

use crate::support::client::message;
use crate::support::token_issuer::{
    NOW, RESOURCE, Signer, base64_url, client_with_token, server_with_issuer, valid_claims,
};
use crate::support::{Client, FixtureServer};

/// The order of P-256, for the other half of a signature.
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

fn with(name: &str, value: Value) -> Value {
    let mut all = valid_claims();
    all[name] = value;
    all
}

/// `n - s`: the same signature in its other writing.
fn malleated(token: &str) -> String {
    let (said, signature) = token.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let (mut out, mut borrow) = (signature.clone(), 0_i16);
    for at in (0..32).rev() {
        let rest = i16::from(ORDER[at]) - i16::from(signature[32 + at]) - borrow;
        borrow = i16::from(rest < 0);
        out[32 + at] = u8::try_from(rest.rem_euclid(256)).unwrap();
    }
    format!("{said}.{}", base64_url(&out))
}

/// The token of a row; nothing for rows that are no token of an issuer.
fn token(name: &str, signer: &Signer) -> Option<String> {
    let other = Signer::new(&signer.kid);
    let head = |more: Value| {
        let mut head = json!({"alg": "ES256", "kid": signer.kid});
        head.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        head
    };
    let unsigned = |head: &Value| {
        format!(
            "{}.{}",
            base64_url(head.to_string().as_bytes()),
            base64_url(valid_claims().to_string().as_bytes())
        )
    };
    Some(match name {
        "alg none" => format!("{}.", unsigned(&head(json!({"alg": "none"})))),
        "alg HS256 signed with the RS256 public key" => {
            let said = unsigned(&head(json!({"alg": "HS256"})));
            let public = signer.jwk()["x"].as_str().unwrap().to_owned();
            let key = hmac::Key::new(hmac::HMAC_SHA256, public.as_bytes());
            format!("{said}.{}", base64_url(hmac::sign(&key, said.as_bytes()).as_ref()))
        }
        "jku to attacker" => {
            other.sign(&head(json!({"jku": "http://127.0.0.1:1/keys"})), &valid_claims())
        }
        "x5u to attacker" => {
            other.sign(&head(json!({"x5u": "http://127.0.0.1:1/cert"})), &valid_claims())
        }
        "jwk embedded" => other.sign(&head(json!({"jwk": other.jwk()})), &valid_claims()),
        "typ id_token used as access token" => {
            let mut id = with("at_hash", json!("x"));
            id["nonce"] = json!("n");
            signer.sign(&head(json!({"typ": "JWT"})), &id)
        }
        "aud missing" => {
            let mut none = valid_claims();
            none.as_object_mut().unwrap().remove("aud");
            signer.token(&none)
        }
        "aud prefix match" => signer.token(&with("aud", json!(format!("{RESOURCE}.evil.example")))),
        "iss other" => signer.token(&with("iss", json!("https://other.example"))),
        "exp past by 1 s beyond leeway" => signer.token(&with("exp", json!(NOW - 31))),
        "iat future" => signer.token(&with("iat", json!(NOW + 3_600))),
        "sub empty" => signer.token(&with("sub", json!(""))),
        "sub with NUL" => signer.token(&with("sub", json!("ann\0owner"))),
        "role claim from an untrusted issuer" => {
            let mut claims = with("iss", json!("https://evil.example"));
            (claims["roles"], claims["scope"]) = (json!(["owner"]), json!("admin"));
            other.token(&claims)
        }
        "ECDSA r=s=0 (psychic)" => {
            format!("{}.{}", unsigned(&head(json!({}))), base64_url(&[0; 64]))
        }
        "5 MiB token" => format!("{}{}", signer.token(&valid_claims()), "A".repeat(5 << 20)),
        _ => return None,
    })
}

async fn refused(client: &Client, name: &str) {
    let reply = client.legacy_request(&message("tools/list", json!({}))).await;
    // A header that large is not read at all.
    let expected = if name == "5 MiB token" { [400, 413, 431] } else { [401; 3] };
    assert!(expected.contains(&reply.status.as_u16()), "{name}: {}", reply.status);
    if reply.status == 401 {
        assert_eq!(client.get("/v1/tools").await.error().1, "unauthenticated", "{name}");
    }
}

/// Rows about keys, or about the location of a credential.
async fn run_other_case(name: &str, server: &FixtureServer, signer: &Signer) -> bool {
    let good = signer.token(&valid_claims());
    let owner = server.owner_client().await;
    match name {
        "ECDSA malleable s" => {
            // It proves the same claims, and signers may write either: the same user, and nothing else.
            let client = client_with_token(server, &malleated(&good));
            client.call_tool("needs.guest", json!({})).await.expect_ok();
            assert_eq!(server.recorded_intents().pop().unwrap().caller.subject, "corp:ann");
        }
        "token in query string" => {
            for word in ["access_token", "token", "key"] {
                let client = server.keyless_client().with_query(&format!("?{word}={good}"));
                assert_eq!(client.get("/v1/tools").await.status, 401, "{word}");
            }
        }
        "two Authorization headers" => {
            refused(
                &client_with_token(server, &good).with_header("authorization", &owner.bearer()),
                name,
            )
            .await;
        }
        "Basic with token" => {
            refused(
                &server.keyless_client().with_header("authorization", &format!("Basic {good}")),
                name,
            )
            .await;
        }
        "token after logout / revocation" => {
            let new = json!({"subject": "corp:ann"});
            owner.post("/v1/users", &new).await.expect_ok();
            owner.delete("/v1/users/corp:ann").await.expect_ok();
            refused(&client_with_token(server, &good), name).await;
            owner.post("/v1/users/corp:ann/enable", &json!({})).await.expect_ok();
        }
        _ => return run_key_case(name, server).await,
    }
    true
}

/// Rows that are about keys of this program.
async fn run_key_case(name: &str, server: &FixtureServer) -> bool {
    match name {
        "key revoked" => {
            let ann = server.agent_client("ann", PermissionLevel::User).await;
            server.revoke_key(&ann).await;
            refused(&ann, name).await;
        }
        "API key with trailing newline" => {
            let ann = server.agent_client("ann", PermissionLevel::User).await;
            // No header carries a newline itself; its writings are letters that no key has.
            let key = ann.bearer();
            for end in ["%0A", "\\n", "\u{85}"] {
                let client =
                    server.keyless_client().with_header("authorization", &format!("{key}{end}"));
                refused(&client, name).await;
            }
        }
        "API key of a disabled org" => {
            let owner = server.owner_client().await;
            let made = owner.post("/v1/orgs", &json!({"name": "acme"})).await.expect_ok();
            let acme = server
                .keyless_client()
                .with_key(made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
            acme.get("/v1/tools").await.expect_ok();
            owner.delete("/v1/orgs/acme").await.expect_ok();
            refused(&acme, name).await;
        }
        _ => return false,
    }
    true
}

#[tokio::test]
async fn no_wrong_credential_holds() {
    let rows = read_rows("attacks/authz_cases.jsonl");
    let signer = Signer::new("k1");
    let (server, _) = server_with_issuer(&signer).await;
    let (mut tokens, mut others) = (0, 0);
    for row in rows.iter().filter(|row| row["family"] == "token") {
        let name = row["name"].as_str().unwrap();
        if let Some(token) = token(name, &signer) {
            refused(&client_with_token(&server, &token), name).await;
            tokens += 1;
        } else {
            assert!(
                run_other_case(name, &server, &signer).await,
                "a row that this test does not know: {name}"
            );
            others += 1;
        }
    }
    println!("{tokens} tokens and {others} others, 0 accepted");
    assert_eq!((tokens, others), (16, 8));
    // Positive control: the token that all of these were made from.
    client_with_token(&server, &signer.token(&valid_claims())).get("/v1/tools").await.expect_ok();
}

/// Positive control: a server that reads claims before it verifies lets these in.
#[test]
fn a_naive_reader_of_tokens_is_fooled() {
    let rows = read_rows("attacks/authz_cases.jsonl");
    let signer = Signer::new("k1");
    let naive = |token: &str| {
        let body = token.split('.').nth(1).and_then(|body| URL_SAFE_NO_PAD.decode(body).ok());
        let claims: Value = serde_json::from_slice(&body?).ok()?;
        claims["aud"].as_str().filter(|aud| aud.starts_with(RESOURCE)).map(|_| ())
    };
    let of_tokens = rows.iter().filter(|row| row["family"] == "token");
    let fooled = of_tokens.filter_map(|row| naive(&token(row["name"].as_str()?, &signer)?)).count();
    assert!(fooled >= 10, "{fooled}");
}
