//! Suite runs with Toolkeep as the client of the suite's servers.

use std::path::PathBuf;

use super::suite_run::Suite;
use crate::support::server_process::TOOLKEEP;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Scenarios without authorization, and the revision that the server of each speaks.
const PLAIN: &[(&str, &str)] = &[
    ("initialize", LEGACY),
    ("tools_call", LEGACY),
    ("tools_call", MODERN),
    ("elicitation-sep1034-client-defaults", LEGACY),
    ("sse-retry", LEGACY),
    ("json-schema-2020-12-preservation", LEGACY),
    ("json-schema-2020-12-preservation", MODERN),
    ("request-metadata", MODERN),
    ("sep-2322-client-request-state", MODERN),
    ("http-standard-headers", MODERN),
    ("http-custom-headers", MODERN),
    ("http-invalid-tool-headers", MODERN),
    ("json-schema-ref-no-deref", MODERN),
];

/// Scenarios in which the server requires a token of an authorization server.
const AUTH: &[(&str, &str)] = &[
    ("auth/metadata-default", LEGACY),
    ("auth/metadata-default", MODERN),
    ("auth/metadata-var1", MODERN),
    ("auth/metadata-var2", MODERN),
    ("auth/metadata-var3", MODERN),
    ("auth/basic-cimd", MODERN),
    ("auth/scope-from-www-authenticate", MODERN),
    ("auth/scope-from-scopes-supported", MODERN),
    ("auth/scope-omitted-when-undefined", MODERN),
    ("auth/scope-step-up", MODERN),
    ("auth/scope-retry-limit", MODERN),
    ("auth/token-endpoint-auth-basic", MODERN),
    ("auth/token-endpoint-auth-post", MODERN),
    ("auth/token-endpoint-auth-none", MODERN),
    ("auth/pre-registration", MODERN),
    ("auth/resource-mismatch", MODERN),
    ("auth/offline-access-scope", MODERN),
    ("auth/offline-access-not-supported", MODERN),
    ("auth/authorization-server-migration", MODERN),
    ("auth/iss-supported", MODERN),
    ("auth/iss-not-advertised", MODERN),
    ("auth/iss-supported-missing", MODERN),
    ("auth/iss-wrong-issuer", MODERN),
    ("auth/iss-unexpected", MODERN),
    ("auth/iss-normalized", MODERN),
    ("auth/metadata-issuer-mismatch", MODERN),
    ("auth/client-credentials-jwt", MODERN),
    ("auth/client-credentials-basic", MODERN),
    ("auth/enterprise-managed-authorization", MODERN),
    ("auth/dpop", MODERN),
    ("auth/dpop-nonce", MODERN),
    ("auth/wif-jwt-bearer", MODERN),
];

/// The same for the older suite, whose servers use 2025-11-25 and 2025-03-26.
const AUTH_BEFORE: &[(&str, &str)] = &[
    ("auth/2025-03-26-oauth-metadata-backcompat", "2025-03-26"),
    ("auth/2025-03-26-oauth-endpoint-fallback", "2025-03-26"),
    ("auth/metadata-default", LEGACY),
    ("auth/metadata-var1", LEGACY),
    ("auth/metadata-var2", LEGACY),
    ("auth/metadata-var3", LEGACY),
    ("auth/basic-cimd", LEGACY),
    ("auth/scope-from-www-authenticate", LEGACY),
    ("auth/scope-from-scopes-supported", LEGACY),
    ("auth/scope-omitted-when-undefined", LEGACY),
    ("auth/scope-step-up", LEGACY),
    ("auth/scope-retry-limit", LEGACY),
    ("auth/token-endpoint-auth-basic", LEGACY),
    ("auth/token-endpoint-auth-post", LEGACY),
    ("auth/token-endpoint-auth-none", LEGACY),
    ("auth/pre-registration", LEGACY),
    ("auth/resource-mismatch", LEGACY),
    ("auth/offline-access-scope", LEGACY),
    ("auth/offline-access-not-supported", LEGACY),
    ("auth/client-credentials-jwt", LEGACY),
    ("auth/client-credentials-basic", LEGACY),
];

/// Scenarios that a client without sessions can go through.
const DIRECT: &[(&str, &str)] = &[
    ("tools_call", MODERN),
    ("json-schema-2020-12-preservation", MODERN),
    ("sep-2322-client-request-state", MODERN),
    ("http-standard-headers", MODERN),
    ("http-custom-headers", MODERN),
    ("json-schema-ref-no-deref", MODERN),
];

/// The command line to which the suite adds the address of its server.
fn line(toolkeep: &str) -> String {
    let folder = PathBuf::from(TOOLKEEP).parent().unwrap().join("examples");
    let driver = folder.join("it-driver");
    assert!(driver.exists(), "no `it-driver`: build it with `cargo build -p toolkeep --examples`");
    format!("{} {toolkeep}", driver.display())
}

async fn is_good(toolkeep: &str, scenarios: &[(&str, &str)], known: &'static str) {
    is_good_by("conformance-0.2", toolkeep, scenarios, known).await;
}

async fn is_good_by(
    installed: &'static str,
    toolkeep: &str,
    scenarios: &[(&str, &str)],
    known: &'static str,
) {
    let words = &[] as &[&str];
    let suite = Suite { installed, words, known, scenarios: scenarios.len() };
    suite.judge(&suite.client(&line(toolkeep), scenarios).await);
}

/// Control: without Toolkeep in between, the driver passes the scenarios.
#[tokio::test(flavor = "multi_thread")]
async fn the_driver_itself_goes_through_the_scenarios() {
    is_good("direct", DIRECT, "client-direct.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_is_a_good_client() {
    is_good(TOOLKEEP, PLAIN, "client-plain.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_is_a_good_client_of_servers_that_want_tokens() {
    is_good(TOOLKEEP, AUTH, "client-auth.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_is_a_good_client_of_older_servers_that_want_tokens() {
    is_good_by("conformance-0.1", TOOLKEEP, AUTH_BEFORE, "client-auth-0.1.yml").await;
}
