//! Search with DuckDuckGo's page for browsers without scripts (`html.duckduckgo.com/html/`).
//!
//! A result is a link of the class `result__a`, its snippet one of `result__snippet`. Both are
//! within `result`, and within `result--ad` if they are advertisements. Links lead through
//! `/l/?uddg=`.

use egress::EgressClient;
use http::StatusCode;

use super::super::endpoint_client::{EndpointError, WebEndpoint, percent_encode};
use super::super::html_tokenizer::{
    HtmlToken, HtmlTokenizer, attribute_value, decode_entities, has_class,
};
use super::{REQUEST_TIMEOUT, SearchResult};

const SITE_NAME: &str = "DuckDuckGo";
/// Largest number of results read from a page.
const MAX_RESULTS: usize = 100;

pub(super) async fn search_duckduckgo(
    egress: &EgressClient,
    endpoint: &WebEndpoint,
    (query, region): (&str, &str),
) -> Result<Vec<SearchResult>, EndpointError> {
    let path = format!("/html/?q={}&kl={}", percent_encode(query), percent_encode(region));
    let (status, body) = endpoint.get_path(egress, &path, REQUEST_TIMEOUT).await?;
    // A CAPTCHA has status 202, a refusal 403 or 429.
    if matches!(status, StatusCode::ACCEPTED | StatusCode::FORBIDDEN) {
        return Err(EndpointError::rate_limited(SITE_NAME));
    }
    if status != StatusCode::OK {
        return Err(EndpointError::from_status(SITE_NAME, status));
    }
    parse_page(&String::from_utf8_lossy(&body))
}

fn parse_page(page: &str) -> Result<Vec<SearchResult>, EndpointError> {
    if page.contains("anomaly-modal") || page.contains("challenge-form") {
        return Err(EndpointError::rate_limited(SITE_NAME));
    }
    let found = collect_results(page);
    let none = page.contains("no-results") || page.contains("No results");
    if found.is_empty() && !none {
        return Err(EndpointError::unexpected_body(
            SITE_NAME,
            "it has neither results nor a message that there are none",
        ));
    }
    Ok(found)
}

fn collect_results(page: &str) -> Vec<SearchResult> {
    let (mut found, mut paid, mut into) = (Vec::<SearchResult>::new(), false, None);
    for piece in HtmlTokenizer(page) {
        match piece {
            HtmlToken::Open { name: "div", attributes } if has_class(attributes, "result") => {
                paid = has_class(attributes, "result--ad");
            }
            HtmlToken::Open { name: "a", attributes }
                if has_class(attributes, "result__a") && !paid =>
            {
                let url = attribute_value(attributes, "href").and_then(|href| result_target(&href));
                if let Some(url) = url.filter(|_| found.len() < MAX_RESULTS) {
                    found.push(SearchResult { title: String::new(), url, snippet: String::new() });
                    into = Some(ResultPart::Title);
                }
            }
            HtmlToken::Open { attributes, .. }
                if has_class(attributes, "result__snippet") && !paid =>
            {
                into = Some(ResultPart::Snippet);
            }
            HtmlToken::Close("a") => into = None,
            HtmlToken::Text(text) => {
                if let (Some(part), Some(last)) = (into, found.last_mut()) {
                    let to = match part {
                        ResultPart::Title => &mut last.title,
                        ResultPart::Snippet => &mut last.snippet,
                    };
                    to.push_str(&decode_entities(text));
                }
            }
            HtmlToken::Open { .. } | HtmlToken::Close(_) => {}
        }
    }
    for one in &mut found {
        one.title = one.title.trim().to_owned();
        one.snippet = one.snippet.trim().to_owned();
    }
    found
}

#[derive(Clone, Copy)]
enum ResultPart {
    Title,
    Snippet,
}

/// Returns the target of a result link: the value of `uddg`, or the link itself.
fn result_target(href: &str) -> Option<String> {
    let query = href.split_once('?').map_or("", |(_, query)| query);
    let behind = query.split('&').find_map(|pair| pair.strip_prefix("uddg="));
    let url = match behind {
        Some(encoded) => percent_decode(encoded),
        None if href.starts_with("//") => format!("https:{href}"),
        None => href.to_owned(),
    };
    let web = url.starts_with("https://") || url.starts_with("http://");
    (web && !url.contains("duckduckgo.com/y.js")).then_some(url)
}

fn percent_decode(text: &str) -> String {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        match byte {
            b'%' => {
                let pair = (digit(), digit());
                if let (Some(high), Some(low)) = pair {
                    out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                }
            }
            b'+' => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{SearchResult, parse_page};

    const PAGE: &str = r#"<html><body><div id="links" class="results">
      <div class="result results_links results_links_deep result--ad"><h2><a rel="nofollow" class="result__a"
        href="https://duckduckgo.com/y.js?ad_domain=x">Paid</a></h2><a class="result__snippet" href="x">buy</a></div>
      <div class="result results_links results_links_deep web-result "><div class="links_main">
        <h2 class="result__title"><a rel="nofollow" class="result__a"
          href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fwww.rust%2Dlang.org%2F%3Fa%3D1&amp;rut=abc">Rust &amp; <b>more</b></a></h2>
        <a class="result__url" href="x"> www.rust-lang.org </a>
        <a class="result__snippet" href="x">A language &#x27;for&#x27; <b>everyone</b>.</a></div></div>
      <div class="result web-result"><a class="result__a" href="javascript:alert(1)">bad</a></div>
    </div></body></html>"#;

    #[test]
    fn results_are_read_and_advertisements_are_not() {
        let wanted = SearchResult {
            title: "Rust & more".to_owned(),
            url: "https://www.rust-lang.org/?a=1".to_owned(),
            snippet: "A language 'for' everyone.".to_owned(),
        };
        assert_eq!(parse_page(PAGE).unwrap(), [wanted]);
    }

    #[test]
    fn a_challenge_is_an_error_and_nothing_found_is_none() {
        let challenge = "<div class=\"anomaly-modal__title\">Unfortunately, bots use it too.</div>";
        assert_eq!(parse_page(challenge).unwrap_err().kind, "rate_limit");
        assert_eq!(parse_page("<div class=\"no-results\">No results.</div>").unwrap(), []);
        assert_eq!(parse_page("<html>something else</html>").unwrap_err().kind, "parse_error");
    }
}
