//! Requests that `toolkeep node join` sends, and the files that it stores.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::played::Played;

/// The private number of a P-256 key in PKCS #8: 32 bytes behind an `OCTET STRING` of that length.
fn scalar(pem: &str) -> Vec<u8> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(body).unwrap();
    let at = der.windows(2).position(|two| two == [0x04, 0x20]).unwrap();
    der[at + 2..at + 34].to_vec()
}

/// Whether bytes hold the number: as it is, or in the base64 of a text of the body.
fn holds(body: &str, scalar: &[u8]) -> bool {
    let within = |bytes: &[u8]| bytes.windows(scalar.len()).any(|some| some == scalar);
    let hex = hex(scalar);
    let texts = body.split(['"', '\\', ' ']).filter_map(|text| STANDARD.decode(text).ok());
    within(body.as_bytes())
        || body.to_lowercase().contains(&hex)
        || texts.into_iter().any(|text| within(&text))
}

#[test]
fn the_private_key_of_a_node_is_in_nothing_that_it_sends() {
    let answer = json!({
        "node_id": "n1", "certificate": "C", "authority": "A", "name": "n", "until": "u", "key": "tk_k",
    });
    let played = Played::default().answers("POST /v1/nodes/n1/join", &answer);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("node");
    let ran = played.run(&["node", "join", "n1", "--dir", dir.to_str().unwrap()]);
    assert_eq!(ran.exit, 0, "{}", ran.err);
    let pem = std::fs::read_to_string(dir.join("node.key")).unwrap();
    let (scalar, body) = (scalar(&pem), played.body());
    assert!(!holds(&body, &scalar) && !body.contains("PRIVATE"), "{body}");
    let sent: Value = serde_json::from_str(&body).unwrap();
    let mut fields: Vec<_> = sent.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["proof", "public_key"]);
    // It is that key's: what was sent is the public half of what was kept, and proves the other half.
    let bytes = |name: &str| STANDARD.decode(sent[name].as_str().unwrap()).unwrap();
    assert!(proto::tls::verify_proof("n1", &bytes("public_key"), &bytes("proof")));
    assert!(!ran.out.contains(&pem) && !ran.err.contains(&pem));
    // The control: had it been sent in any of these ways, it would have been seen.
    let der = STANDARD.encode(&scalar);
    for body in [json!({ "key": der }).to_string(), json!({ "key": hex(&scalar) }).to_string()] {
        assert!(holds(&body, &scalar), "{body}");
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
