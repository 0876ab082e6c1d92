//! Search in lists whose tools are deferred: the lists, the searches that a model asks its caller
//! for, and their results.
//!
//! Either the provider searches the definitions of the request, or the model asks with a call and
//! Toolkeep answers with tools. Shapes are those of the OpenAI guide "Tool search" with the SDK
//! openai 3.54.0, and of the Anthropic page "Tool search tool" with the SDK anthropic 2.12.0.

use std::str::FromStr;

use tool::Json;

use crate::tool_calls::{ParseCallsError, ToolCallRequest, ToolCallResult};
use crate::{ProviderFormat, anthropic, openai_responses};

/// Name of the tool with which a model asks Toolkeep to search.
pub const SEARCH_TOOLS: &str = "search_tools";

/// Searcher of the deferred tools of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolSearcher {
    /// The provider: OpenAI's hosted search, or Anthropic's search by words (BM25).
    Provider,
    /// Anthropic, by regular expressions that the model writes.
    ProviderRegex,
    /// Toolkeep, which answers the searches of the model.
    Toolkeep,
}

/// All searchers with their names.
const SEARCHER_NAMES: [(ToolSearcher, &str); 3] = [
    (ToolSearcher::Provider, "provider"),
    (ToolSearcher::ProviderRegex, "provider_regex"),
    (ToolSearcher::Toolkeep, "toolkeep"),
];

impl FromStr for ToolSearcher {
    type Err = ToolSearchError;

    fn from_str(word: &str) -> Result<Self, ToolSearchError> {
        let found = SEARCHER_NAMES.iter().find(|(_, name)| *name == word);
        found
            .map(|(searcher, _)| *searcher)
            .ok_or_else(|| ToolSearchError::UnknownSearcher { name: word.to_owned() })
    }
}

/// Error of a searcher.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolSearchError {
    /// The name is unknown.
    #[error("unknown search `{}`; use provider, provider_regex or toolkeep", name.escape_debug())]
    UnknownSearcher {
        /// The word.
        name: String,
    },
    /// The provider has no tool search.
    #[error("{0} has no tool search; use openai_responses, openai_responses_strict or anthropic")]
    UnsupportedFormat(ProviderFormat),
    /// The provider does not search by regular expressions.
    #[error("{0} has no search by regular expressions; use `provider`")]
    NoRegex(ProviderFormat),
}

impl ToolSearcher {
    /// Checks that the provider of `format` has this search.
    ///
    /// # Errors
    /// One sentence with what to use instead.
    pub fn check_format(self, format: ProviderFormat) -> Result<(), ToolSearchError> {
        match (format, self) {
            (ProviderFormat::Anthropic, _) => Ok(()),
            (ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict, searcher) => {
                match searcher {
                    Self::ProviderRegex => Err(ToolSearchError::NoRegex(format)),
                    Self::Provider | Self::Toolkeep => Ok(()),
                }
            }
            (other, _) => Err(ToolSearchError::UnsupportedFormat(other)),
        }
    }

    /// Whether the definitions of deferred tools are part of the list. If not, they are sent with
    /// the result of a search.
    pub fn lists_deferred(self, format: ProviderFormat) -> bool {
        self != Self::Toolkeep || format == ProviderFormat::Anthropic
    }

    /// Returns the name that the search tool takes in a list; a tool of this name has to be left
    /// out.
    pub fn reserved_name(self, format: ProviderFormat) -> Option<&'static str> {
        let own = anthropic::provider_search_tool(self).map_or(SEARCH_TOOLS, |(_, name)| name);
        (format == ProviderFormat::Anthropic).then_some(own)
    }
}

/// A rendered tool of a list with search.
#[derive(Debug, Clone, Copy)]
pub struct SearchableTool<'a> {
    /// The rendered tool.
    pub json: &'a Json,
    /// Name of its source. OpenAI gets one namespace per source.
    pub source: &'a str,
    /// Whether the model gets the tool only after a search.
    pub is_deferred: bool,
}

/// The description of the search tool that a model calls if Toolkeep searches.
#[derive(Debug, Clone, Copy)]
pub struct SearchToolText<'a> {
    /// Description for the model.
    pub description: &'a str,
    /// JSON Schema of the arguments.
    pub parameters: &'a Json,
}

/// Joins rendered tools to the `tools` of a request, with the search tool. Formats that
/// [`ToolSearcher::check_format`] refuses get the tools without one.
pub fn join_searchable_tools(
    (format, searcher): (ProviderFormat, ToolSearcher),
    tools: &[SearchableTool<'_>],
    text: &SearchToolText<'_>,
) -> Json {
    match format {
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            openai_responses::join_searchable_tools(searcher, tools, text)
        }
        ProviderFormat::Anthropic => anthropic::join_searchable_tools(searcher, tools, text),
        _ => crate::join_tools(format, tools.iter().map(|tool| tool.json)),
    }
}

/// A call of a tool, or a search that the caller has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelRequest {
    /// A call of a tool.
    Call(ToolCallRequest),
    /// A search, with the arguments of the search tool.
    Search(ToolCallRequest),
}

/// A tool that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTool {
    /// The rendered tool.
    pub json: Json,
    /// Name in the format.
    pub name: String,
    /// Name of its source.
    pub source: String,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSearchResult {
    /// The provider's id of the search.
    pub id: Option<String>,
    /// The tools, the best first, or the error as text for the model.
    pub found: Result<Vec<FoundTool>, String>,
}

/// The result of a [`ModelRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelAnswer {
    /// The result of a call.
    Call(ToolCallResult),
    /// The result of a search.
    Search(ToolSearchResult),
}

/// Parses the calls of a model's message and the searches that the caller has to answer, in order.
/// Searches that the provider answered are ignored.
///
/// # Errors
/// As [`parse_calls`](crate::parse_calls).
pub fn parse_requests(
    format: ProviderFormat,
    message: &Json,
) -> Result<Vec<ModelRequest>, ParseCallsError> {
    match format {
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            openai_responses::parse_requests(message)
        }
        ProviderFormat::Anthropic => {
            let calls = anthropic::parse_calls(message)?.into_iter();
            let request = |call: ToolCallRequest| match call.name.as_str() {
                SEARCH_TOOLS => ModelRequest::Search(call),
                _ => ModelRequest::Call(call),
            };
            Ok(calls.map(request).collect())
        }
        _ => {
            let calls = crate::parse_calls(format, message)?;
            Ok(calls.into_iter().map(ModelRequest::Call).collect())
        }
    }
}

/// Renders the messages with the results of calls and searches, in order. Formats without tool
/// search have calls alone.
pub fn render_answers(format: ProviderFormat, answers: &[ModelAnswer]) -> Json {
    match format {
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            let item = |answer: &ModelAnswer| match answer {
                ModelAnswer::Call(result) => openai_responses::render_result(result),
                ModelAnswer::Search(result) => openai_responses::render_search_result(result),
            };
            Json::array_of(&answers.iter().map(item).collect::<Vec<_>>())
        }
        ProviderFormat::Anthropic if answers.is_empty() => Json::array_of([]),
        ProviderFormat::Anthropic => Json::array_of([&anthropic::render_answers(answers)]),
        _ => {
            let result = |answer: &ModelAnswer| match answer {
                ModelAnswer::Call(result) => Some(result.clone()),
                ModelAnswer::Search(_) => None,
            };
            crate::render_results(format, &answers.iter().filter_map(result).collect::<Vec<_>>())
        }
    }
}

/// Groups tools by source: sources in the order of their first tool, tools in the given order.
pub(crate) fn group_by_source<'a>(
    tools: impl Iterator<Item = (&'a str, Json)>,
) -> Vec<(&'a str, Vec<Json>)> {
    let mut groups: Vec<(&str, Vec<Json>)> = Vec::new();
    let mut positions = std::collections::HashMap::new();
    for (source, tool) in tools {
        let at = *positions.entry(source).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, tools)) => tools.push(tool),
            None => groups.push((source, vec![tool])),
        }
    }
    groups
}
