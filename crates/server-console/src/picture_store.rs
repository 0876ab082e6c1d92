//! Pictures in results of calls, for the browser that made the call: in memory, few and for a short time.
//!
//! A page may load nothing but what comes from this server, so that a picture needs an address. It is random, counts for
//! the key that made the call, and is forgotten when newer pictures need the room.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::Deserialize;
use server_core::error::ApiError;
use tool::{ErrorCode, Json};

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::session::ConsoleSession;
use crate::session_store::random_token;

/// Media types that browsers show as pictures. In an `img` element none of them runs anything.
const MEDIA_TYPES: [&str; 5] =
    ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"];
/// Maximum size of all pictures in bytes.
const MAX_TOTAL_BYTES: usize = 32 << 20;
/// Maximum number of pictures of one result.
const MAX_PER_RESULT: usize = 16;

/// Keeps the newest pictures in memory.
#[derive(Debug, Default)]
pub(crate) struct PictureStore(Mutex<VecDeque<StoredPicture>>);

#[derive(Debug)]
struct StoredPicture {
    token: String,
    /// The key whose call returned it.
    key_id: String,
    media_type: &'static str,
    content: Bytes,
}

#[derive(Deserialize)]
struct ImageBlock {
    r#type: String,
    #[serde(default)]
    data: String,
    #[serde(default, rename = "mimeType")]
    media_type: String,
}

impl PictureStore {
    /// Stores the pictures among MCP content blocks, and returns their paths.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn store_pictures(
        &self,
        key_id: &str,
        content: &Json,
    ) -> Result<Vec<String>, ApiError> {
        let blocks: Vec<ImageBlock> = content.decode().unwrap_or_default();
        let mut paths = Vec::new();
        for block in blocks.iter().filter(|block| block.r#type == "image").take(MAX_PER_RESULT) {
            let media_type = MEDIA_TYPES.iter().find(|known| **known == block.media_type);
            let Some((media_type, data)) = media_type.zip(BASE64.decode(&block.data).ok()) else {
                continue;
            };
            if data.len() > MAX_TOTAL_BYTES / 4 {
                continue;
            }
            let token = random_token()?.expose().to_owned();
            paths.push(format!("/ui/pictures/{token}"));
            let key_id = key_id.to_owned();
            self.push(StoredPicture { token, key_id, media_type, content: data.into() });
        }
        Ok(paths)
    }

    fn push(&self, picture: StoredPicture) {
        let mut pictures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pictures.push_back(picture);
        let mut total: usize = pictures.iter().map(|picture| picture.content.len()).sum();
        while total > MAX_TOTAL_BYTES {
            let Some(oldest) = pictures.pop_front() else { break };
            total -= oldest.content.len();
        }
    }

    fn find(&self, token: &str, key_id: &str) -> Option<(&'static str, Bytes)> {
        let pictures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted =
            |picture: &&StoredPicture| picture.token == token && picture.key_id == key_id;
        pictures.iter().find(is_wanted).map(|it| (it.media_type, it.content.clone()))
    }
}

/// Serves a picture to the key whose call returned it.
pub(crate) async fn serve_picture(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    Path(token): Path<String>,
) -> Result<Response, PageError> {
    let found = state.pictures.find(&token, session.principal.key_id());
    let (media_type, content) = found.ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, "there is no such picture, or it is no longer kept")
    })?;
    Ok(([(header::CONTENT_TYPE, media_type)], content).into_response())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    use super::{BASE64, MAX_TOTAL_BYTES, PictureStore};
    use base64::Engine as _;

    fn image(media_type: &str, bytes: &[u8]) -> Json {
        let data = BASE64.encode(bytes);
        Json::encode(&json!([{"type": "image", "mimeType": media_type, "data": data},
            {"type": "text", "text": "x"}]))
    }

    fn token(path: &str) -> &str {
        path.strip_prefix("/ui/pictures/").unwrap()
    }

    #[test]
    fn a_picture_is_for_its_key_alone() {
        let store = PictureStore::default();
        let paths = store.store_pictures("a", &image("image/png", b"png")).unwrap();
        let [path] = paths.as_slice() else { panic!("{paths:?}") };
        let (media_type, content) = store.find(token(path), "a").unwrap();
        assert_eq!((media_type, &*content), ("image/png", &b"png"[..]));
        assert!(store.find(token(path), "b").is_none());
        assert!(store.find("", "a").is_none());
    }

    #[test]
    fn only_pictures_are_stored() {
        let store = PictureStore::default();
        for other in ["text/html", "image/png; x", "application/javascript", "IMAGE/PNG", ""] {
            assert!(store.store_pictures("a", &image(other, b"x")).unwrap().is_empty(), "{other}");
        }
        for content in
            [json!("text"), json!([{"type": "image", "mimeType": "image/png", "data": "%"}])]
        {
            assert!(store.store_pictures("a", &Json::encode(&content)).unwrap().is_empty());
        }
    }

    #[test]
    fn old_pictures_make_room() {
        let store = PictureStore::default();
        let bytes = vec![0; MAX_TOTAL_BYTES / 4];
        let mut stored = Vec::new();
        for _ in 0..5 {
            stored.extend(store.store_pictures("a", &image("image/png", &bytes)).unwrap());
        }
        let is_kept: Vec<bool> =
            stored.iter().map(|path| store.find(token(path), "a").is_some()).collect();
        assert_eq!(is_kept, [false, true, true, true, true]);
        let large = vec![0; MAX_TOTAL_BYTES / 4 + 1];
        assert!(store.store_pictures("a", &image("image/png", &large)).unwrap().is_empty());
    }
}
