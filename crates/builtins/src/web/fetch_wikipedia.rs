//! `fetch_wikipedia`: returns the first sentences of an article, found by its title or by a search.

use std::time::Duration;

use egress::Egress;
use http::StatusCode;
use serde_json::{Value, json};
use tool::{Boxed, Context, ExecuteError, Executor, Granted, Step};

use super::Endpoints;
use super::ask::{Endpoint, Failed, encoded};
use tool_manifest::{Bound, Registry};
use tool_manifest::{Builtin, ended};

/// Timeout of one request (spec 3's number).
const LIMIT: Duration = Duration::from_secs(10);
/// Largest number of returned categories.
const CATEGORIES: usize = 20;
const WHO: &str = "Wikipedia";

pub(crate) fn builtin(
    registry: &Registry,
    egress: Egress,
    endpoints: &Endpoints,
) -> Option<Builtin> {
    let declared = registry.get("fetch_wikipedia")?;
    let sentences = declared.bound("sentences");
    let at = endpoints.wikipedia.clone();
    Some(declared.run_by(FetchWikipedia { egress, at, sentences }))
}

#[derive(Debug)]
struct FetchWikipedia {
    egress: Egress,
    at: Endpoint,
    sentences: Bound,
}

impl FetchWikipedia {
    async fn fetch(&self, args: &Value) -> Result<Value, Failed> {
        let asked = args.get("title").and_then(Value::as_str).unwrap_or_default().trim();
        let page = if let Some(page) = self.summary(asked).await? {
            page
        } else {
            let none = || Failed {
                kind: "not_found",
                what: "Wikipedia has no such article, and its search finds none".to_owned(),
            };
            let title = self.found(asked).await?.ok_or_else(none)?;
            self.summary(&title).await?.ok_or_else(none)?
        };
        let text = |at: &str| page.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let title = text("/title").to_owned();
        let most = self.sentences.size(args, "sentences");
        let mut answer = json!({
            "title": title,
            "summary": first(text("/extract"), most),
            "url": text("/content_urls/desktop/page"),
        });
        let (categories, warning) = match self.categories(&title).await {
            Ok(categories) => (categories, None),
            Err(failed) => (Vec::new(), Some(failed.told())),
        };
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("categories".to_owned(), json!(categories));
            let warning = warning.map(|why| format!("the categories could not be read: {why}"));
            fields.extend(warning.map(|warning| ("warning".to_owned(), Value::String(warning))));
        }
        Ok(answer)
    }

    /// Fetches the summary of the article with this exact title; follows redirects.
    async fn summary(&self, title: &str) -> Result<Option<Value>, Failed> {
        let title = encoded(&title.replace(' ', "_"));
        let path = format!("/api/rest_v1/page/summary/{title}?redirect=true");
        let (status, body) = self.at.get(&self.egress, &path, LIMIT).await?;
        match status {
            StatusCode::OK => read(&body).map(Some),
            // An empty title returns status 400.
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => Ok(None),
            other => Err(Failed::status(WHO, other)),
        }
    }

    /// Returns the title of the first search result.
    async fn found(&self, asked: &str) -> Result<Option<String>, Failed> {
        let asked = encoded(asked);
        let path =
            format!("/w/api.php?action=query&list=search&srsearch={asked}&srlimit=1&format=json");
        let (status, body) = self.at.get(&self.egress, &path, LIMIT).await?;
        if status != StatusCode::OK {
            return Err(Failed::status(WHO, status));
        }
        let found = read(&body)?;
        Ok(found.pointer("/query/search/0/title").and_then(Value::as_str).map(str::to_owned))
    }

    async fn categories(&self, title: &str) -> Result<Vec<String>, Failed> {
        let title = encoded(title);
        let path = format!(
            "/w/api.php?action=query&prop=categories&clshow=!hidden&cllimit={CATEGORIES}&titles={title}\
             &redirects=1&format=json&formatversion=2"
        );
        let (status, body) = self.at.get(&self.egress, &path, LIMIT).await?;
        if status != StatusCode::OK {
            return Err(Failed::status(WHO, status));
        }
        let found = read(&body)?;
        let all = found.pointer("/query/pages/0/categories").and_then(Value::as_array);
        let title = |it: &Value| it.get("title").and_then(Value::as_str).map(str::to_owned);
        let bare =
            |name: String| name.split_once(':').map_or(name.clone(), |(_, it)| it.to_owned());
        Ok(all.into_iter().flatten().filter_map(title).map(bare).take(CATEGORIES).collect())
    }
}

fn read(body: &[u8]) -> Result<Value, Failed> {
    serde_json::from_slice(body).map_err(|error| Failed::unread(WHO, error))
}

/// Returns the first sentences. A sentence ends at a punctuation mark before a space, unless it
/// follows an initial.
fn first(text: &str, most: usize) -> String {
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
        call: Granted<'a>,
        _ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(async move {
            let answer = self.fetch(call.call().args.value()).await;
            Ok(ended(answer.map_err(|failed| failed.told())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::first;

    #[test]
    fn sentences_end_where_they_do() {
        let text = "J. R. Smith was 1.5 m tall. He ran! Did he? Yes.";
        assert_eq!(first(text, 1), "J. R. Smith was 1.5 m tall.");
        assert_eq!(first(text, 3), "J. R. Smith was 1.5 m tall. He ran! Did he?");
        assert_eq!((first(text, 9), first("", 2)), (text.to_owned(), String::new()));
    }
}
