//! Tests against a local server that implements the Python package index.

use std::collections::HashMap;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use egress::{EgressClient, EgressOptions};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{PINNED_FILES, PinnedFile, PinnedPackage, install_package};

const FILE: &str = "ruff-1.0-py3-none-any.whl";
const PROGRAM: &[u8] = b"#!/bin/sh\necho ruff\n";

fn wheel() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("ruff-1.0.data/scripts/ruff", options).unwrap();
    zip.write_all(PROGRAM).unwrap();
    zip.finish().unwrap().into_inner()
}

fn package() -> PinnedPackage {
    let digest = tool::Digest(Sha256::digest(wheel()).into()).to_string();
    let digits = digest.trim_start_matches("sha256:").to_owned();
    PinnedPackage {
        project: "ruff".to_owned(),
        version: "1.0".to_owned(),
        file: FILE.to_owned(),
        sha256: digits,
        member: "ruff-1.0.data/scripts/ruff".to_owned(),
    }
}

/// Serves these pages by path; returns the address of the index.
#[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
async fn index(pages: &[(&str, &str, Vec<u8>)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pages: HashMap<String, (String, Vec<u8>)> = pages
        .iter()
        .map(|(path, kind, body)| ((*path).to_owned(), ((*kind).to_owned(), body.clone())))
        .collect();
    let pages = Arc::new(pages);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let pages = Arc::clone(&pages);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { return };
                    head.push(byte);
                }
                let head = String::from_utf8(head).unwrap();
                assert!(head.contains("accept: "), "{head}");
                let path = head.split(' ').nth(1).unwrap();
                let (status, kind, body) = match pages.get(path) {
                    Some((kind, body)) => ("200 OK", kind.as_str(), body.as_slice()),
                    None => ("404 Not Found", "text/plain", b"".as_slice()),
                };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.write_all(body).await.unwrap();
            });
        }
    });
    format!("http://{address}/simple")
}

fn listed(url: &str) -> Vec<u8> {
    serde_json::json!({"meta": {"api-version": "1.1"}, "name": "ruff", "files": [
        {"filename": "ruff-0.9-py3-none-any.whl", "url": "/old", "hashes": {}},
        {"filename": FILE, "url": url, "hashes": {"sha256": "told by the index, and not believed"}},
    ]})
    .to_string()
    .into_bytes()
}

const JSON: &str = "application/vnd.pypi.simple.v1+json";

fn egress() -> EgressClient {
    EgressClient::new(EgressOptions::default()).unwrap()
}

#[tokio::test]
async fn both_forms_of_the_index_lead_to_the_file() {
    let page = format!(
        "<!DOCTYPE html><html><body><a href=\"/old#sha256=1\">ruff-0.9-py3-none-any.whl</a><br/>\n\
         <a href=\"../../packages/{FILE}?a=1&amp;b=2#sha256=2\" data-requires-python=\"&gt;=3.7\">{FILE}</a></body></html>"
    );
    let of_page = format!("/packages/{FILE}?a=1&b=2");
    for pages in [
        [("/simple/ruff/", JSON, listed("/files/w")), ("/files/w", "binary", wheel())],
        [("/simple/ruff/", "text/html", page.into_bytes()), (of_page.as_str(), "binary", wheel())],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("tools/ruff/bin");
        let at = index(&pages).await;
        for _ in 0..2 {
            let installed = install_package(&egress(), Some(&at), &package(), &bin).await.unwrap();
            assert_eq!(std::fs::read(&installed.program).unwrap(), PROGRAM);
            let mode = std::fs::metadata(&installed.program).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
        }
        assert_eq!(std::fs::read_dir(&bin).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn another_file_than_the_one_that_was_meant_is_not_installed() {
    let mut other = wheel();
    let last = other.len() - 1;
    other[last] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    let at = index(&[("/simple/ruff/", JSON, listed("/w")), ("/w", "binary", other)]).await;
    let told = install_package(&egress(), Some(&at), &package(), folder.path()).await.unwrap_err();
    assert!(told.contains("was not installed") && told.contains(&package().sha256), "{told}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let no_list = index(&[]).await;
    let no_file = index(&[("/simple/ruff/", JSON, br#"{"files": []}"#.to_vec())]).await;
    let no_wheel = index(&[("/simple/ruff/", JSON, listed("/w"))]).await;
    // An index cannot redirect to an internal address: a file of another origin must be public.
    let inside = index(&[("/simple/ruff/", JSON, listed("http://127.0.0.1:9/w"))]).await;
    for (at, says) in [
        (no_list.as_str(), "404"),
        (&no_file, "does not have"),
        (&no_wheel, "404"),
        (&inside, "127.0.0.1"),
        ("ftp://x", "ftp"),
    ] {
        let told =
            install_package(&egress(), Some(at), &package(), folder.path()).await.unwrap_err();
        assert!(told.contains(says), "{told}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn there_is_one_for_this_machine_and_digests_are_digests() {
    let package = PinnedPackage::pinned_ruff().unwrap();
    assert!(package.file.starts_with("ruff-0.") && package.member.ends_with("/ruff"));
    for PinnedFile { sha256, .. } in PINNED_FILES {
        assert!(sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
