//! Requests that each principal makes once, with the model's expectation: users, keys, roles,
//! personas, organisations, nodes, node tools, packages, and changes of sources and plugins.

use identity::Right;
use tool::PermissionLevel;

use super::model::{NEAR, Rules};

/// One request.
#[derive(Debug)]
pub(super) struct Request {
    /// Method and path, as the router has them.
    pub(super) route: &'static str,
    /// Path of the request.
    pub(super) path: &'static str,
    /// Body of the request; absent if empty.
    pub(super) body: &'static str,
    pub(super) expected: fn(&Rules<'_>) -> &'static str,
    /// A status that also means admission: the request is incomplete on purpose.
    pub(super) incomplete: u16,
}

/// A request that is let through, or forbidden.
const fn request(
    route: &'static str,
    path: &'static str,
    body: &'static str,
    expected: fn(&Rules<'_>) -> &'static str,
) -> Request {
    Request { route, path, body, expected, incomplete: 0 }
}

impl Request {
    const fn incomplete(mut self) -> Self {
        self.incomplete = 400;
        self
    }
}

fn when(may: bool) -> &'static str {
    if may { "allowed" } else { "forbidden" }
}

/// About missing objects: authorised principals get not found.
fn missing(may: bool) -> &'static str {
    if may { "hidden" } else { "forbidden" }
}

fn there(seen: bool) -> &'static str {
    if seen { "allowed" } else { "hidden" }
}

/// The same for principals that may query.
fn there_for(may: bool, seen: bool) -> &'static str {
    if may { there(seen) } else { "forbidden" }
}

fn all(_: &Rules<'_>) -> &'static str {
    "allowed"
}

/// What the record stores: of the installation.
fn sees_storage(rules: &Rules<'_>) -> &'static str {
    when(rules.is_home() && rules.may(Right::RecordsRead))
}

/// Objects that no principal owns.
fn nobody(_: &Rules<'_>) -> &'static str {
    "hidden"
}

fn keys(rules: &Rules<'_>) -> bool {
    rules.may(Right::KeysWrite)
}

fn of_keys(rules: &Rules<'_>) -> &'static str {
    when(keys(rules))
}

/// Who makes keys for the source `s` and this level.
fn makes_key(rules: &Rules<'_>, level: PermissionLevel) -> bool {
    keys(rules) && rules.is_at_least(level) && rules.has_source("s")
}

/// Who changes a user of this level.
fn changes_user(rules: &Rules<'_>, level: PermissionLevel) -> &'static str {
    when(keys(rules) && rules.is_at_least(level))
}

/// Roles and personas are the installation's.
fn of_roles(rules: &Rules<'_>) -> &'static str {
    when(keys(rules) && rules.is_home())
}

fn of_personas(rules: &Rules<'_>) -> &'static str {
    when(keys(rules) && rules.is_home() && !rules.is_limited())
}

fn of_orgs(rules: &Rules<'_>) -> &'static str {
    when(rules.may(Right::OrgsWrite))
}

fn of_all_nodes(rules: &Rules<'_>) -> &'static str {
    when(rules.speaks_for_all_nodes())
}

fn of_n1(rules: &Rules<'_>) -> &'static str {
    when(rules.speaks_for_n1())
}

fn writes_catalogue(rules: &Rules<'_>) -> &'static str {
    when(rules.may(Right::NodesWrite))
}

fn of_no_entry(rules: &Rules<'_>) -> &'static str {
    missing(rules.may(Right::NodesWrite))
}

fn gives_consent(rules: &Rules<'_>) -> &'static str {
    rules.of_source(rules.may(Right::SourcesRefresh) && !rules.is_agent())
}

fn explains(rules: &Rules<'_>) -> &'static str {
    when(rules.may(Right::PolicyExplain))
}

fn adds_sources(rules: &Rules<'_>) -> &'static str {
    when(rules.is_home() && rules.may(Right::SourcesWrite))
}

fn refreshes(rules: &Rules<'_>) -> &'static str {
    when(rules.may(Right::SourcesRefresh))
}

/// Tools that are registered for the nodes `n1` and `n2`.
pub(super) const NEAR_TOOL: &str =
    r#"{"name":"reverse_text","node_id":"n1","input_spec":{},"metadata":{},"description":"d"}"#;
pub(super) const FAR_TOOL: &str =
    r#"{"name":"far_text","node_id":"n2","input_spec":{},"metadata":{},"description":"d"}"#;

/// All requests. `{n}` is the number of the principal; `{revoked}`, `{call}`, `{bot}` and
/// `{joining}` are objects of the fixture.
pub(super) const REQUESTS: &[Request] = &[
    // Users. `target` is one of both organisations, `third-party` of a third, `sleeper` is disabled.
    request("GET /v1/users", "/v1/users?after=target&limit=9", "", of_keys),
    request("POST /v1/users", "/v1/users", r#"{"subject":"made-{n}"}"#, |rules| {
        when(keys(rules) && !rules.is_limited())
    }),
    request("POST /v1/users", "/v1/users", r#"{"subject":"admin-{n}","level":"admin"}"#, |rules| {
        when(keys(rules) && !rules.is_limited() && rules.is_at_least(PermissionLevel::Admin))
    }),
    request(
        "POST /v1/users",
        "/v1/users",
        r#"{"subject":"owner-{n}","level":"owner"}"#,
        |_| "forbidden",
    ),
    request(
        "POST /v1/users/{subject}/level",
        "/v1/users/target/level",
        r#"{"level":"user"}"#,
        |rules| changes_user(rules, PermissionLevel::User),
    ),
    request(
        "POST /v1/users/{subject}/level",
        "/v1/users/third-party/level",
        r#"{"level":"guest"}"#,
        |rules| missing(keys(rules)),
    ),
    request("DELETE /v1/users/{subject}", "/v1/users/sleeper", "", |rules| {
        changes_user(rules, PermissionLevel::Admin)
    }),
    request("DELETE /v1/users/{subject}", "/v1/users/third-party", "", |rules| {
        missing(keys(rules))
    }),
    request("POST /v1/users/{subject}/enable", "/v1/users/target/enable", "{}", |rules| {
        changes_user(rules, PermissionLevel::User)
    }),
    // Keys: for a new subject, with a right, for a subject that exists, an owner's, revoking, delegating.
    request("GET /v1/keys", "/v1/keys?limit=2", "", of_keys),
    request(
        "POST /v1/keys",
        "/v1/keys",
        r#"{"subject":"key-{n}","level":"admin","persona_modules":["s"]}"#,
        |rules| when(makes_key(rules, PermissionLevel::Admin)),
    ),
    request(
        "POST /v1/keys",
        "/v1/keys",
        r#"{"subject":"reader-{n}","level":"guest","rights":["records:read"],"persona_modules":["s"]}"#,
        |rules| when(makes_key(rules, PermissionLevel::Guest) && rules.may(Right::RecordsRead)),
    ),
    request(
        "POST /v1/keys",
        "/v1/keys",
        r#"{"subject":"twin","level":"guest","persona_modules":["s"]}"#,
        |rules| {
            let acts = rules.may(Right::ActAs) || rules.is_owner();
            when(makes_key(rules, PermissionLevel::Guest) && acts)
        },
    ),
    request(
        "POST /v1/keys",
        "/v1/keys",
        r#"{"subject":"root-{n}","level":"owner","persona_modules":["s"]}"#,
        |rules| when(makes_key(rules, PermissionLevel::Owner) && rules.is_owner()),
    ),
    request("DELETE /v1/keys/{id}", "/v1/keys/{revoked}", "", |rules| {
        match (keys(rules), rules.is_home()) {
            (true, false) => "hidden",
            (may, _) => when(may && rules.is_at_least(PermissionLevel::User)),
        }
    }),
    request("POST /v1/sign-in-links", "/v1/sign-in-links", "{}", all),
    request("POST /v1/keys/delegate", "/v1/keys/delegate", r#"{"level":"admin"}"#, |rules| {
        when(rules.is_at_least(PermissionLevel::Admin))
    }),
    request(
        "POST /v1/keys/delegate",
        "/v1/keys/delegate",
        r#"{"level":"guest","rights":["records:read"]}"#,
        |rules| when(rules.may(Right::RecordsRead)),
    ),
    request(
        "POST /v1/keys/delegate",
        "/v1/keys/delegate",
        r#"{"level":"guest","person":true}"#,
        |rules| when(!rules.is_agent()),
    ),
    request(
        "POST /v1/keys/delegate",
        "/v1/keys/delegate",
        r#"{"level":"guest","persona_modules":["s"]}"#,
        |rules| when(rules.has_source("s")),
    ),
    request(
        "POST /v1/keys/delegate",
        "/v1/keys/delegate",
        r#"{"level":"guest","act_as":"ward-reader"}"#,
        |rules| {
            // Who acts for that user already hands its own key on.
            let own = rules.person.ward == Some(2);
            when(own || rules.may(Right::ActAs))
        },
    ),
    // Personas and roles: `fixed` is a persona, `giver` a role with a right, `over` one that was revoked.
    request("GET /v1/personas", "/v1/personas", "", of_personas),
    request(
        "POST /v1/personas",
        "/v1/personas",
        r#"{"name":"fixed","allowed_modules":["s"]}"#,
        of_personas,
    ),
    request(
        "POST /v1/personas/{name}",
        "/v1/personas/fixed",
        r#"{"allowed_modules":["s"]}"#,
        of_personas,
    ),
    request("GET /v1/roles", "/v1/roles", "", of_roles),
    request("PUT /v1/roles/{name}", "/v1/roles/plain", "{}", of_roles),
    request("PUT /v1/roles/{name}", "/v1/roles/giver", r#"{"rights":["records:read"]}"#, |rules| {
        when(keys(rules) && rules.is_home() && rules.may(Right::RecordsRead))
    }),
    request("DELETE /v1/roles/{name}", "/v1/roles/over", "", of_roles),
    // Organisations: `asleep` is disabled.
    request("GET /v1/orgs", "/v1/orgs", "", of_orgs),
    request("POST /v1/orgs", "/v1/orgs", r#"{"name":"org-{n}"}"#, |rules| {
        when(rules.may(Right::OrgsWrite) && !rules.is_delegated())
    }),
    request("DELETE /v1/orgs/{org}", "/v1/orgs/asleep", "", of_orgs),
    request("POST /v1/orgs/{org}/enable", "/v1/orgs/other/enable", "{}", of_orgs),
    request("GET /v1/orgs/{org}/tools", "/v1/orgs/other/tools", "", of_orgs),
    request("PUT /v1/orgs/{org}/tools", "/v1/orgs/asleep/tools", r#"{"tools":[]}"#, of_orgs),
    // Nodes. `n1` is the node of all principals of that name.
    request("GET /v1/nodes/{node_id}", "/v1/nodes/n1", "", |rules| {
        there(rules.may(Right::NodesResolve) || rules.speaks_for_n1())
    }),
    request("POST /v1/nodes/{node_id}/revoke", "/v1/nodes/unknown/revoke", "{}", |rules| {
        missing(rules.speaks_for_all_nodes())
    }),
    request("POST /v1/nodes/{node_id}/drain", "/v1/nodes/unknown/drain", "{}", |rules| {
        missing(rules.speaks_for_all_nodes())
    }),
    request("POST /v1/nodes/{node_id}/resume", "/v1/nodes/unknown/resume", "{}", |rules| {
        missing(rules.speaks_for_all_nodes())
    }),
    request(
        "POST /v1/nodes/{node_id}/heartbeat",
        "/v1/nodes/n1/heartbeat",
        r#"{"state":"serving"}"#,
        of_n1,
    ),
    request("POST /v1/nodes/{node_id}/invite", "/v1/nodes/n5/invite", "{}", |rules| {
        when(rules.speaks_for_all_nodes() && !rules.is_delegated())
    }),
    request("POST /v1/nodes/{node_id}/join", "/v1/nodes/n1/join", "{joining}", of_n1),
    // The cluster tools' routes.
    request("POST /tools", "/tools", NEAR_TOOL, of_n1),
    request("POST /tools", "/tools", FAR_TOOL, of_all_nodes),
    request("GET /tools/{node_id}/{name}", "/tools/n1/reverse_text", "", |rules| {
        there(rules.speaks_for_n1() || rules.sees(NEAR))
    }),
    request(
        "PUT /tools/{node_id}/{name}",
        "/tools/n1/reverse_text",
        r#"{"description":"d"}"#,
        of_n1,
    ),
    request("DELETE /tools/{node_id}/{name}", "/tools/n1/none", "", |rules| {
        missing(rules.speaks_for_n1())
    }),
    request(
        "POST /cluster-tools/resolve",
        "/cluster-tools/resolve",
        r#"{"tool_name":"reverse_text"}"#,
        |rules| there_for(rules.may(Right::NodesResolve), rules.sees(NEAR)),
    ),
    // The catalogue: each organisation has its own.
    request("POST /catalogue/tools/upload", "/catalogue/tools/upload", "{}", writes_catalogue)
        .incomplete(),
    request("GET /catalogue/tools/{tool_id}", "/catalogue/tools/none", "", nobody),
    request("PUT /catalogue/tools/{tool_id}", "/catalogue/tools/none", r#"{"a":1}"#, of_no_entry),
    request("DELETE /catalogue/tools/{tool_id}", "/catalogue/tools/none", "", of_no_entry),
    request("GET /catalogue/tools/query/by-type", "/catalogue/tools/query/by-type?type=x", "", all),
    request("GET /catalogue/tools/query/by-tag", "/catalogue/tools/query/by-tag?tag=x", "", all),
    request(
        "GET /catalogue/tools/query/by-keyword",
        "/catalogue/tools/query/by-keyword?keyword=x",
        "",
        all,
    ),
    request(
        "GET /catalogue/tools/query/by-execution-mode",
        "/catalogue/tools/query/by-execution-mode?mode=x",
        "",
        all,
    ),
    request(
        "GET /catalogue/tools/query/by-policy-uri",
        "/catalogue/tools/query/by-policy-uri?uri=x",
        "",
        all,
    ),
    request("POST /catalogue/tools/query/generic", "/catalogue/tools/query/generic", "{}", all),
    request("POST /catalogue/create", "/catalogue/create", "{}", writes_catalogue).incomplete(),
    request("GET /catalogue/get/{tool_id}", "/catalogue/get/none", "", nobody),
    request("PUT /catalogue/update/{tool_id}", "/catalogue/update/none", r#"{"a":1}"#, of_no_entry),
    request("DELETE /catalogue/delete/{tool_id}", "/catalogue/delete/none", "", of_no_entry),
    request("POST /catalogue/query", "/catalogue/query", r#"{"query":{}}"#, all),
    request("POST /catalogue/search/tags", "/catalogue/search/tags", r#"{"tags":["x"]}"#, all),
    request("POST /catalogue/search/advanced", "/catalogue/search/advanced", "{}", all),
    // The registry of MCP servers, one for each source.
    request(
        "GET /v0.1/servers/{server}/versions",
        "/v0.1/servers/localhost%2Fs/versions",
        "",
        |rules| there(rules.sees_source("s")),
    ),
    request(
        "GET /v0.1/servers/{server}/versions/{version}",
        "/v0.1/servers/localhost%2Fs/versions/latest",
        "",
        |rules| there(rules.sees_source("s")),
    ),
    // Sources, pins and plugins, in addition to what every interface has.
    request(
        "POST /v1/sources/login",
        "/v1/sources/login",
        r#"{"source":"s","redirect_uri":"http://127.0.0.1:1/"}"#,
        gives_consent,
    )
    .incomplete(),
    request(
        "POST /v1/sources/login/finish",
        "/v1/sources/login/finish",
        r#"{"source":"s","query":"a=b"}"#,
        gives_consent,
    )
    .incomplete(),
    request("POST /v1/sources/logout", "/v1/sources/logout", r#"{"source":"s"}"#, gives_consent)
        .incomplete(),
    request("GET /v1/switches", "/v1/switches", "", refreshes),
    request("GET /v1/sources/{source}/tools", "/v1/sources/s/tools", "", |rules| {
        rules.of_source(rules.may(Right::SourcesRefresh))
    }),
    request("PUT /v1/switches", "/v1/switches", r#"{"source":"none","enabled":false}"#, |rules| {
        missing(rules.is_home() && rules.may(Right::SourcesWrite))
    }),
    request("POST /refresh-tools", "/refresh-tools", "{}", refreshes),
    request("GET /v1/toolsets", "/v1/toolsets", "", all),
    request("GET /v1/toolsets/{name}", "/v1/toolsets/none", "", nobody),
    request("PUT /v1/toolsets/{name}", "/v1/toolsets/matrix", "{}", adds_sources),
    request("DELETE /v1/toolsets/{name}", "/v1/toolsets/none", "", |rules| {
        missing(rules.is_home() && rules.may(Right::SourcesWrite))
    }),
    request(
        "POST /v1/toolsets/{name}/accept",
        "/v1/toolsets/none/accept",
        r#"{"revision":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}"#,
        |rules| missing(rules.may(Right::PinsWrite) && !rules.is_limited()),
    ),
    request("GET /v1/attention", "/v1/attention", "", all),
    request("GET /v1/activity", "/v1/activity", "", all),
    request("GET /v1/records/storage", "/v1/records/storage", "", sees_storage),
    request("GET /v1/records/verification", "/v1/records/verification", "", sees_storage),
    request("POST /v1/records/verification", "/v1/records/verification", "{}", |rules| {
        missing(rules.is_home() && rules.may(Right::RecordsRead))
    }),
    request("GET /v1/records/export", "/v1/records/export?tool=none", "", |rules| {
        when(rules.may(Right::RecordsRead))
    }),
    request(
        "GET /v1/approvals/{id}/last-approved",
        "/v1/approvals/01980000-0000-7000-8000-000000000000/last-approved",
        "",
        nobody,
    ),
    request("GET /v1/pins/{source}/{tool}", "/v1/pins/s/s.look", "", |rules| {
        rules.of_source(rules.may(Right::SourcesRefresh) || rules.may(Right::PinsWrite))
    }),
    request(
        "POST /v1/pins/{source}/{tool}/reject",
        "/v1/pins/s/s.look/reject",
        r#"{"definition":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}"#,
        |rules| rules.of_source(rules.may(Right::PinsWrite)),
    ),
    request("POST /v1/plugins/reload", "/v1/plugins/reload", r#"{"plugin":"notes"}"#, |rules| {
        rules.of_source(rules.may(Right::SourcesRefresh))
    }),
    request("POST /v1/plugins/reload", "/v1/plugins/reload", "{}", refreshes),
    // The record, decisions for other keys, and counters, which name neither tools nor callers.
    request("GET /v1/calls/{id}", "/v1/calls/{call}", "", |rules| {
        there(rules.is_home() && rules.may(Right::RecordsRead))
    }),
    request("POST /v1/explain", "/v1/explain", r#"{"tool":"s.look","as":"{bot}"}"#, |rules| {
        there_for(rules.may(Right::PolicyExplain), rules.is_home())
    }),
    request("GET /v1/calls/{id}/children", "/v1/calls/{call}/children", "", all),
    request("GET /v1/access", "/v1/access?limit=1", "", explains),
    request("POST /v1/policy/preview", "/v1/policy/preview", r#"{"policy":"{}"}"#, explains),
    request(
        "POST /v1/sources",
        "/v1/sources",
        r#"{"name":"b","module":"https://h.example"}"#,
        adds_sources,
    ),
    request(
        "POST /v1/sources/try",
        "/v1/sources/try",
        r#"{"name":"b","module":"https://h.example"}"#,
        adds_sources,
    ),
    request("GET /metrics", "/metrics", "", all),
];
