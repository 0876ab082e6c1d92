//! Requests that a server sends to the client of a call.

use ::mcp::extensions::AllowedExtensions;
use ::mcp::{RpcError, error_codes};
use tool::Json;
use tool::executor::{ClientCapabilities, ClientRequestError, ClientRequester};

/// Methods that are forwarded, each with the client capability that it requires.
const FORWARDED_METHODS: [(&str, &str); 3] = [
    ("elicitation/create", "elicitation"),
    ("sampling/createMessage", "sampling"),
    ("roots/list", "roots"),
];

/// Whether a request of this method is forwarded to clients.
pub(super) fn is_forwarded(method: &str) -> bool {
    FORWARDED_METHODS.iter().any(|(asked, _)| *asked == method)
}

/// Whether the client declared support for this method.
pub(super) fn client_supports(client: &ClientCapabilities, method: &str) -> bool {
    let Some((_, capability)) = FORWARDED_METHODS.iter().find(|(asked, _)| *asked == method) else {
        return false;
    };
    match &client.raw {
        Some(declared) => declared.get(capability).is_some_and(|said| said.kind() == "object"),
        None => has_capability_flag(client, capability),
    }
}

fn has_capability_flag(client: &ClientCapabilities, capability: &str) -> bool {
    match capability {
        "elicitation" => client.supports_elicitation,
        "sampling" => client.supports_sampling,
        _ => client.supports_roots,
    }
}

/// Error for a 2026-07-28 client that did not declare the capability which this method requires.
pub(super) fn missing_capability_error(method: &str) -> RpcError {
    let needed = FORWARDED_METHODS.iter().find(|(asked, _)| *asked == method);
    let needed = needed.map_or("", |(_, capability)| capability);
    let message = format!(
        "the server requests input through `{method}`; declare the capability \
        `{needed}`"
    );
    let data = serde_json::json!({"requiredCapabilities": {needed: {}}});
    RpcError {
        data: Some(Json::encode(&data)),
        ..RpcError::new(error_codes::MISSING_CAPABILITY, message)
    }
}

/// Client capabilities for a 2026-07-28 server: the forwarded ones and the allowed extensions, as the
/// client declared them.
pub(super) fn forwarded_capabilities(
    client: &ClientCapabilities,
    extensions: &AllowedExtensions,
) -> Json {
    let empty = Json::empty_object();
    let names = FORWARDED_METHODS.map(|(_, capability)| capability);
    let capabilities = match &client.raw {
        Some(declared) => declared.pick(names),
        None => names.map(|name| has_capability_flag(client, name).then(|| empty.clone())),
    };
    let told: Vec<_> = names
        .into_iter()
        .zip(capabilities)
        .filter_map(|(name, said)| Some((name, said?)))
        .collect();
    let forwarded = Json::object_from(told.iter().map(|(name, said)| (*name, said)));
    let declared = client.raw.as_ref().and_then(|raw| raw.get("extensions"));
    match extensions.select(declared.as_ref()) {
        Some(extensions) => forwarded.with_member("extensions", &extensions),
        None => forwarded,
    }
}

/// Sends the request to the client. A client that refuses or is gone yields an error for the
/// server.
pub(super) async fn request_input(
    client: &dyn ClientRequester,
    method: &str,
    params: Option<&Json>,
) -> Result<Json, RpcError> {
    let params = params.cloned().unwrap_or_else(Json::empty_object);
    client.send_request(method, params).await.map_err(|why| match why {
        ClientRequestError::Refused { code, message } => RpcError::new(code, message),
        ClientRequestError::Unavailable => {
            RpcError::new(error_codes::INTERNAL_ERROR, why.to_string())
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;
    use tool::executor::ClientCapabilities;

    use super::{AllowedExtensions, client_supports, forwarded_capabilities};

    #[test]
    fn a_client_is_told_of_in_its_own_words() {
        let declared =
            json!({"roots": {"listChanged": true}, "odd": {}, "elicitation": {"url": {}}});
        let client = ClientCapabilities {
            raw: Some(Json::encode(&declared)),
            ..ClientCapabilities::default()
        };
        let told = forwarded_capabilities(&client, &AllowedExtensions::default());
        assert_eq!(told.as_str(), r#"{"elicitation":{"url":{}},"roots":{"listChanged":true}}"#);
        assert!(
            client_supports(&client, "elicitation/create")
                && client_supports(&client, "roots/list")
        );
        assert!(
            !client_supports(&client, "sampling/createMessage")
                && !client_supports(&client, "ping")
        );

        let client =
            ClientCapabilities { supports_sampling: true, ..ClientCapabilities::default() };
        assert_eq!(
            forwarded_capabilities(&client, &AllowedExtensions::default()).as_str(),
            r#"{"sampling":{}}"#
        );
        assert!(client_supports(&client, "sampling/createMessage"));
        assert_eq!(
            forwarded_capabilities(&ClientCapabilities::default(), &AllowedExtensions::default())
                .as_str(),
            "{}"
        );
    }
}
