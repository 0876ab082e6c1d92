//! Fixture of the policy benchmark: a catalog, a policy of six layers, and callers with different
//! rights.

use std::sync::Arc;
use std::time::Duration;

use ::policy::{
    FilePosition, LocatedName, Policy, PolicyDocument, PolicyLayer, PolicyRule, RuleEffect,
    ScopeRule, ToolPattern,
};
use catalog::{Catalog, CurrentSnapshot, SourceCatalog};
use gateway::{Gateway, GatewayComponents, GatewayOptions};
use identity::{KeyDelegation, KeyId, KeyRing, NewKey, Persona, Principal, RequestRestrictions};
use serde_json::json;
use tool::executor::{CredentialProvider, UpstreamCredential};
use tool::{
    AccessScope, ApprovalStepRecord, BoxFuture, CallContext, Caller, CatalogItem, Clock,
    Durability, ExecuteError, ExecutionState, Executor, IntentReceipt, IntentRecord, Json, Ledger,
    LedgerError, MonotonicTime, Offer, Org, Outcome, OutcomeRecord, PermissionLevel, RecordedCall,
    RefusalRecord, Secret, SideEffects, SourceListing, SourceName, SourceTrust, Tool, ToolName,
    ToolTraits, WallTime,
};

/// The fixed time of the fixture.
pub(crate) const NOW: WallTime = WallTime(1_795_000_000_000);

pub(crate) fn tool_name(index: usize) -> String {
    format!("module{}.tool{index}", index % 50)
}

/// Returns whether a tool has a conditional rule.
pub(super) fn is_conditional(name: &str) -> bool {
    name.ends_with("77")
}

/// Returns whether a tool may access files below certain folders.
pub(super) fn is_file_tool(name: &str) -> bool {
    name.ends_with("33")
}

/// Returns whether a tool has neither rules nor folders.
pub(super) fn is_plain(name: &str) -> bool {
    !is_conditional(name) && !is_file_tool(name)
}

/// Builds a gateway with this many tools and with rules for this many rights classes.
pub(super) fn build_gateway(tools: usize, classes: usize) -> Result<Gateway, String> {
    gateway_with_policy(tools, build_policy(tools, classes)?)
}

/// Builds a gateway with this many tools under a policy.
pub(crate) fn gateway_with_policy(tools: usize, policy: Policy) -> Result<Gateway, String> {
    let offers = (0..tools).map(|at| {
        let item = CatalogItem::Tool(Arc::new(build_tool(at)?));
        Ok(Offer { item, executor: Arc::new(NoopParts) as Arc<dyn Executor> })
    });
    let listing = SourceListing {
        offers: offers.collect::<Result<_, String>>()?,
        ..SourceListing::default()
    };
    let source = SourceName::new("s").map_err(|error| error.to_string())?;
    let shelf = SourceCatalog::new_starting(source, "test", SourceTrust::Full)
        .with_listing(&Org::default(), listing);
    let catalog = Catalog::from_sources(1, vec![Arc::new(shelf)]);
    Ok(gateway_with_snapshot(Arc::new(CurrentSnapshot::new(catalog, policy))))
}

/// Builds a gateway of a catalog and a policy, with stubs around them.
pub(crate) fn gateway_with_snapshot(current: Arc<CurrentSnapshot<Policy>>) -> Gateway {
    Gateway::new(GatewayComponents {
        current,
        ledger: Arc::new(NoopParts),
        clock: Arc::new(NoopParts),
        credentials: Arc::new(NoopParts),
        mac_key: Secret::new("key"),
        approvals: None,
        options: GatewayOptions::default(),
    })
}

/// Returns an executor that returns the arguments.
pub(crate) fn echo_executor() -> Arc<dyn Executor> {
    Arc::new(NoopParts)
}

/// Returns a clock that stands still.
pub(crate) fn fixed_clock() -> Arc<dyn Clock> {
    Arc::new(NoopParts)
}

/// Builds a layer with ten deny rules of several kinds.
fn build_layer(of: usize) -> Result<PolicyLayer, String> {
    let denied = (0..10).map(|at| match at % 3 {
        0 => format!("module{of}.tool{at}*9"),
        1 => format!("module{}.tool{}", of + at, of * 100 + at),
        _ => format!("source:away{at}"),
    });
    let pattern = |text: String| ToolPattern::new(text);
    let deny = denied.map(pattern).collect::<Result<_, _>>()?;
    let allow = ["module*", "group:read", "source:s"].map(ToolPattern::new);
    let allow = allow.into_iter().collect::<Result<_, _>>()?;
    Ok(PolicyLayer { allow: Some(allow), deny, ..PolicyLayer::default() })
}

/// Builds the layer of a role. Each role denies another tool, so that no two classes see the same
/// list.
fn role_layer(at: usize, tools: usize) -> Result<PolicyLayer, String> {
    let mut role = build_layer(at % 50)?;
    role.deny.push(ToolPattern::new(tool_name(tools.saturating_sub(at + 1)))?);
    Ok(role)
}

fn build_policy(tools: usize, classes: usize) -> Result<Policy, String> {
    let when = "args.env == 'prod' && args.paths.exists(p, p.startsWith('/etc/'))";
    let rule = PolicyRule {
        name: "not in production".to_owned(),
        effect: RuleEffect::Deny,
        tools: Some(vec![ToolPattern::new("*77")?]),
        condition: Some(LocatedName { text: when.to_owned(), position: FilePosition::default() }),
        time_window: None,
        examples: Vec::new(),
        position: FilePosition::default(),
    };
    let named = |kind: &str, of| Ok::<_, String>([(kind.to_owned(), build_layer(of)?)].into());
    let roles = (0..classes).map(|at| Ok((format!("r{at}"), role_layer(at, tools)?)));
    let beneath = ScopeRule {
        allowed_paths: Some(vec!["/srv/".to_owned(), "/var/lib/".to_owned()]),
        ..ScopeRule::default()
    };
    let rules = PolicyDocument {
        global: PolicyLayer { rules: vec![rule], ..build_layer(1)? },
        orgs: named("default", 2)?,
        roles: roles.collect::<Result<_, String>>()?,
        personas: named("p", 3)?,
        task_layers: named("math", 4)?,
        scopes: [(AccessScope::Filesystem, beneath)].into(),
        ..PolicyDocument::default()
    };
    Policy::new(rules).map_err(|slips| format!("{slips:?}"))
}

/// Builds a caller with a rights class of its own.
pub(crate) fn build_caller(index: usize) -> Result<Principal, String> {
    let id = KeyId::new(format!("k{index}")).map_err(|error| error.to_string())?;
    let delegation = KeyDelegation {
        delegated_by: "k".to_owned(),
        allowed_tools: Some(vec!["module*".to_owned()]),
        denied_tools: vec!["*.tool1234".to_owned()],
        ..KeyDelegation::default()
    };
    let modules = Some(["s".to_owned()].into());
    let key = NewKey {
        level: PermissionLevel::Owner,
        roles: vec![format!("r{index}")],
        persona: Some(Persona { name: "p".to_owned(), allowed_modules: modules }),
        delegations: vec![delegation],
        ..NewKey::for_user(id, "ann")
    };
    // A delegated key is valid only while its parent key is.
    let above = KeyId::new("k").map_err(|error| error.to_string())?;
    let above = NewKey { id: above, delegations: Vec::new(), ..key.clone() };
    let issued =
        |key: NewKey| key.issue_key([7; 32], WallTime(0)).map_err(|error| error.to_string());
    let (secret, record) = issued(key)?;
    let ring = KeyRing::new([issued(above)?.1, record]);
    let who =
        ring.verify_key(Some(secret.expose()), WallTime(1)).map_err(|error| error.to_string())?;
    let task_type = Some("math".to_owned());
    Ok(who.with_restrictions(&RequestRestrictions { task_type, ..RequestRestrictions::default() }))
}

fn build_tool(at: usize) -> Result<Tool, String> {
    let input = json!({ "type": "object" });
    let name = tool_name(at);
    let received = json!({ "name": name, "description": "A tool.", "inputSchema": input });
    let traits = ToolTraits {
        categories: vec![if at.is_multiple_of(3) { "data" } else { "system" }.to_owned()],
        scopes: match at {
            _ if is_file_tool(&name) => vec![AccessScope::Filesystem],
            at if at.is_multiple_of(7) => vec![AccessScope::Network],
            _ => vec![],
        },
        effects: if at.is_multiple_of(5) { SideEffects::Unknown } else { SideEffects::read_only() },
        ..ToolTraits::default()
    };
    Ok(Tool {
        name: ToolName::new(name).map_err(|error| error.to_string())?,
        title: None,
        description: "A tool.".to_owned(),
        input_schema: Json::encode(&input),
        output_schema: None,
        traits,
        raw_definition: Json::encode(&received),
    })
}

/// Stubs for the parts around a decision: a ledger that stores nothing, a fixed clock, a tool that
/// returns its arguments.
#[derive(Debug)]
struct NoopParts;

impl Clock for NoopParts {
    fn wall_now(&self) -> WallTime {
        NOW
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(Duration::ZERO)
    }
}

impl CredentialProvider for NoopParts {
    fn find_credential<'a>(
        &'a self,
        _: &'a SourceName,
        _: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential> {
        Box::pin(async { UpstreamCredential::NotNeeded })
    }
}

impl Executor for NoopParts {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let args = call.call().arguments.as_json().clone();
        Box::pin(async move { Ok(ExecutionState::Completed(Outcome::from_value(args))) })
    }
}

impl Ledger for NoopParts {
    fn record_intent(
        &self,
        intent: IntentRecord,
        _: Durability,
    ) -> BoxFuture<'_, Result<IntentReceipt, LedgerError>> {
        Box::pin(async move { Ok(IntentReceipt::with_abandon_hook(intent.call_id, |_| {})) })
    }
    fn record_outcome(
        &self,
        ticket: IntentReceipt,
        _: OutcomeRecord,
        _: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        let _call = ticket.mark_complete();
        Box::pin(async { Ok(()) })
    }
    fn record_approval_step(&self, _: &ApprovalStepRecord) -> Result<(), LedgerError> {
        Ok(())
    }

    fn record_refusal(&self, _: RefusalRecord) {}
    fn check_health(&self) -> Result<(), LedgerError> {
        Ok(())
    }
}
