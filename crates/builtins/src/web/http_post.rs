//! `http_post`: sends JSON to a URL.

use std::sync::Arc;

use guard::egress::Egress;
use http::Method;
use serde_json::json;
use tool::{Clock, Effect, Effects, Scope};

use super::exchange::{Asks, headers_and_timeout, output};
use crate::builtin::{Builtin, Declaration, Reach};

pub(crate) fn builtin(egress: Egress, clock: Arc<dyn Clock>) -> Builtin {
    let [headers, timeout] = headers_and_timeout();
    let declaration = Declaration {
        name: "http_post",
        handler: "http_post",
        category: "web",
        description: "Sends JSON to a URL of the public net with HTTP POST.",
        input: json!({
            "type": "object",
            "properties": {
                "url": { "type": "string", "description": "http or https, to a public address." },
                "data": { "type": "object", "description": "The body, sent as JSON." },
                (headers.0): headers.1,
                (timeout.0): timeout.1,
            },
            "required": ["url"],
            "additionalProperties": false,
        }),
        output: output(),
    };
    let effects = Effects::Declared(vec![Effect::SystemState, Effect::NetworkAccess]);
    let reach = Reach { scope: Scope::Network, effects, chained: true };
    declaration.reached_by(reach, Asks { egress, clock, method: Method::POST })
}
