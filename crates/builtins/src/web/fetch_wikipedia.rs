//! `fetch_wikipedia`: returns the first sentences of an article, found by its title or by a search.

use std::time::Duration;

use egress::EgressClient;
use http::StatusCode;
use serde_json::{Value, json};
use tool::{BoxFuture, CallContext, ExecuteError, ExecutionState, Executor, RecordedCall};

use super::WebEndpoints;
use super::endpoint_client::{EndpointError, WebEndpoint, percent_encode};
use tool_manifest::{BuiltinTool, completed_step};
use tool_manifest::{ManifestRegistry, NumericLimit};

/// Timeout of one request (the research registry's number).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest number of returned categories.
const MAX_CATEGORIES: usize = 20;
const SITE_NAME: &str = "Wikipedia";

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    egress: EgressClient,
    endpoints: &WebEndpoints,
) -> Option<BuiltinTool> {
    let declared = registry.find_tool("fetch_wikipedia")?;
    let sentences = declared.numeric_limit("sentences");
    let at = endpoints.wikipedia.clone();
    Some(declared.with_executor(FetchWikipedia { egress, endpoint: at, sentences }))
}

#[derive(Debug)]
struct FetchWikipedia {
    egress: EgressClient,
    endpoint: WebEndpoint,
    sentences: NumericLimit,
}

impl FetchWikipedia {
    async fn fetch_article(&self, args: &Value) -> Result<Value, EndpointError> {
        let asked = args.get("title").and_then(Value::as_str).unwrap_or_default().trim();
        let page = if let Some(page) = self.fetch_summary(asked).await? {
            page
        } else {
            let none = || EndpointError {
                kind: "not_found",
                message: "Wikipedia has no such article, and its search finds none".to_owned(),
            };
            let title = self.search_title(asked).await?.ok_or_else(none)?;
            self.fetch_summary(&title).await?.ok_or_else(none)?
        };
        let text = |at: &str| page.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let title = text("/title").to_owned();
        let most = self.sentences.usize_in(args, "sentences");
        let mut answer = json!({
            "title": title,
            "summary": first_sentences(text("/extract"), most),
            "url": text("/content_urls/desktop/page"),
        });
        let (categories, warning) = match self.fetch_categories(&title).await {
            Ok(categories) => (categories, None),
            Err(failed) => (Vec::new(), Some(failed.to_text())),
        };
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("categories".to_owned(), json!(categories));
            let warning = warning.map(|why| format!("the categories could not be read: {why}"));
            fields.extend(warning.map(|warning| ("warning".to_owned(), Value::String(warning))));
        }
        Ok(answer)
    }

    /// Fetches the summary of the article with this exact title; follows redirects.
    async fn fetch_summary(&self, title: &str) -> Result<Option<Value>, EndpointError> {
        let title = percent_encode(&title.replace(' ', "_"));
        let path = format!("/api/rest_v1/page/summary/{title}?redirect=true");
        let (status, body) = self.endpoint.get_path(&self.egress, &path, REQUEST_TIMEOUT).await?;
        match status {
            StatusCode::OK => parse_json(&body).map(Some),
            // An empty title returns status 400.
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => Ok(None),
            other => Err(EndpointError::from_status(SITE_NAME, other)),
        }
    }

    /// Returns the title of the first search result.
    async fn search_title(&self, asked: &str) -> Result<Option<String>, EndpointError> {
        let asked = percent_encode(asked);
        let path =
            format!("/w/api.php?action=query&list=search&srsearch={asked}&srlimit=1&format=json");
        let (status, body) = self.endpoint.get_path(&self.egress, &path, REQUEST_TIMEOUT).await?;
        if status != StatusCode::OK {
            return Err(EndpointError::from_status(SITE_NAME, status));
        }
        let found = parse_json(&body)?;
        Ok(found.pointer("/query/search/0/title").and_then(Value::as_str).map(str::to_owned))
    }

    async fn fetch_categories(&self, title: &str) -> Result<Vec<String>, EndpointError> {
        let title = percent_encode(title);
        let path = format!(
            "/w/api.php?action=query&prop=categories&clshow=!hidden&cllimit={MAX_CATEGORIES}&titles={title}\
             &redirects=1&format=json&formatversion=2"
        );
        let (status, body) = self.endpoint.get_path(&self.egress, &path, REQUEST_TIMEOUT).await?;
        if status != StatusCode::OK {
            return Err(EndpointError::from_status(SITE_NAME, status));
        }
        let found = parse_json(&body)?;
        let all = found.pointer("/query/pages/0/categories").and_then(Value::as_array);
        let title = |it: &Value| it.get("title").and_then(Value::as_str).map(str::to_owned);
        let bare =
            |name: String| name.split_once(':').map_or(name.clone(), |(_, it)| it.to_owned());
        Ok(all.into_iter().flatten().filter_map(title).map(bare).take(MAX_CATEGORIES).collect())
    }
}

fn parse_json(body: &[u8]) -> Result<Value, EndpointError> {
    serde_json::from_slice(body).map_err(|error| EndpointError::unexpected_body(SITE_NAME, error))
}

/// Returns the first sentences. A sentence ends at a punctuation mark before a space, unless it
/// follows an initial.
fn first_sentences(text: &str, most: usize) -> String {
    let mut ends = 0;
    let mut word = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, c)) = letters.next() {
        let spaced = letters.peek().is_none_or(|(_, next)| next.is_whitespace());
        let initial = c == '.' && word == 1;
        if matches!(c, '.' | '!' | '?') && spaced && !initial {
            ends += 1;
            if ends == most {
                return text.get(..=at).unwrap_or(text).to_owned();
            }
        }
        word = if c.is_alphanumeric() { word + 1 } else { 0 };
    }
    text.to_owned()
}

impl Executor for FetchWikipedia {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(async move {
            let answer = self.fetch_article(call.call().arguments.as_value()).await;
            Ok(completed_step(answer.map_err(|failed| failed.to_text())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::first_sentences;

    #[test]
    fn sentences_end_where_they_do() {
        let text = "J. R. Smith was 1.5 m tall. He ran! Did he? Yes.";
        assert_eq!(first_sentences(text, 1), "J. R. Smith was 1.5 m tall.");
        assert_eq!(first_sentences(text, 3), "J. R. Smith was 1.5 m tall. He ran! Did he?");
        assert_eq!(
            (first_sentences(text, 9), first_sentences("", 2)),
            (text.to_owned(), String::new())
        );
    }
}
