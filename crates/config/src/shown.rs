//! A configuration as it counts, in the words of its file: what was said, what the flags and the
//! environment say, and every default. No secret is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tool::Trust;
use url::Url;

use super::high::{
    BuiltinsConfig, Config, KubernetesConfig, McpCommand, OAuthConfig, OAuthProof, PerCallerConfig,
    SearchConfig, SourceConfig, SourceDurability, SourceKind, TokensConfig, Tools,
};

/// What stands where a secret is.
pub const HIDDEN: &str = "***";

/// All of it. What is not set and has no default is left out.
pub fn shown(config: &Config) -> Value {
    let nodes = &config.nodes;
    let (limits, server) = (&config.limits, &config.server);
    let sources: Vec<_> = config.sources.iter().map(source).collect();
    tidy(json!({
        "version": 1,
        "listen": config.listen.to_string(),
        "data": path(&config.data),
        "server": {
            "allowed_hosts": server.allowed_hosts,
            "allowed_origins": server.allowed_origins,
            "max_body": server.max_body,
            "cage": server.cage.as_str(),
            "idle_timeout": time(server.idle_timeout),
        },
        "limits": {
            "calls": limits.bounds.calls,
            "calls_per_key": limits.bounds.per_key,
            "calls_per_source": limits.bounds.per_source,
            "calls_per_key_and_source": limits.bounds.per_key_and_source,
            "result_bytes": limits.result_bytes,
        },
        "approvals": approvals(config),
        "records": {
            "checkpoints": {"also": config.checkpoints_also.as_deref().map(path)},
            "keep": {"age": config.keep.age.map(hours), "bytes": config.keep.bytes},
            "file": config.record_file,
        },
        "tool_packages": {
            "bytes": config.tool_packages.total,
            "bytes_per_organisation": config.tool_packages.per_organisation,
        },
        "builtins": builtins(&config.builtins),
        "nodes": {
            "addresses": nodes.addresses.nodes,
            "insecure_ok": nodes.addresses.insecure_ok,
            "pattern": nodes.addresses.pattern,
            "kubernetes": nodes.kubernetes.as_ref().map(kubernetes),
            "mongodb": nodes.mongodb.as_ref().map(|_| HIDDEN),
            "authority_file": nodes.authority_file,
            "trust": trust(nodes.trust),
            "read_only": which(&nodes.read_only),
            "shared": nodes.shared.0,
        },
        "tokens": config.tokens.as_ref().map(tokens),
        "redis": config.redis.as_ref().map(|_| HIDDEN),
        "default_guest_modules": config.default_guest_modules,
        "policy": config.policy_said.then(|| serde_json::to_value(config.policy.rules()).unwrap_or_default()),
        "sources": sources,
    }))
}

fn kubernetes(kubernetes: &KubernetesConfig) -> Value {
    json!({
        "api": kubernetes.api.to_string(),
        "token_file": kubernetes.token_file.as_deref().map(path),
        "ca_file": kubernetes.ca_file.as_deref().map(path),
        "scheme": if kubernetes.https { "https" } else { "http" },
        "port": kubernetes.port,
    })
}

/// Without what is not there, and without what is empty because of that.
fn tidy(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let some = |(key, value)| {
                let value = tidy(value);
                let nothing = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                (!nothing).then_some((key, value))
            };
            Value::Object(members.into_iter().filter_map(some).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(tidy).collect()),
        other => other,
    }
}

/// An address as it is written, without a query.
fn address_text(text: &str) -> String {
    match text.split_once('?') {
        Some((address, _)) => format!("{address}?{HIDDEN}"),
        None => text.to_owned(),
    }
}

/// An address, without a query: a secret may stand there.
fn address(url: &Url) -> String {
    let mut shown = url.clone();
    if shown.query().is_some() {
        shown.set_query(Some(HIDDEN));
    }
    shown.into()
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// As the file has times: in milliseconds where they are no whole seconds.
fn time(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        return format!("{}s", time.as_secs());
    }
    format!("{}ms", time.as_millis())
}

fn hours(age: Duration) -> String {
    format!("{}h", age.as_secs() / 3_600)
}

fn trust(trust: Trust) -> Value {
    serde_json::to_value(trust).unwrap_or_default()
}

fn approvals(config: &Config) -> Value {
    let approvals = &config.approvals;
    let mut confirm: Vec<_> = approvals.client_confirm.iter().collect();
    confirm.sort();
    json!({
        "expires": time(approvals.expires),
        "pending": approvals.pending,
        "per_minute": approvals.per_minute,
        "client_confirm": confirm,
        "page": approvals.page,
        // Its address may hold a secret as well.
        "webhook": approvals.webhook.as_ref().map(|_| json!({"url": HIDDEN, "secret": HIDDEN})),
    })
}

fn builtins(builtins: &BuiltinsConfig) -> Value {
    let root = |root: &super::FolderConfig| json!({"path": path(&root.path), "write": root.write, "protect": root.protect});
    let narrowed = |narrowing: &tool_manifest::Narrowing| {
        json!({
            "enabled": narrowing.off.then_some(false),
            "safety": narrowing.safety,
            "required_permission": narrowing.level,
            "destructive": narrowing.destructive,
            "chain": narrowing.chain,
            "timeout": narrowing.timeout.map(time),
            "maximum": narrowing.maximum,
        })
    };
    let tools: BTreeMap<_, _> =
        builtins.tools.iter().map(|(name, narrowing)| (name, narrowed(narrowing))).collect();
    let roots: Vec<_> = builtins.roots.iter().map(root).collect();
    json!({
        "roots": (!roots.is_empty()).then_some(roots),
        "search": builtins.search.as_ref().map(|search| match search {
            SearchConfig::SearXng(url) => json!({"searxng": url}),
            SearchConfig::DuckDuckGo(url) => json!({"duckduckgo": url}),
        }),
        "wikipedia": builtins.wikipedia,
        "model_mirror": builtins.model_mirror,
        "tools": tools,
    })
}

fn tokens(tokens: &TokensConfig) -> Value {
    let issuer = |one: &super::IssuerConfig| {
        let issuer = &one.issuer;
        let grant = |grant: &identity::Grant| json!({"claim": grant.claim, "value": grant.value, "level": grant.level, "roles": grant.roles});
        let algorithms: Vec<_> = issuer.algorithms.iter().map(|it| it.as_str()).collect();
        json!({
            "name": issuer.name,
            "issuer": issuer.issuer,
            "jwks": one.jwks.as_deref().map(address_text),
            "algorithms": algorithms,
            "org": issuer.org.to_string(),
            "org_claim": issuer.orgs.as_ref().map(|(claim, _)| claim),
            "orgs": issuer.orgs.as_ref().map(|(_, orgs)| {
                let named = orgs.iter().map(|(value, org)| (value, org.to_string()));
                named.collect::<BTreeMap<_, _>>()
            }),
            "subject": issuer.subject,
            "person": issuer.person,
            "max_lifetime": format!("{}m", issuer.longest / 60_000),
            "grants": issuer.grants.iter().map(grant).collect::<Vec<_>>(),
        })
    };
    json!({
        "resource": tokens.resource,
        "issuers": tokens.issuers.iter().map(issuer).collect::<Vec<_>>(),
    })
}

fn source(source: &SourceConfig) -> Value {
    let mut all = json!({
        "name": source.name.as_str(),
        "slow": source.slow,
        "trust": trust(source.trust),
        "credential": source.credential.as_ref().map(|_| json!({"bearer": HIDDEN})),
        "durability": source.durability.map(|durability| match durability {
            SourceDurability::Written => "written",
            SourceDurability::Synced => "synced",
            SourceDurability::Full => "full",
        }),
        "read_only": which(&source.read_only),
        "idempotent": which(&source.idempotent),
        "chain": which(&source.chain),
        "timeout": time(source.timeout),
        "trust_annotations": source.mcp_tools.trust_annotations.then_some(true),
        "destructive": source.mcp_tools.destructive.as_ref().map(which),
        "disabled_tools": some(&source.mcp_tools.disabled),
        "enabled_tools": source.mcp_tools.enabled,
        "retry": if source.retry { "once" } else { "never" },
    });
    let kind = match &source.kind {
        SourceKind::ToolFile(file) => Value::String(path(file)),
        SourceKind::Module(url) => Value::String(address(url)),
        SourceKind::McpCommand(command) => started(command),
        SourceKind::McpUrl { url, headers, oauth, per_caller } => {
            let headers = headers.iter().map(|(name, _)| (name.as_str(), HIDDEN));
            json!({
                "url": address(url),
                "headers": headers.collect::<BTreeMap<_, _>>(),
                "oauth": oauth.as_deref().map(authorization),
                "per_caller": per_caller.as_deref().map(secrets),
            })
        }
    };
    if let Some(members) = all.as_object_mut() {
        if matches!(source.kind, SourceKind::McpCommand(_) | SourceKind::McpUrl { .. }) {
            members.insert("startup_timeout".to_owned(), json!(time(source.startup_timeout)));
            members.insert("max_message".to_owned(), json!(source.max_message));
        }
        members.insert(source.kind.as_str().to_owned(), kind);
    }
    all
}

fn some(names: &BTreeSet<String>) -> Option<&BTreeSet<String>> {
    Some(names).filter(|names| !names.is_empty())
}

fn which(tools: &Tools) -> Value {
    match tools {
        Tools::All => Value::Bool(true),
        Tools::Named(names) => json!(names),
    }
}

/// Arguments may hold secrets too: they are counted.
fn started(command: &McpCommand) -> Value {
    let env = command.env.iter().map(|(name, _)| (name, HIDDEN));
    json!({
        "command": command.command,
        "args": vec![HIDDEN; command.args.len()],
        "env": env.collect::<BTreeMap<_, _>>(),
        "cwd": path(&command.cwd),
    })
}

fn authorization(oauth: &OAuthConfig) -> Value {
    json!({
        "grant": if oauth.alone { "client_credentials" } else { "authorization_code" },
        "client_id": oauth.client_id,
        "client_secret": matches!(oauth.proof, OAuthProof::Secret(_)).then_some(HIDDEN),
        "private_key_env": matches!(oauth.proof, OAuthProof::Key(_)).then_some(HIDDEN),
        "client_metadata": oauth.client_metadata.as_deref().map(address_text),
        "scopes": oauth.scopes,
        "issuer": oauth.issuer,
        "token_endpoint": oauth.token_endpoint.as_deref().map(address_text),
        "any_loopback_port": oauth.any_loopback_port.then_some(true),
    })
}

fn secrets(each: &PerCallerConfig) -> Value {
    let values = each.values.keys().map(|subject| (subject, HIDDEN));
    json!({
        "header": each.header.as_str(),
        "secrets": values.collect::<BTreeMap<_, _>>(),
        "list_as": each.list_as,
    })
}

#[cfg(test)]
mod tests;
