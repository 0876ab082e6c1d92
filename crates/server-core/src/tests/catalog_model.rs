//! Sources, policies and keys as plain values, and what a caller observes of a server that has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{Catalog, CurrentSnapshot, SourceCatalog};
use formats::ProviderFormat;
use gateway::{CatalogView, Gateway, GatewayComponents, GatewayOptions};
use identity::Principal;
use policy::{
    FilePosition, LocatedName, Policy, PolicyDocument, PolicyLayer, PolicyRequest, PolicyRule,
    RuleEffect, SessionTaint, TimeWindow, TimeWindowSpec, ToolFacts, ToolPattern, decide_call,
};
use serde_json::json;
use testkit::clock::FakeClock;
use tool::{
    CallArguments, CallerType, CatalogItem, Clock as _, Executor, Offer, Org, PermissionLevel,
    SafetyLevel, Secret, SourceListing, SourceName, SourceTrust, ToolName, WallTime,
};

use crate::tool_lists::{CachedList, ListKey, ListKind, NameStyle, ToolListCache, tools_after};
use crate::tool_search::{SearchIndexCache, SearchRequest};

/// Names that want one another's aliases, look alike, or are qualified names of others.
pub(super) const NAMES: [&str; 14] = [
    "a.b",
    "a_b",
    "a-b",
    "c.d",
    "c_d",
    "e",
    "e.f",
    "I1",
    "l1",
    "s1.e",
    "notes.append",
    "notes.find",
    "find.notes",
    "s0.a.b",
];
pub(super) const SOURCES: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];
pub(super) const ROLES: [&str; 3] = ["r0", "r1", "r2"];
const PATTERNS: [&str; 9] =
    ["a.*", "*d", "c_d", "source:s0", "source:s2", "e", "*.append", "notes.*", "bulk.tool2*"];

/// A reproducible source of random numbers.
pub(super) struct RandomNumbers(pub(super) u64);

impl RandomNumbers {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let state = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = state.wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }

    pub(super) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns true in this many of a hundred cases.
    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// A tool as its source offers it.
#[derive(Debug, Clone)]
pub(super) struct ModelTool {
    pub(super) name: String,
    pub(super) edition: usize,
    pub(super) is_blocked: bool,
    pub(super) executor: Arc<dyn Executor>,
}

impl ModelTool {
    pub(super) fn random(random: &mut RandomNumbers) -> Self {
        Self {
            name: random.pick(&NAMES).to_owned(),
            edition: random.below(4),
            is_blocked: random.percent(10),
            executor: testkit::executor::echo_executor(),
        }
    }

    fn offer(&self) -> Offer {
        let schema = json!({
            "type": "object",
            "properties": { "n": { "type": "integer" }, "note": { "type": "string" } },
        });
        let description = format!("Does what `{}` does, edition {}.", self.name, self.edition);
        let mut tool = testkit::read_only_tool(&self.name, &description, &schema);
        tool.traits.min_level =
            [PermissionLevel::Guest, PermissionLevel::User, PermissionLevel::Admin]
                [self.edition % 3];
        if self.edition == 3 {
            tool.traits.safety = SafetyLevel::Dangerous;
        }
        Offer { item: CatalogItem::Tool(Arc::new(tool)), executor: Arc::clone(&self.executor) }
    }
}

/// A source with its tools.
#[derive(Debug, Clone)]
pub(super) struct ModelSource {
    pub(super) name: String,
    pub(super) tools: Vec<ModelTool>,
}

impl ModelSource {
    /// A source of so many tools that its views are built in advance.
    pub(super) fn bulk(tools: usize) -> Self {
        let tool = |number| ModelTool {
            name: format!("bulk.tool{number}"),
            edition: number % 4,
            is_blocked: false,
            executor: testkit::executor::echo_executor(),
        };
        Self { name: "bulk".to_owned(), tools: (0..tools).map(tool).collect() }
    }

    /// Returns the source catalog after this listing.
    pub(super) fn list_after(&self, before: Option<&SourceCatalog>) -> SourceCatalog {
        let name = SourceName::new(&self.name).unwrap();
        let empty = SourceCatalog::new_starting(name, "test", SourceTrust::Full);
        let offers = self.tools.iter().map(ModelTool::offer).collect();
        let listing = SourceListing { offers, ..SourceListing::default() };
        let mut next = before.unwrap_or(&empty).with_listing(&Org::default(), listing);
        let is_blocked = |name: &ToolName| {
            self.tools.iter().find(|it| it.name == name.as_str()).is_some_and(|it| it.is_blocked)
        };
        next.apply_pins(|name, _| !is_blocked(name));
        next
    }
}

fn random_patterns(random: &mut RandomNumbers, most: usize) -> Vec<ToolPattern> {
    let count = random.below(most + 1);
    (0..count).map(|_| ToolPattern::new(random.pick(&PATTERNS)).unwrap()).collect()
}

fn random_layer(random: &mut RandomNumbers) -> PolicyLayer {
    let allow = random.percent(20).then(|| random_patterns(random, 5));
    PolicyLayer { allow, deny: random_patterns(random, 2), ..PolicyLayer::default() }
}

/// Makes a policy of roles and conditional rules, some of which begin at a time.
pub(super) fn random_policy(random: &mut RandomNumbers, now: WallTime) -> Policy {
    let roles = ROLES.iter().map(|role| ((*role).to_owned(), random_layer(random)));
    let roles: BTreeMap<_, _> = roles.collect();
    let rule = |number: usize, random: &mut RandomNumbers| {
        let begin = WallTime(now.0 / 1_000 * 1_000 + 1_000 * random.below(60) as u64).to_string();
        let since = TimeWindowSpec { since: Some(&begin), ..TimeWindowSpec::default() };
        let is_conditional = random.percent(60);
        let text = random.pick(&["args.n > 5", "args.note == 'x'", "args.n > 5 && args.n < 9"]);
        PolicyRule {
            name: format!("rule {number}"),
            effect: random.pick(&[RuleEffect::Deny, RuleEffect::RequireApproval]),
            tools: random.percent(80).then(|| random_patterns(random, 3)),
            condition: is_conditional
                .then(|| LocatedName { text: text.to_owned(), position: FilePosition::default() }),
            time_window: random.percent(30).then(|| TimeWindow::parse_window(since).unwrap()),
            examples: Vec::new(),
            position: FilePosition::default(),
        }
    };
    let count = random.below(4);
    let rules = (0..count).map(|number| rule(number, random)).collect();
    let global = PolicyLayer { rules, ..PolicyLayer::default() };
    Policy::new(PolicyDocument { global, roles, ..PolicyDocument::default() }).unwrap()
}

/// A gateway with the caches that its interfaces have.
#[derive(Debug)]
pub(super) struct ModelServer {
    pub(super) current: Arc<CurrentSnapshot<Policy>>,
    gateway: Gateway,
    lists: ToolListCache,
    search: SearchIndexCache,
}

impl ModelServer {
    pub(super) fn new(catalog: Catalog, policy: Policy, clock: &Arc<FakeClock>) -> Self {
        let current = Arc::new(CurrentSnapshot::new(catalog, policy));
        let gateway = Gateway::new(GatewayComponents {
            current: Arc::clone(&current),
            ledger: Arc::new(testkit::ledger::MemoryLedger::default()),
            clock: Arc::clone(clock) as _,
            credentials: Arc::new(testkit::context::NoopContext),
            mac_key: Secret::new("key"),
            approvals: None,
            options: GatewayOptions::default(),
        });
        let (lists, search) = (ToolListCache::default(), SearchIndexCache::with_small_segments());
        Self { current, gateway, lists, search }
    }

    /// Returns everything that a caller observes. Lists of many tools are read in part.
    pub(super) async fn observe(&self, who: &Principal, now: WallTime) -> Observation {
        let view = self.gateway.view_for(who, CallerType::Direct);
        let chain = self.gateway.view_for(who, CallerType::Chain);
        let search = self.search(&view).await;
        let names = |view: &CatalogView| {
            view.list_tools()
                .map(|it| format!("{} {:?} {}", it.name, it.tool_key, it.definition_digest))
                .collect()
        };
        let problems = view.full_catalog().list_sources().map(|source| {
            let problems = view.full_catalog().source_problems(&source.source).cloned();
            (source.source.to_string(), problems.map(|it| it.message).collect())
        });
        let found = NAMES.iter().map(|name| {
            let tool = view.find_tool(name).map(|(entry, _)| entry.name.to_string());
            let alias = self.lists.resolve_tool_name(&view, &name.replace(['.', '-'], "_"));
            (tool, alias)
        });
        Observation {
            tools: names(&view),
            chain_tools: names(&chain),
            fingerprint: view.fingerprint(None),
            counts: view.count_by_source().into_iter().map(|(k, v)| (k.to_string(), v)).collect(),
            problems: problems.collect(),
            found: found.collect(),
            decisions: decisions(&view, who, now),
            lists: self.lists(&view),
            search,
        }
    }

    fn lists(&self, view: &CatalogView) -> Vec<String> {
        let formats = [
            (ProviderFormat::Mcp, NameStyle::Native),
            (ProviderFormat::OpenaiChat, NameStyle::Safe),
            (ProviderFormat::Anthropic, NameStyle::Safe),
        ];
        let list = |(format, style): (ProviderFormat, NameStyle)| {
            let list_kind = ListKind::AllTools(format, style);
            let key = ListKey { view: view.id, list_kind, from: None };
            let list = self.lists.get_or_build(key, || {
                let rendered = self.lists.render_view(view, format, style);
                let tools = tools_after(view, None)?
                    .take(40)
                    .filter_map(|entry| Some((entry.name.as_str(), rendered.tool_json(entry)?)));
                Some(CachedList::from_page(tools, |json| json))
            });
            String::from_utf8(list.unwrap().array.to_vec()).unwrap()
        };
        formats.into_iter().map(list).collect()
    }

    async fn search(&self, view: &CatalogView) -> String {
        let request = SearchRequest {
            queries: ["append a note", "edition 2", "finds notez; bulk"]
                .map(str::to_owned)
                .to_vec(),
            limit: 20,
            budget: None,
        };
        let reply = self.search.search_view(view, None, &request).await;
        serde_json::to_value(reply).unwrap()["results"].to_string()
    }
}

/// Decisions on two calls of each tool, with the reasons for approvals.
fn decisions(view: &CatalogView, who: &Principal, now: WallTime) -> Vec<String> {
    let calls = [r#"{"n":3,"note":"x"}"#, r#"{"n":7}"#];
    let calls = calls.map(|text| CallArguments::parse(text).unwrap());
    let tools = view.list_tools().filter(|it| !it.name.as_str().contains("tool1"));
    let decided = tools.flat_map(|entry| {
        let (_, residual) = view.find_by_key(&entry.tool_key).unwrap();
        calls.iter().map(move |arguments| {
            let request = PolicyRequest {
                caller: who.caller(),
                rights: who.rights_class(),
                caller_type: CallerType::Direct,
                tool: ToolFacts::from_tool(&entry.tool_key, &entry.tool),
                arguments,
                now,
                taint: SessionTaint::default(),
            };
            let reasons = residual.approval_reasons(&request);
            format!("{} {:?} {reasons:?}", entry.name, decide_call(residual, &request))
        })
    });
    decided.collect()
}

/// What a caller observes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) tools: Vec<String>,
    chain_tools: Vec<String>,
    fingerprint: u64,
    counts: BTreeMap<String, usize>,
    problems: BTreeMap<String, Vec<String>>,
    found: Vec<(Option<String>, String)>,
    pub(super) decisions: Vec<String>,
    lists: Vec<String>,
    search: String,
}

/// Returns the time of the clock of both servers.
pub(super) fn wall_now(clock: &FakeClock) -> WallTime {
    clock.wall_now()
}
