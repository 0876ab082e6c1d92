//! The style sheet, the script and the icon, as files of the program.

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};

use crate::error_page::PageError;

const ASSETS: [(&str, &str, &str); 3] = [
    ("console.css", "text/css; charset=utf-8", include_str!("../assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("../assets/console.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// Path of the style sheet. The version is in it, so that a cache never has an older one.
pub(crate) const STYLE_SHEET: &str =
    concat!("/ui/assets/console.css?v=", env!("CARGO_PKG_VERSION"));
/// Path of the script.
pub(crate) const SCRIPT: &str = concat!("/ui/assets/console.js?v=", env!("CARGO_PKG_VERSION"));
/// Path of the icon.
pub(crate) const ICON: &str = "/ui/assets/icon.svg";

/// Serves one asset. None needs a session: they contain no data.
pub(crate) async fn serve_asset(Path(name): Path<String>) -> Result<Response, PageError> {
    let found = ASSETS.iter().find(|(known, ..)| *known == name);
    let (_, media_type, text) = found.ok_or_else(PageError::no_page)?;
    let headers = [(header::CONTENT_TYPE, *media_type), (header::CACHE_CONTROL, "max-age=300")];
    Ok((headers, *text).into_response())
}

#[cfg(test)]
mod tests {
    use super::ASSETS;

    #[test]
    fn assets_are_small_and_add_no_markup_from_text() {
        let script = ASSETS[1].2;
        assert!(script.len() < 20_000, "{} bytes", script.len());
        for sink in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!script.contains(sink), "{sink}");
        }
        assert!(ASSETS[0].2.len() < 20_000, "{} bytes", ASSETS[0].2.len());
    }
}
