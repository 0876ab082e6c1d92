//! Headers of 2026-07-28 that say again what the body says: `Mcp-Method`, `Mcp-Name` and, for the
//! arguments a tool's schema marks with `x-mcp-header`, `Mcp-Param-*`.

use ::mcp::header::{METHOD, Mirror, NAME, encode, name_member};
use http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::request::{Outgoing, Params};

/// A header and its value.
pub(super) type Header = (HeaderName, HeaderValue);

/// The headers of a request.
pub(super) fn headers(request: &Outgoing<'_>, mirror: Option<(&Mirror, &Value)>) -> Vec<Header> {
    let mut headers = Vec::with_capacity(4);
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::try_from(name).ok();
        let value = HeaderValue::try_from(encode(value).as_ref()).ok();
        headers.extend(name.zip(value));
    };
    add(METHOD, request.method);
    let named = match (&request.params, name_member(request.method)) {
        (Params::Tool(name, _), _) => name.read::<String>().ok(),
        (Params::Whole(params), Some(key)) => params.get(key).and_then(|name| name.read().ok()),
        (Params::Whole(_), None) => None,
    };
    if let Some(name) = named {
        add(NAME, &name);
    }
    if let Some((mirror, args)) = mirror.filter(|(mirror, _)| !mirror.is_empty()) {
        headers.extend(mirror.headers(args).into_iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        }));
    }
    headers
}

#[cfg(test)]
mod tests {
    use ::mcp::header::Mirror;
    use serde_json::json;
    use tool::Json;

    use super::headers;
    use crate::request::{Outgoing, Params};

    #[test]
    fn the_body_is_said_again() {
        let (name, args) = (Json::of("sp ace é"), Json::of(&json!({"region": "eu"})));
        let schema =
            json!({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
        let mirror = Mirror::of(&schema).unwrap();
        let call =
            Outgoing { params: Params::Tool(&name, &args), ..Outgoing::own("tools/call", &args) };
        let told = headers(&call, Some((&mirror, &args.value())));
        let told: Vec<_> = told.iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect();
        assert_eq!(
            told,
            [
                ("mcp-method", "tools/call"),
                ("mcp-name", "=?base64?c3AgYWNlIMOp?="),
                ("mcp-param-region", "eu")
            ]
        );
        let params = Json::of(&json!({"uri": "a:b", "name": "no"}));
        let told = headers(&Outgoing::own("resources/read", &params), None);
        assert_eq!(told[1].1, "a:b");
        assert_eq!(headers(&Outgoing::own("tools/list", &params), None).len(), 1);
    }
}
