//! `/v1/search`: the tools of the caller that fit a task, ranked, within a budget of tokens.

use axum::extract::State;
use axum::routing::get;
use axum::{Extension, Json as Reply};
use identity::Principal;
use tool::display_text::truncate_and_escape_debug;
use tool::{CallerType, ErrorCode};

use server_core::body::QueryParams;
use server_core::error::ApiError;
use server_core::request_restrictions::{NO_WEB_PARAM, READ_ONLY_PARAM, TASK_TYPE_PARAM};
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;
use server_core::tool_search::{ParameterNames, SearchReply, SearchRequest};

const SEARCH_QUERY: &[QueryParam] = &[
    QueryParam {
        name: "q",
        description: "the words of a task; repeat it for several sub-tasks, at most 16, and each gets its share \
               of the results",
        schema_type: "string",
    },
    QueryParam {
        name: "k",
        description: "number of results, 1 to 100; default 5, or 3 for each query if that is more",
        schema_type: "integer",
    },
    QueryParam {
        name: "budget",
        description: "maximum number of tokens of all definitions; those that do not fit are compact or left out",
        schema_type: "integer",
    },
    READ_ONLY_PARAM,
    NO_WEB_PARAM,
    TASK_TYPE_PARAM,
];

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/v1/search",
            "Search the tools that the caller may call",
            get(search_tools),
        )
        .with_query(SEARCH_QUERY)
        .with_reply::<SearchReply>(),
    ]
}

fn parse_request(pairs: Vec<(String, String)>) -> Result<SearchRequest, ApiError> {
    let (mut queries, mut limit, mut budget) = (Vec::new(), None, None);
    for (name, value) in pairs {
        match name.as_str() {
            "q" => queries.push(value),
            "k" => limit = Some(parse_number(&name, &value)?),
            "budget" => budget = Some(parse_number(&name, &value)?),
            other => {
                let other = truncate_and_escape_debug(other, 100);
                let known = "use one of q, k, budget";
                return Err(invalid(format!("the query: unknown parameter `{other}`; {known}")));
            }
        }
    }
    let names = ParameterNames { queries: "q", limit: "k" };
    SearchRequest::new(queries, limit, budget, names).map_err(|message| {
        invalid(message).with_help("an example is `/v1/search?q=read+a+file&q=send+mail&k=4`")
    })
}

fn parse_number(name: &str, value: &str) -> Result<usize, ApiError> {
    value.parse().map_err(|_| invalid(format!("the query: `{name}` is not a whole number")))
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

async fn search_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(pairs): QueryParams<Vec<(String, String)>>,
) -> Result<Reply<SearchReply>, ApiError> {
    let request = parse_request(pairs)?;
    let view = state.components.gateway.view_for(&principal, CallerType::Direct);
    Ok(Reply(state.tool_search.search_view(&view, Some(&principal), &request).await))
}

#[cfg(test)]
mod tests {
    use server_core::tool_search::SearchRequest;

    use super::parse_request;

    fn parse(pairs: &[(&str, &str)]) -> Result<SearchRequest, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        parse_request(pairs.collect()).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn queries_repeat_and_wrong_parameters_are_named() {
        let read = parse(&[("q", "a"), ("q", "b"), ("k", "7"), ("budget", "900")]).unwrap();
        let queries = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(read, SearchRequest { queries, limit: 7, budget: Some(900) });
        for (pairs, expected) in [
            (&[][..], "`q` is missing"),
            (&[("q", "a"), ("k", "0")], "`k` must be from 1 to 100"),
            (&[("q", "a"), ("k", "many")], "`k` is not a whole number"),
            (&[("q", "a"), ("budget", "-1")], "`budget` is not a whole number"),
            (&[("q", "a"), ("limit", "1")], "unknown parameter `limit`; use one of q, k, budget"),
        ] {
            let error = parse(pairs).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
