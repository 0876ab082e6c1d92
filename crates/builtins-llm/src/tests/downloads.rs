//! Tests of downloads from a local server with the paths of the public hub.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use egress::{EgressClient, EgressOptions};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::download::{Hub, PinnedFile, PinnedModel, Progress};
use crate::embedding_model::InstalledModel;
use crate::tests::sandboxes;
use crate::tests::small_model::{Shape, tokenizer, weights};

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

/// Response of the test server for a path.
#[derive(Debug, Clone)]
enum Page {
    Whole(Vec<u8>),
    /// Announces the whole size but closes the connection after this many bytes. Answers range
    /// requests.
    Broken(Vec<u8>, usize),
    /// Answers each request with the whole content.
    NoRanges(Vec<u8>),
    Redirect(String),
}

/// Path of a request and the start of its range.
type Asked = (String, Option<u64>);

/// Test server with the paths and ranges that were requested.
struct Server {
    base: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
async fn serve(pages: impl IntoIterator<Item = (String, Page)>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let pages: Arc<HashMap<String, Page>> = Arc::new(pages.into_iter().collect());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (pages, seen) = (Arc::clone(&pages), Arc::clone(&seen));
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { return };
                    head.push(byte);
                }
                let head = String::from_utf8(head).unwrap();
                let path = head.split(' ').nth(1).unwrap().to_owned();
                let range = head
                    .lines()
                    .find_map(|line| line.strip_prefix("range: bytes=")?.strip_suffix('-'));
                let from = range.map(|it| it.parse().unwrap());
                seen.lock().unwrap().push((path.clone(), from));
                let (head, body) = answer(pages.get(&path), from);
                stream.write_all(head.as_bytes()).await.unwrap();
                // A reader that disconnects midway is part of a test.
                let _gone = stream.write_all(&body).await;
            });
        }
    });
    Server { base, asked }
}

fn answer(page: Option<&Page>, from: Option<u64>) -> (String, Vec<u8>) {
    let head = |status: &str, length: usize, more: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{more}\r\n")
    };
    let part = |all: &[u8], from: u64| {
        let rest = all[usize::try_from(from).unwrap()..].to_vec();
        let range = format!("content-range: bytes {from}-{}/{}\r\n", all.len() - 1, all.len());
        (head("206 Partial Content", rest.len(), &range), rest)
    };
    match (page, from) {
        (Some(Page::Whole(all) | Page::Broken(all, _)), Some(from)) => part(all, from),
        (Some(Page::Whole(all) | Page::NoRanges(all)), _) => {
            (head("200 OK", all.len(), ""), all.clone())
        }
        (Some(Page::Broken(all, most)), None) => {
            (head("200 OK", all.len(), ""), all[..*most].to_vec())
        }
        (Some(Page::Redirect(to)), _) => {
            (head("302 Found", 0, &format!("location: {to}\r\n")), Vec::new())
        }
        (None, _) => (head("404 Not Found", 0, ""), Vec::new()),
    }
}

fn pinned(path: &str, bytes: &[u8]) -> PinnedFile {
    let digest = tool::Digest(Sha256::digest(bytes).into()).to_string();
    let sha256 = digest.trim_start_matches("sha256:").to_owned();
    PinnedFile { path: path.to_owned(), size: bytes.len() as u64, sha256 }
}

fn model() -> PinnedModel {
    PinnedModel {
        repository: "org/small".to_owned(),
        revision: REVISION.to_owned(),
        weights: pinned("onnx/model_quantized.onnx", &weights(Shape::PUBLIC)),
        tokenizer: pinned("tokenizer.json", &tokenizer()),
    }
}

fn weights_path() -> String {
    format!("/org/small/resolve/{REVISION}/onnx/model_quantized.onnx")
}

fn tokenizer_page() -> (String, Page) {
    (format!("/org/small/resolve/{REVISION}/tokenizer.json"), Page::Whole(tokenizer()))
}

async fn install(server: &Server, models: &std::path::Path) -> Result<InstalledModel, String> {
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let hub = Hub::new(egress, Some(&server.base)).unwrap();
    let mut last = (String::new(), 0);
    let mut progress = |at: Progress<'_>| {
        assert!(at.received <= at.size && (last.0 != at.file || at.received >= last.1), "{at:?}");
        last = (at.file.to_owned(), at.received);
    };
    hub.install(&model(), (models, &sandboxes()), &mut progress).await
}

fn names(models: &std::path::Path) -> Vec<String> {
    let read = std::fs::read_dir(models).unwrap();
    read.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn a_model_is_downloaded_checked_and_installed() {
    let models = tempfile::tempdir().unwrap();
    let server =
        serve([(weights_path(), Page::Whole(weights(Shape::PUBLIC))), tokenizer_page()]).await;
    for _ in 0..2 {
        let found = install(&server, models.path()).await.unwrap();
        assert_eq!(found.facts().label(), "small, 4 dimensions");
        let source = found.facts().source.clone().unwrap();
        assert_eq!(source, format!("{}/org/small/tree/{REVISION}", server.base));
        assert_eq!(found.embed_texts("", &["cat"]).await.unwrap()[0].len(), 4);
        assert_eq!(names(models.path()), ["embedding"]);
    }
    assert_eq!(server.asked.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn another_file_is_not_installed_and_not_kept() {
    let models = tempfile::tempdir().unwrap();
    let mut other = weights(Shape::PUBLIC);
    let last = other.len() - 1;
    other[last] ^= 1;
    let mut long = weights(Shape::PUBLIC);
    long.push(0);
    for (wrong, says) in [(other, "has the SHA-256"), (long, "limit")] {
        let server = serve([(weights_path(), Page::Whole(wrong)), tokenizer_page()]).await;
        let why = install(&server, models.path()).await.unwrap_err();
        let fine = why.contains(says) || why.contains("more than the");
        assert!(fine && why.contains("model_quantized.onnx"), "{why}");
        assert!(InstalledModel::locate_model(models.path(), &sandboxes()).is_none());
    }
    // Control: the same place accepts the right file and does not resume a wrong one.
    let server =
        serve([(weights_path(), Page::Whole(weights(Shape::PUBLIC))), tokenizer_page()]).await;
    install(&server, models.path()).await.unwrap();
    assert!(server.asked.lock().unwrap().iter().all(|(_, from)| from.is_none()));
}

#[tokio::test]
async fn a_download_that_breaks_off_is_continued() {
    let (models, all) = (tempfile::tempdir().unwrap(), weights(Shape::PUBLIC));
    let server = serve([(weights_path(), Page::Broken(all.clone(), 100)), tokenizer_page()]).await;
    let why = install(&server, models.path()).await.unwrap_err();
    assert!(why.contains("ended early") && why.contains("100 of"), "{why}");
    assert!(InstalledModel::locate_model(models.path(), &sandboxes()).is_none());
    install(&server, models.path()).await.unwrap();
    let asked = server.asked.lock().unwrap().clone();
    assert_eq!(asked[..2], [(weights_path(), None), (weights_path(), Some(100))]);
    // A server without range support sends the whole file again.
    let models = tempfile::tempdir().unwrap();
    let parts = models.path().join(".download");
    std::fs::create_dir_all(&parts).unwrap();
    let part = parts.join(format!("{}.part", model().weights.sha256));
    std::fs::write(&part, &all[..100]).unwrap();
    let server = serve([(weights_path(), Page::NoRanges(all)), tokenizer_page()]).await;
    install(&server, models.path()).await.unwrap();
    assert_eq!(server.asked.lock().unwrap()[0], (weights_path(), Some(100)));
}

#[tokio::test]
async fn a_redirect_stays_at_the_mirror_or_leads_to_a_public_address() {
    let all = weights(Shape::PUBLIC);
    // Control: redirects within the mirror are followed.
    let pages = [
        (weights_path(), Page::Redirect("/store/w".to_owned())),
        ("/store/w".to_owned(), Page::Whole(all.clone())),
        tokenizer_page(),
    ];
    let models = tempfile::tempdir().unwrap();
    install(&serve(pages).await, models.path()).await.unwrap();
    let other = serve([("/w".to_owned(), Page::Whole(all))]).await;
    let pages = [(weights_path(), Page::Redirect(format!("{}/w", other.base))), tokenizer_page()];
    let models = tempfile::tempdir().unwrap();
    let why = install(&serve(pages).await, models.path()).await.unwrap_err();
    assert!(why.contains("blocked") && why.contains("127.0.0.1"), "{why}");
    assert!(
        other.asked.lock().unwrap().is_empty()
            && InstalledModel::locate_model(models.path(), &sandboxes()).is_none()
    );
}

#[tokio::test]
async fn what_is_missing_is_named_and_the_model_before_stays() {
    let models = tempfile::tempdir().unwrap();
    let server =
        serve([(weights_path(), Page::Whole(weights(Shape::PUBLIC))), tokenizer_page()]).await;
    install(&server, models.path()).await.unwrap();
    let empty = serve([]).await;
    let why = install(&empty, models.path()).await.unwrap_err();
    assert!(why.contains("404") && why.contains("model_quantized.onnx"), "{why}");
    assert!(
        InstalledModel::locate_model(models.path(), &sandboxes())
            .unwrap()
            .load_model()
            .await
            .is_ok()
    );
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    for wrong in ["ftp://x", "no address", "http://x/?a=b"] {
        assert!(Hub::new(egress.clone(), Some(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn the_pinned_model_has_a_commit_and_checksums() {
    let model = PinnedModel::all_minilm();
    let is_hex =
        |text: &str, length| text.len() == length && text.bytes().all(|it| it.is_ascii_hexdigit());
    assert!(is_hex(&model.revision, 40));
    for file in [&model.weights, &model.tokenizer] {
        assert!(is_hex(&file.sha256, 64) && file.size > 100_000, "{file:?}");
    }
}
