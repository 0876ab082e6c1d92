//! Tests with attack inputs from shared data, if the data is installed.

mod approvals;
mod claimed_fields;
mod console_pages;
mod host_origins;
mod pinned_definitions;
mod poisoned_items;
mod poisoned_results;
mod policy;
mod recorded_calls;
mod request_framing;
mod session_handles;
mod sessions;
mod tokens;

use serde_json::Value;

/// The row's bytes. Base64 with `+`, `/` and padding.
fn bytes(row: &Value) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = row["raw_b64"].as_str().unwrap().trim_end_matches('=');
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes() {
        let value = DIGITS.iter().position(|d| *d == digit).unwrap();
        bits = bits << 6 | u32::try_from(value).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).unwrap());
        }
    }
    bytes
}

/// The request with a key in it.
fn with_key(request: &[u8], credential: &str) -> Vec<u8> {
    let line = request.windows(2).position(|pair| pair == b"\r\n").unwrap() + 2;
    let (line, rest) = request.split_at(line);
    [line, credential.as_bytes(), rest].concat()
}
