//! HTTP headers of MCP 2026-07-28 that repeat parts of the body: `Mcp-Method`, `Mcp-Name`, and
//! `Mcp-Param-*` for arguments that the tool's schema marks with `x-mcp-header`.

use ::mcp::headers::{ArgumentHeaders, METHOD, NAME, encode_value, name_header_param};
use http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::outgoing_request::{OutgoingRequest, RequestParams};

/// Name and value of a header.
pub(super) type HeaderPair = (HeaderName, HeaderValue);

/// Builds the headers that a request repeats from its body.
pub(super) fn build_request_headers(
    request: &OutgoingRequest<'_>,
    argument_headers: Option<(&ArgumentHeaders, &Value)>,
) -> Vec<HeaderPair> {
    let mut headers = Vec::with_capacity(4);
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::try_from(name).ok();
        let value = HeaderValue::try_from(encode_value(value).as_ref()).ok();
        headers.extend(name.zip(value));
    };
    add(METHOD, request.method);
    let named = match (&request.params, name_header_param(request.method)) {
        (RequestParams::ToolCall(name, _), _) => name.decode::<String>().ok(),
        (RequestParams::Object(params), Some(key)) => {
            params.get(key).and_then(|name| name.decode().ok())
        }
        (RequestParams::Object(_), None) => None,
    };
    if let Some(name) = named {
        add(NAME, &name);
    }
    if let Some((mirror, args)) = argument_headers.filter(|(mirror, _)| !mirror.is_empty()) {
        headers.extend(mirror.to_headers(args).into_iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        }));
    }
    headers
}

#[cfg(test)]
mod tests {
    use ::mcp::headers::ArgumentHeaders;
    use serde_json::json;
    use tool::Json;

    use super::build_request_headers;
    use crate::outgoing_request::{OutgoingRequest, RequestParams};

    #[test]
    fn the_body_is_said_again() {
        let (name, args) = (Json::encode("sp ace é"), Json::encode(&json!({"region": "eu"})));
        let schema =
            json!({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
        let mirror = ArgumentHeaders::from_schema(&schema).unwrap();
        let call = OutgoingRequest {
            params: RequestParams::ToolCall(&name, &args),
            ..OutgoingRequest::internal("tools/call", &args)
        };
        let told = build_request_headers(&call, Some((&mirror, &args.to_value())));
        let told: Vec<_> = told.iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect();
        assert_eq!(
            told,
            [
                ("mcp-method", "tools/call"),
                ("mcp-name", "=?base64?c3AgYWNlIMOp?="),
                ("mcp-param-region", "eu")
            ]
        );
        let params = Json::encode(&json!({"uri": "a:b", "name": "no"}));
        let told =
            build_request_headers(&OutgoingRequest::internal("resources/read", &params), None);
        assert_eq!(told[1].1, "a:b");
        assert_eq!(
            build_request_headers(&OutgoingRequest::internal("tools/list", &params), None).len(),
            1
        );
    }
}
