//! One search with its limits, and its reply, for all interfaces.

use std::sync::Arc;

use catalog::CatalogEntry;
use gateway::CatalogView;
use identity::Principal;
use schemars::JsonSchema;
use search::{
    MAX_QUERIES, MAX_QUERY_BYTES, MAX_RESULTS, PackedTool, PackingBudget, QueryVectors, TermMatch,
    pack_results,
};
use serde::Serialize;
use tool::Json;

use super::search_learning::LearningSearch;
use super::{FoundTool, SearchIndexCache, ViewIndex};

/// Number of results of a request without a limit that has one query.
const DEFAULT_RESULTS: usize = 5;
/// Number of results of each query, in a request without a limit that has several: a task of many
/// steps would get less than one tool for each.
const DEFAULT_RESULTS_OF_EACH: usize = 3;

/// A search for tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchRequest {
    /// Queries, one for each sub-task.
    pub queries: Vec<String>,
    /// Maximum number of results.
    pub limit: usize,
    /// Maximum number of tokens of all definitions; absent: no limit.
    pub budget: Option<usize>,
}

/// Names of the parameters in one interface, for errors.
#[derive(Debug, Clone, Copy)]
pub struct ParameterNames {
    /// Name of the queries.
    pub queries: &'static str,
    /// Name of the limit.
    pub limit: &'static str,
}

impl SearchRequest {
    /// Creates a request within the limits; without a limit, each of several queries gets its share.
    ///
    /// # Errors
    /// One sentence with the parameter and its limit.
    pub fn new(
        queries: Vec<String>,
        limit: Option<usize>,
        budget: Option<usize>,
        names: ParameterNames,
    ) -> Result<Self, String> {
        let ParameterNames { queries: queries_name, limit: limit_name } = names;
        if queries.iter().all(|query| query.trim().is_empty()) {
            return Err(format!("the parameter `{queries_name}` is missing or empty"));
        }
        if queries.len() > MAX_QUERIES {
            return Err(format!("`{queries_name}` has more than {MAX_QUERIES} queries"));
        }
        if queries.iter().any(|query| query.len() > MAX_QUERY_BYTES) {
            return Err(format!(
                "a query in `{queries_name}` is longer than {MAX_QUERY_BYTES} bytes"
            ));
        }
        let limit =
            limit.unwrap_or_else(|| DEFAULT_RESULTS.max(queries.len() * DEFAULT_RESULTS_OF_EACH));
        if !(1..=MAX_RESULTS).contains(&limit) {
            return Err(format!("`{limit_name}` must be from 1 to {MAX_RESULTS}"));
        }
        Ok(Self { queries, limit, budget })
    }
}

/// The tools that fit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchReply {
    /// Results, the best first.
    results: Vec<SearchResult>,
    /// Estimated tokens of all definitions in the results.
    tokens: usize,
    /// Number of further results whose definitions exceed the budget.
    left_out: usize,
    /// Name and dimensions of the sentence model that ranked too; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Version of the catalog.
    catalog: u64,
}

/// A tool that fits.
#[derive(Debug, Serialize, JsonSchema)]
struct SearchResult {
    /// Name of the tool.
    name: String,
    /// Source of the tool.
    source: String,
    /// Score among the results of its query, 0 to 1; 1 is the best.
    score: f64,
    /// Index of the query that found it.
    query: usize,
    /// Words of the query that the tool matches; empty if only the meaning does.
    why: Vec<MatchedWord>,
    /// Form of the definition: `full`, or `compact` with the first sentence and required parameters.
    form: &'static str,
    /// Estimated tokens of the definition.
    tokens: usize,
    /// Definition with `name`, `description` and `inputSchema`.
    #[schemars(with = "serde_json::Value")]
    definition: Json,
}

/// A word that matches.
#[derive(Debug, Serialize, JsonSchema)]
struct MatchedWord {
    /// Word of the query.
    word: String,
    /// Word of a name that was searched instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    correction: Option<String>,
    /// Fields with the word: `name`, `title`, `description`, `parameter_name`, `parameter_text`,
    /// `source`.
    fields: Vec<&'static str>,
    /// True if the tool was called after queries with this word, by callers of the own organisation, which raised it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    learned: bool,
}

impl SearchIndexCache {
    /// Returns the vectors of queries by the sentence model; `None` without them.
    async fn embed_queries(&self, queries: &[String]) -> Option<Vec<Option<QueryVectors>>> {
        self.sentences.as_ref()?.embed_queries(queries).await
    }

    /// Searches an index, with what the caller's organisation learned. The caller remembers what the reply contains.
    fn search_index<'i, 'a>(
        &'a self,
        index: &'i ViewIndex,
        (principal, request): (Option<&'a Principal>, &SearchRequest),
        vectors: Option<&[Option<QueryVectors>]>,
    ) -> (Vec<FoundTool<'i>>, Option<LearningSearch<'a>>) {
        let sentences = self.sentences.as_deref().zip(vectors);
        let learning = self.learning.as_deref().zip(principal);
        let learning = learning.and_then(|(it, caller)| it.begin_search(caller, &request.queries));
        let learned = learning.as_ref().filter(|it| it.has_evidence()).map(|it| {
            let positions = index.tool_positions();
            it.learned_terms(|tool| index.position_of(positions, tool))
        });
        let learned = learned.unwrap_or_default();
        let found = index.search(&request.queries, request.limit, sentences, &learned);
        if sentences.is_some() {
            // The search may have read vectors, which count too.
            self.evict_indexes();
        }
        (found, learning)
    }

    /// Searches the view of a caller and returns the tools, the best first, with the indexes of their queries. The
    /// caller remembers what its reply contains.
    pub(super) async fn find_tools<'a>(
        &'a self,
        view: &CatalogView,
        (principal, request): (&'a Principal, &SearchRequest),
    ) -> (Vec<(Arc<CatalogEntry>, usize)>, Option<LearningSearch<'a>>) {
        let vectors = self.embed_queries(&request.queries).await;
        let index = self.index_of(view);
        let (found, learning) =
            self.search_index(&index, (Some(principal), request), vectors.as_deref());
        let tools = found.into_iter().map(|it| (Arc::clone(it.entry), it.hit.query));
        (tools.collect(), learning)
    }

    /// Searches a view and fits the definitions into the budget. Without its caller nothing is learned, and
    /// nothing that was learned counts.
    pub async fn search_view(
        &self,
        view: &CatalogView,
        principal: Option<&Principal>,
        request: &SearchRequest,
    ) -> SearchReply {
        let vectors = self.embed_queries(&request.queries).await;
        let index = self.index_of(view);
        let (found, learning) = self.search_index(&index, (principal, request), vectors.as_deref());
        let model = self.sentences.as_ref().filter(|_| vectors.is_some());
        let tools = found.iter().map(|it| (it.entry.name.as_str(), &*it.entry.tool));
        let packed = pack_results(tools, PackingBudget { tokens: request.budget });
        if let Some(learning) = learning {
            let shown = packed.iter().filter_map(|it| found.get(it.index));
            learning.remember(shown.map(|it| (&it.entry.tool_key, it.hit.query)));
        }
        let left_out = found.len() - packed.len();
        let tokens = packed.iter().map(|it| it.tokens).sum();
        let results = packed.into_iter();
        let results = results.filter_map(|it| Some(search_result(found.get(it.index)?, it)));
        SearchReply {
            results: results.collect(),
            tokens,
            left_out,
            model: model.map(|it| it.model_label()),
            catalog: view.full_catalog().version,
        }
    }
}

fn search_result(found: &FoundTool<'_>, packed: PackedTool) -> SearchResult {
    let FoundTool { entry, hit } = found;
    SearchResult {
        name: entry.name.to_string(),
        source: entry.tool_key.source.to_string(),
        score: (f64::from(hit.score) * 1e3).round() / 1e3,
        query: hit.query,
        why: hit.matches.iter().map(matched_word).collect(),
        form: packed.form.as_str(),
        tokens: packed.tokens,
        definition: packed.definition,
    }
}

fn matched_word(it: &TermMatch) -> MatchedWord {
    MatchedWord {
        word: it.word.clone(),
        correction: it.correction.clone(),
        fields: it.fields.iter().map(|field| field.as_str()).collect(),
        learned: it.is_learned,
    }
}

#[cfg(test)]
mod tests {
    use super::{ParameterNames, SearchRequest};

    #[test]
    fn limits_are_named_with_their_parameter() {
        let names = ParameterNames { queries: "q", limit: "k" };
        let check = |queries: Vec<&str>, limit| {
            let queries = queries.into_iter().map(str::to_owned).collect();
            SearchRequest::new(queries, limit, None, names)
        };
        assert!(check(vec!["a", "b"], Some(100)).is_ok());
        let default_limit = |queries| check(vec!["a"; queries], None).unwrap().limit;
        assert_eq!([1, 2, 16].map(default_limit), [5, 6, 48]);
        let long = "x".repeat(4_097);
        for (queries, limit, expected) in [
            (vec![], 1, "the parameter `q` is missing or empty"),
            (vec![" "], 1, "the parameter `q` is missing or empty"),
            (vec!["a"; 17], 1, "`q` has more than 16 queries"),
            (vec![long.as_str()], 1, "a query in `q` is longer than 4096 bytes"),
            (vec!["a"], 0, "`k` must be from 1 to 100"),
            (vec!["a"], 101, "`k` must be from 1 to 100"),
        ] {
            assert_eq!(check(queries, Some(limit)).unwrap_err(), expected);
        }
    }
}
