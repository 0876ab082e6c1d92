use super::super::tests::valid_config;
use super::{REDACTED, render_config};

const SECRETS: [&str; 14] = [
    "of-jwks",
    "of-tokens",
    "in-the-query",
    "mongo-pass",
    "redis-pass",
    "s3cret",
    "argument",
    "of-env",
    "of-header",
    "client-pass",
    "of-ann",
    "hook-key",
    "hook.example",
    "secret-path",
];

/// Everything that can be said without a file of its own.
const ALL: &str = "\
version: 1
listen: 127.0.0.1:9
data: /var/lib/t
redis: redis://:redis-pass@127.0.0.1:6379/0
default_guest_modules: p,m
server: { allowed_hosts: [Tools.example], allowed_origins: ['https://c.example'], public_url: 'https://Tools.example/', max_body: 1MiB, min_sandbox: fenced,
  search: { mode: auto, keys: { k1: deferred }, always: [fs.read], auto_tokens: 500, learn: [acme] } }
limits: { calls: 7, calls_per_key: 6, calls_per_source: 5, calls_per_key_and_source: 2, result_bytes: 64KiB }
approvals:
  expires: 90s
  pending: 3
  per_minute: 4
  page: 'https://c.example/approvals/{id}'
  webhook: { url: 'https://hook.example/secret-path', secret: hook-key-hook-key-hook-key-hook-key }
records: { keep: { age: 90d, bytes: 2GiB }, file: 1MiB, checkpoints: { also: /mnt/c } }
tool_packages: { bytes: 20GiB, bytes_per_organisation: 2GiB }
builtins:
  roots: [{ path: /srv/w, write: true, protect: [.git] }]
  search: { searxng: 'http://127.0.0.1:8888' }
  tools: { http_get: { enabled: false }, run_shell: { timeout: 1500ms } }
nodes:
  addresses: { n1: 'http://127.0.0.1:5' }
  pattern: 'https://{node_id}.nodes.example'
  kubernetes: { api: 'https://127.0.0.1:6443', token_file: /t/token, scheme: http, port: 5 }
  mongodb: mongodb://u:mongo-pass@127.0.0.1/d
  trust: review
tokens:
  resource: https://t.example/mcp
  issuers:
    - { name: corp, issuer: 'https://i.example', jwks: 'https://i.example/keys?k=of-jwks', algorithms: [ES256], person: true,
        max_lifetime: 30m, grants: [{ claim: scope, value: tools, level: user, roles: [r] }] }
sources:
  - { name: m, module: 'http://m:8000', slow: true, credential: { bearer: '${TOKEN}' }, read_only: [look], retry: once }
  - { name: p, mcp: { command: npx, args: [--key, argument], env: { K: of-env }, cwd: /srv }, durability: synced, defer: never }
  - name: u
    trust: review
    idempotent: true
    timeout: 1500ms
    mcp:
      url: https://u.example/mcp?key=in-the-query
      headers: { X-Key: of-header }
      oauth: { grant: client_credentials, client_id: me, client_secret: client-pass, scopes: [a], token_endpoint: 'https://u.example/t?k=of-tokens' }
  - { name: e, mcp: { url: 'https://e.example/mcp', per_caller: { secrets: { ann: of-ann } } } }
";

#[test]
fn what_is_shown_holds_no_secret_and_says_every_one_that_is_set() {
    let shown = render_config(&valid_config(ALL));
    let text = shown.to_string();
    for secret in SECRETS {
        assert!(ALL.contains(secret) || secret == "s3cret", "{secret} is not in the file");
        assert!(!text.contains(secret), "{secret} is shown: {text}");
    }
    assert_eq!(shown["redis"], REDACTED);
    assert_eq!(shown["nodes"]["mongodb"], REDACTED);
    assert_eq!(shown["sources"][0]["credential"]["bearer"], REDACTED);
    assert_eq!(shown["sources"][1]["mcp"]["env"]["K"], REDACTED);
}

#[test]
fn what_is_shown_is_a_configuration_that_counts_as_the_same() {
    let first = render_config(&valid_config(ALL));
    // A value that is not shown is another one where it is read again; its form must hold.
    let text = serde_saphyr::to_string(&first).unwrap();
    let text = text.replace("redis: \"***\"", "redis: redis://127.0.0.1/");
    let text = text.replace("mongodb: \"***\"", "mongodb: mongodb://127.0.0.1/");
    let text = text.replace("url: \"***\"", "url: https://x.example/y");
    let text = text.replace("secret: \"***\"", &format!("secret: {}", "x".repeat(40)));
    let text = text.replace("        private_key_env: null\n", "");
    assert_eq!(render_config(&valid_config(&text)), first, "{text}");
}

#[test]
fn without_a_file_the_defaults_are_shown() {
    let shown = render_config(&valid_config("version: 1\n"));
    assert_eq!(shown["listen"], "127.0.0.1:8080");
    assert_eq!(shown["limits"]["calls"], 4096);
    assert_eq!(shown["approvals"]["expires"], "600s");
    assert_eq!(shown["sources"], serde_json::json!([]));
    assert_eq!(shown.get("policy"), None);
}
