//! Listing and watching: two requests, of which the second lasts.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use egress::{HttpLimits, Received};
use http::{Request, StatusCode, header};

use super::api_objects::{Event, List};
use super::{Kubernetes, LABEL};

/// Nodes of one answer.
const PAGE: usize = 250;
/// Pages of one list.
const PAGES: usize = 40;
/// The largest page.
const PAGE_BYTES: usize = 32 << 20;
/// The longest line of a watch: a node with the images that it has.
const LINE_BYTES: usize = 4 << 20;
/// A watch ends by itself after so long, and the next goes on from there: one that is silent for longer
/// has lost its other side.
const WATCH: Duration = Duration::from_secs(10);
const SILENT: Duration = Duration::from_secs(13);
/// For a connection, and for an answer.
const ANSWER: Duration = Duration::from_secs(4);
/// The largest token.
const TOKEN_BYTES: u64 = 64 << 10;

/// How a watch ended.
pub(super) enum Ended {
    InTime,
    /// What it should go on from is forgotten.
    TooOld,
}

impl Kubernetes {
    /// Reads all nodes with the label; the version to go on from.
    pub(super) async fn list(&self) -> Result<String, String> {
        let mut nodes = Vec::new();
        let mut goes_on = String::new();
        for _ in 0..PAGES {
            let limit = PAGE.to_string();
            let mut pairs = vec![("limit", limit.as_str())];
            if !goes_on.is_empty() {
                pairs.push(("continue", &goes_on));
            }
            let answer = self.ask(&query(&pairs), ANSWER, PAGE_BYTES).await?;
            let answer = ok(answer)?;
            let bytes = answer.into_body().bytes().await.map_err(|error| error.to_string())?;
            let list: List = read(&bytes)?;
            nodes.extend(list.items);
            goes_on = list.metadata.r#continue.unwrap_or_default();
            if goes_on.is_empty() {
                self.places.all(nodes);
                return Ok(list.metadata.resource_version);
            }
        }
        Err(format!("it has over {} nodes with the label `{LABEL}`", PAGE * PAGES))
    }

    /// Follows from `version`, which is moved on.
    pub(super) async fn watch(&self, version: &mut String) -> Result<Ended, String> {
        let time = WATCH.as_secs().to_string();
        let pairs = [
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version.as_str()),
            ("timeoutSeconds", &time),
        ];
        let answer = self.ask(&query(&pairs), SILENT, usize::MAX).await?;
        if answer.status() == StatusCode::GONE {
            return Ok(Ended::TooOld);
        }
        let mut body = ok(answer)?.into_body();
        self.places.heard();
        let mut held = BytesMut::new();
        while let Some(part) = body.chunk().await.map_err(|error| error.to_string())? {
            held.extend_from_slice(&part);
            while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
                let line = held.split_to(end);
                held.advance(1);
                if let Some(ended) = self.event(&line, version)? {
                    return Ok(ended);
                }
            }
            if held.len() > LINE_BYTES {
                return Err(format!("one of its nodes is over {LINE_BYTES} bytes"));
            }
        }
        Ok(Ended::InTime)
    }

    fn event(&self, line: &[u8], version: &mut String) -> Result<Option<Ended>, String> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let Event { r#type, object } = read(line)?;
        if r#type == "ERROR" {
            let gone = object.code == StatusCode::GONE.as_u16();
            return if gone { Ok(Some(Ended::TooOld)) } else { Err(cut(&object.message)) };
        }
        if !object.metadata.resource_version.is_empty() {
            version.clone_from(&object.metadata.resource_version);
        }
        match r#type.as_str() {
            "ADDED" | "MODIFIED" => self.settle(&self.places.put(object)),
            "DELETED" => self.settle(&self.places.remove(&object.metadata.name)),
            _ => {}
        }
        Ok(None)
    }

    async fn ask(&self, query: &str, silent: Duration, most: usize) -> Result<Received, String> {
        let mut request = Request::get(format!("{}/api/v1/nodes?{query}", self.settings.api));
        request = request.header(header::ACCEPT, "application/json");
        if let Some(token) = self.token().await? {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Bytes::new());
        let request = request.map_err(|_| "the token is no line of text".to_owned())?;
        let limits = HttpLimits { connect: ANSWER, headers: ANSWER, idle: silent, body: most };
        self.egress.send(&self.class, request, limits).await.map_err(|error| error.to_string())
    }

    async fn token(&self) -> Result<Option<String>, String> {
        let Some(path) = self.settings.token_file.clone() else { return Ok(None) };
        let shown = path.display().to_string();
        let read = move || rooted_fs::files::read_text(&path, TOKEN_BYTES);
        let read = tokio::task::spawn_blocking(read);
        let read = read.await.map_err(|error| error.to_string())?;
        let token = read.map_err(|error| format!("the token in `{shown}`: {error}"))?;
        Ok(Some(token.trim().to_owned()))
    }
}

fn query(pairs: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("labelSelector", LABEL).extend_pairs(pairs);
    query.finish()
}

fn ok(answer: Received) -> Result<Received, String> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let fix = match status {
        StatusCode::UNAUTHORIZED => "; is the token the service account's?",
        StatusCode::FORBIDDEN => "; its service account must be allowed to list and watch nodes",
        _ => "",
    };
    Err(format!("the API server answers {status}{fix}"))
}

fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("its answer cannot be read: {error}"))
}

fn cut(text: &str) -> String {
    text.chars().take(200).flat_map(char::escape_debug).collect()
}
