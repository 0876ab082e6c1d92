//! Search in the lists of model providers: which tools a list defers, and the answer to a search
//! that a model asks for.

use catalog::CatalogEntry;
use formats::tool_search::{
    FoundTool, SEARCH_TOOLS, SearchToolText, SearchableTool, ToolSearchResult,
    join_searchable_tools,
};
use formats::{ProviderFormat, ToolCallRequest, ToolSearcher};
use gateway::CatalogView;
use identity::Principal;
use option_types::ListingOptions;
use search::count_tokens;
use tool::Json;

use super::search_request::SearchRequest;
use super::search_tool::{SEARCH_DESCRIPTION, search_parameters};
use super::tool_deferral::ToolDeferral;
use crate::program_runner::describe_run_program;
use crate::server_state::ServerState;
use crate::tool_lists::NameStyle;

/// Maximum number of tools in a list with search. It is Anthropic's limit.
pub const MAX_SEARCHABLE_TOOLS: usize = 10_000;

/// A provider's list of which most tools are deferred.
#[derive(Debug)]
pub struct DeferringList<'v> {
    format: ProviderFormat,
    searcher: ToolSearcher,
    deferral: ToolDeferral<'v>,
}

impl<'v> DeferringList<'v> {
    /// Creates the list of a view.
    pub fn new(
        options: &ListingOptions,
        view: &'v CatalogView,
        (format, searcher): (ProviderFormat, ToolSearcher),
    ) -> Self {
        Self { format, searcher, deferral: ToolDeferral::new(options, view, true) }
    }

    /// Whether the model gets this tool only after a search.
    fn is_deferred(&self, entry: &CatalogEntry) -> bool {
        self.deferral.is_deferred(entry)
    }

    /// Whether the list contains this tool. Deferred ones may come with the results of searches.
    pub fn contains(&self, entry: &CatalogEntry) -> bool {
        self.searcher.lists_deferred(self.format) || !self.is_deferred(entry)
    }

    /// Returns the reason why a tool with this alias has no place in the list.
    pub fn reserved_name(&self, alias: &str) -> Option<&'static str> {
        let reserved = self.searcher.reserved_name(self.format)?;
        (reserved == alias).then_some("the search tool of the list has this name")
    }

    /// Joins the tools of the list, with the search tool if there is anything to search.
    pub fn join_tools<'t>(
        &self,
        view: &CatalogView,
        tools: &[(&'t CatalogEntry, &'t Json)],
    ) -> Json {
        let searchable = |(entry, json): &(&'t CatalogEntry, &'t Json)| SearchableTool {
            json,
            source: entry.tool_key.source.as_str(),
            is_deferred: self.is_deferred(entry),
        };
        let listed: Vec<_> = tools.iter().map(searchable).collect();
        let has_deferred = if self.searcher.lists_deferred(self.format) {
            listed.iter().any(|tool| tool.is_deferred)
        } else {
            view.list_tools().any(|entry| self.is_deferred(entry))
        };
        if !has_deferred {
            return formats::join_tools(self.format, listed.iter().map(|tool| tool.json));
        }
        let description = format!("{SEARCH_DESCRIPTION} Then call a result.");
        let parameters = search_parameters();
        let text = SearchToolText { description: &description, parameters: &parameters };
        join_searchable_tools((self.format, self.searcher), &listed, &text)
    }
}

/// The answer to a search that a model asked for.
#[derive(Debug)]
pub struct SearchAnswer {
    /// The result for the model.
    pub result: ToolSearchResult,
    /// The queries of the model.
    pub queries: Vec<String>,
    /// Names of the tools in the result.
    pub tools: Vec<String>,
}

/// Answers a search that a model asked for, with the best tools of the view in the format of its
/// provider.
pub async fn answer_search(
    (state, principal): (&ServerState, &Principal),
    (view, format): (&CatalogView, ProviderFormat),
    call: &ToolCallRequest,
) -> SearchAnswer {
    let id = call.id.clone();
    let read = call.parse_arguments();
    match read.and_then(|arguments| SearchRequest::from_arguments(arguments.as_json())) {
        Ok(request) => {
            let found = find_rendered((state, principal), (view, format), &request).await;
            let (tools, found) = found.into_iter().unzip();
            let result = ToolSearchResult { id, found: Ok(found) };
            SearchAnswer { result, queries: request.queries, tools }
        }
        Err(message) => {
            let message = format!("arguments of `{SEARCH_TOOLS}`: {message}");
            let result = ToolSearchResult { id, found: Err(message) };
            SearchAnswer { result, queries: Vec::new(), tools: Vec::new() }
        }
    }
}

/// Searches a view and renders the results, with their names: the best one, and those after it that
/// fit the budget. A tool that the list of the request has without a search is no result.
async fn find_rendered(
    (state, principal): (&ServerState, &Principal),
    (view, format): (&CatalogView, ProviderFormat),
    request: &SearchRequest,
) -> Vec<(String, FoundTool)> {
    let options = &state.components.listing_options;
    let list = DeferringList::new(options, view, (format, ToolSearcher::Toolkeep));
    let rendered = state.tool_lists.render_view(view, format, NameStyle::Safe);
    let wider =
        SearchRequest { limit: request.limit + list.deferral.max_loaded(), ..request.clone() };
    let (entries, learning) = state.tool_search.find_tools(view, (principal, &wider)).await;
    let entries = entries.into_iter().filter(|(entry, _)| list.is_deferred(entry));
    let found = entries.filter_map(|(entry, query)| {
        let name = entry.name.as_str();
        let alias = rendered.names.alias_of(name).unwrap_or(name).to_owned();
        if list.reserved_name(&alias).is_some() {
            return None;
        }
        let own = describe_run_program((state, principal), &entry, (format, &alias));
        let json = own.or_else(|| rendered.tool_json(&entry))?;
        let source = entry.tool_key.source.to_string();
        Some(((entry, query), FoundTool { json, name: alias, source }))
    });
    let mut left = request.budget.unwrap_or(usize::MAX);
    let mut fitting = Vec::new();
    for (entry, tool) in found.take(request.limit) {
        let rest = left.checked_sub(count_tokens(tool.json.as_str()));
        if rest.is_some() || fitting.is_empty() {
            left = rest.unwrap_or_default();
            fitting.push((entry, tool));
        }
    }
    if let Some(learning) = learning {
        learning.remember(fitting.iter().map(|((entry, query), _)| (&entry.tool_key, *query)));
    }
    fitting.into_iter().map(|((entry, _), tool)| (entry.name.to_string(), tool)).collect()
}
