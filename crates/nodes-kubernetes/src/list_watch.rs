//! The list and watch requests to the Kubernetes API.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use egress::{EgressResponse, RequestLimits};
use http::{Request, StatusCode, header};
use tool::display_text::truncate_and_escape_debug;

use super::api_objects::{NodeList, WatchEvent};
use super::{KubernetesLocator, NODE_ID_LABEL};

/// Number of nodes of one page.
const PAGE_NODES: usize = 250;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 40;
/// Maximum size of a page, in bytes.
const MAX_PAGE_BYTES: usize = 32 << 20;
/// Maximum length of a watch event, in bytes. A node object lists its images.
const MAX_LINE_BYTES: usize = 4 << 20;
/// Duration of one watch; the next one continues from its version. A watch without data for longer
/// has lost its connection.
const WATCH_DURATION: Duration = Duration::from_secs(10);
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_secs(13);
/// Timeout of a connection and of a response head.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum size of a token file, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// How a watch ended.
pub(super) enum WatchEnd {
    TimedOut,
    /// The resource version is no longer available (410 Gone).
    VersionExpired,
}

impl KubernetesLocator {
    /// Lists all nodes with the label. Returns the resource version to watch from.
    pub(super) async fn list_nodes(&self) -> Result<String, String> {
        let mut nodes = Vec::new();
        let mut continue_token = String::new();
        for _ in 0..MAX_PAGES {
            let limit = PAGE_NODES.to_string();
            let mut pairs = vec![("limit", limit.as_str())];
            if !continue_token.is_empty() {
                pairs.push(("continue", &continue_token));
            }
            let answer = self
                .send_list_request(&build_query(&pairs), REQUEST_TIMEOUT, MAX_PAGE_BYTES)
                .await?;
            let answer = check_status(answer)?;
            let bytes =
                answer.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
            let list: NodeList = parse_json(&bytes)?;
            nodes.extend(list.items);
            continue_token = list.metadata.r#continue.unwrap_or_default();
            if continue_token.is_empty() {
                self.addresses.replace_all(nodes);
                return Ok(list.metadata.resource_version);
            }
        }
        Err(format!(
            "it has more than {} nodes with the label `{NODE_ID_LABEL}`",
            PAGE_NODES * MAX_PAGES
        ))
    }

    /// Watches nodes from `version`, which is advanced.
    pub(super) async fn watch_nodes(&self, version: &mut String) -> Result<WatchEnd, String> {
        let timeout_seconds = WATCH_DURATION.as_secs().to_string();
        let pairs = [
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version.as_str()),
            ("timeoutSeconds", &timeout_seconds),
        ];
        let response =
            self.send_list_request(&build_query(&pairs), WATCH_IDLE_TIMEOUT, usize::MAX).await?;
        if response.status() == StatusCode::GONE {
            return Ok(WatchEnd::VersionExpired);
        }
        let mut body = check_status(response)?.into_body();
        self.addresses.mark_connected();
        let mut buffer = BytesMut::new();
        while let Some(part) = body.next_chunk().await.map_err(|error| error.to_string())? {
            buffer.extend_from_slice(&part);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end);
                buffer.advance(1);
                if let Some(ended) = self.apply_event(&line, version)? {
                    return Ok(ended);
                }
            }
            if buffer.len() > MAX_LINE_BYTES {
                return Err(format!("one of its nodes is larger than {MAX_LINE_BYTES} bytes"));
            }
        }
        Ok(WatchEnd::TimedOut)
    }

    fn apply_event(&self, line: &[u8], version: &mut String) -> Result<Option<WatchEnd>, String> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let WatchEvent { r#type, object } = parse_json(line)?;
        if r#type == "ERROR" {
            let is_expired = object.code == StatusCode::GONE.as_u16();
            return if is_expired {
                Ok(Some(WatchEnd::VersionExpired))
            } else {
                Err(truncate_and_escape_debug(&object.message, 200))
            };
        }
        if !object.metadata.resource_version.is_empty() {
            version.clone_from(&object.metadata.resource_version);
        }
        match r#type.as_str() {
            "ADDED" | "MODIFIED" => self.publish_moved(&self.addresses.upsert_node(object)),
            "DELETED" => self.publish_moved(&self.addresses.remove_node(&object.metadata.name)),
            _ => {}
        }
        Ok(None)
    }

    async fn send_list_request(
        &self,
        query: &str,
        idle_timeout: Duration,
        max_bytes: usize,
    ) -> Result<EgressResponse, String> {
        let mut request =
            Request::get(format!("{}/api/v1/nodes?{query}", self.settings.api_server));
        request = request.header(header::ACCEPT, "application/json");
        if let Some(token) = self.read_token().await? {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Bytes::new());
        let request = request.map_err(|_| "the token is not a single line of text".to_owned())?;
        let limits = RequestLimits {
            connect_timeout: REQUEST_TIMEOUT,
            header_timeout: REQUEST_TIMEOUT,
            body_idle_timeout: idle_timeout,
            max_body_bytes: max_bytes,
        };
        self.egress
            .send_request(&self.trust, request, limits)
            .await
            .map_err(|error| error.to_string())
    }

    async fn read_token(&self) -> Result<Option<String>, String> {
        let Some(path) = self.settings.token_file.clone() else { return Ok(None) };
        let display_path = path.display().to_string();
        let read = move || rooted_fs::regular_file::read_text(&path, MAX_TOKEN_BYTES);
        let read = tokio::task::spawn_blocking(read);
        let read = read.await.map_err(|error| error.to_string())?;
        let token = read.map_err(|error| format!("the token in `{display_path}`: {error}"))?;
        Ok(Some(token.trim().to_owned()))
    }
}

fn build_query(pairs: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("labelSelector", NODE_ID_LABEL).extend_pairs(pairs);
    query.finish()
}

fn check_status(response: EgressResponse) -> Result<EgressResponse, String> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let help = match status {
        StatusCode::UNAUTHORIZED => "; is the token the service account's?",
        StatusCode::FORBIDDEN => "; its service account must be allowed to list and watch nodes",
        _ => "",
    };
    Err(format!("the API server returned {status}{help}"))
}

fn parse_json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("cannot parse its response: {error}"))
}
