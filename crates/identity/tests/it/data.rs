//! Signed texts of Wycheproof: which hold and which do not.

use std::collections::BTreeMap;

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::{JwkSet, SignatureAlgorithm, UnverifiedJws};
use serde_json::{Value, json};
use testkit::shared_data::read_rows;

/// The key as an issuer publishes it.
fn published(row: &Value) -> Option<JwkSet> {
    let key = &row["key"];
    let set = if key["keys"].is_array() { key.clone() } else { json!({"keys": [key]}) };
    JwkSet::parse_set(set.to_string().into()).ok()
}

fn holds(row: &Value, keys: &JwkSet) -> bool {
    let text = row["jws"].as_str().map_or_else(|| row["jws"].to_string(), str::to_owned);
    UnverifiedJws::parse_compact(&text).is_ok_and(|jws| keys.verify_signature(&jws).is_ok())
}

/// The algorithm that the row's header names, where it is one in use here.
fn algorithm(row: &Value) -> Option<SignatureAlgorithm> {
    let head = row["jws"].as_str()?.split('.').next()?;
    let head: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head).ok()?).ok()?;
    head["alg"].as_str()?.parse().ok()
}

/// Whether the key says it is for another algorithm (RFC 7517, 4.4). Two rows that Wycheproof lets hold have
/// such keys, of PS256 with PS384 and of the misspelled `ES521`; here a key is for what it says.
fn is_for_another(row: &Value, algorithm: SignatureAlgorithm) -> bool {
    row["key"]["alg"].as_str().is_some_and(|alg| alg != algorithm.as_str())
}

#[test]
fn no_wrong_signature_holds_and_every_right_one_does() {
    let rows = read_rows("attacks/jws_vectors.jsonl");
    let mut counts = BTreeMap::<(&str, &str), usize>::new();
    let mut wrong = Vec::new();
    for row in &rows {
        let valid = row["result"] == "valid";
        let held = published(row).is_some_and(|keys| holds(row, &keys));
        let use_of = match algorithm(row) {
            None => "not in use",
            Some(algorithm) if is_for_another(row, algorithm) => "key for another",
            Some(_) => "in use",
        };
        let kind = if valid { "right" } else { "wrong" };
        *counts.entry((kind, use_of)).or_default() += 1;
        if held != (valid && use_of == "in use") {
            wrong.push(format!("{} {}: {held}", row["id"], row["comment"]));
        }
    }
    println!("{counts:?}, {} judged otherwise: {wrong:#?}", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(counts[&("right", "in use")] >= 15 && counts[&("wrong", "in use")] >= 150);
}

/// Positive control: a check that lets padding be and believes the header's algorithm takes some of them.
#[test]
fn a_naive_check_is_fooled() {
    let rows = read_rows("attacks/jws_vectors.jsonl");
    let naive = |row: &Value| {
        let mut parts = row["jws"].as_str()?.split('.');
        let (head, body, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let read = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let head_read: Value = serde_json::from_slice(&read(head)?).ok()?;
        if head_read["alg"] == "none" {
            return Some(true);
        }
        let (n, e) = (read(row["key"]["n"].as_str()?)?, read(row["key"]["e"].as_str()?)?);
        let key = RsaPublicKeyComponents { n, e };
        let said = format!("{head}.{body}");
        Some(key.verify(&RSA_PKCS1_2048_8192_SHA256, said.as_bytes(), &read(signature)?).is_ok())
    };
    let fooled = rows.iter().filter(|row| row["result"] == "invalid" && naive(row) == Some(true));
    let fooled: Vec<_> = fooled.map(|row| row["comment"].as_str().unwrap()).collect();
    println!("{} fooled it: {fooled:?}", fooled.len());
    assert!(fooled.contains(&"rejectWrongUse") || fooled.contains(&"algIsNone"), "{fooled:?}");
}
