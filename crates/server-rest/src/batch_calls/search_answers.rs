//! Searches in a model message: their answers in the order of the message, and their reports.

use formats::tool_search::ToolSearchResult;
use formats::{ModelAnswer, ModelRequest, ProviderFormat, ToolCallRequest, ToolSearcher};
use gateway::CatalogView;
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use server_core::error::ApiError;
use server_core::server_state::ServerState;
use server_core::tool_search::{SearchAnswer, answer_search};
use tool::ErrorCode;

/// Maximum number of searches that are answered in one message.
const MAX_SEARCHES: usize = 8;

/// One search of a model's message.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SearchReport {
    /// The provider's ID of the search.
    id: Option<String>,
    /// Queries of the model.
    queries: Vec<String>,
    /// Names of the tools that were found, the best first.
    tools: Vec<String>,
    /// Reason why the search was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The calls of a message, and its searches with their places among them.
pub(super) struct SplitRequests {
    /// The calls, in order.
    pub(super) calls: Vec<ToolCallRequest>,
    /// For each request of the message: its search, or `None` for a call.
    searches: Vec<Option<ToolCallRequest>>,
}

impl SplitRequests {
    pub(super) fn new(requests: Vec<ModelRequest>) -> Self {
        let mut split = Self { calls: Vec::new(), searches: Vec::with_capacity(requests.len()) };
        for request in requests {
            match request {
                ModelRequest::Call(call) => {
                    split.calls.push(call);
                    split.searches.push(None);
                }
                ModelRequest::Search(search) => split.searches.push(Some(search)),
            }
        }
        split
    }

    /// Answers the searches and puts each beside the calls of its message, in order.
    pub(super) async fn answer_searches<T>(
        self,
        caller: (&ServerState, &Principal),
        list: (&CatalogView, ProviderFormat),
        calls: Vec<T>,
    ) -> Vec<BatchAnswer<T>> {
        let mut calls = calls.into_iter();
        let (mut answers, mut count) = (Vec::with_capacity(self.searches.len()), 0);
        for search in self.searches {
            let Some(search) = search else {
                answers.extend(calls.next().map(BatchAnswer::Call));
                continue;
            };
            count += 1;
            answers.push(BatchAnswer::Search(if count <= MAX_SEARCHES {
                answer_search(caller, list, &search).await
            } else {
                refuse_search(&search)
            }));
        }
        answers
    }
}

fn refuse_search(search: &ToolCallRequest) -> SearchAnswer {
    let message = format!(
        "a message has at most {MAX_SEARCHES} searches; repeat this one in the next message"
    );
    let result = ToolSearchResult { id: search.id.clone(), found: Err(message) };
    SearchAnswer { result, queries: Vec::new(), tools: Vec::new() }
}

/// The answer to one request of a message.
pub(super) enum BatchAnswer<T> {
    /// An executed call.
    Call(T),
    /// An answered search.
    Search(SearchAnswer),
}

/// Splits the answer to a search into the result for the model and the report for the caller.
pub(super) fn split_search(answer: SearchAnswer) -> (ModelAnswer, SearchReport) {
    let SearchAnswer { result, queries, tools } = answer;
    let error = result.found.as_ref().err().cloned();
    let report = SearchReport { id: result.id.clone(), queries, tools, error };
    (ModelAnswer::Search(result), report)
}

/// Checks the word of the parameter `search` of a model message.
pub(super) fn parse_search(word: Option<&str>, format: ProviderFormat) -> Result<bool, ApiError> {
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
    let Some(word) = word else { return Ok(false) };
    if word.parse() != Ok(ToolSearcher::Toolkeep) {
        let message = "`search` of a call must be `toolkeep`: a provider answers its own searches";
        return Err(invalid(message.to_owned()));
    }
    let checked = ToolSearcher::Toolkeep.check_format(format);
    checked.map(|()| true).map_err(|error| invalid(error.to_string()))
}
