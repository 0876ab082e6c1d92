//! The tool with which a model searches: its name, description and arguments, for search mode and
//! for provider formats.

use search::MAX_RESULTS;
use serde::Deserialize;
use serde_json::json;
use tool::Json;

use super::search_request::{ParameterNames, SearchRequest};

/// Description of the search tool. Its interface adds how a result is called.
pub const SEARCH_DESCRIPTION: &str = "Searches the tools that you can call and returns the best ones with their \
    input schemas. Use it before you say that something cannot be done. Pass one query per sub-task, each with a verb \
    and an object, such as [\"read a csv file\", \"draw a bar chart\"].";
/// Tokens of definitions in the result of a search without a budget.
const DEFAULT_BUDGET: usize = 3_000;

/// The JSON Schema of the arguments.
pub fn search_parameters() -> Json {
    Json::encode(&json!({
        "type": "object",
        "properties": {
            "queries": {
                "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 16,
                "description": "One query per sub-task."
            },
            "limit": {
                "type": "integer", "minimum": 1, "maximum": MAX_RESULTS,
                "description": "Number of results; default 5, or 3 for each query if that is more."
            },
            "budget": {
                "type": "integer", "minimum": 1,
                "description": "Maximum tokens of all definitions; default 3000."
            }
        },
        "required": ["queries"],
        "additionalProperties": false
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    queries: Vec<String>,
    limit: Option<usize>,
    budget: Option<usize>,
}

impl SearchRequest {
    /// Reads the arguments of the search tool.
    ///
    /// # Errors
    /// One sentence for the model, with the argument and its limit.
    pub fn from_arguments(arguments: &Json) -> Result<Self, String> {
        let SearchArguments { queries, limit, budget } =
            arguments.decode().map_err(|error| error.to_string())?;
        let names = ParameterNames { queries: "queries", limit: "limit" };
        Self::new(queries, limit, Some(budget.unwrap_or(DEFAULT_BUDGET)), names)
    }
}
