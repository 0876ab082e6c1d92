//! Growth with the number of prompts and resources: a page of their lists at `/mcp`, and all pages.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use catalog::{Catalog, CurrentSnapshot, SourceCatalog};
use gateway::Gateway;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use identity::Principal;
use intake::{SourceSupervisor, SupervisorTimeouts};
use ledger::{FileLedger, LedgerOptions, OsDisk};
use policy::Policy;
use serde_json::{Value, json};
use server_core::{
    CallCounters, EventLog, Hosts, KeyStore, ListingOptions, PendingCallOptions, ServerComponents,
    TokenIssuers,
};
use server_mcp::McpServerState;
use store::MemoryStore;
use tool::{
    CatalogItem, Json, Offer, Org, PermissionLevel, Prompt, Resource, Secret, SideEffects,
    SourceListing, SourceName, SourceTrust, Tool, ToolName, ToolTraits,
};

use super::catalog_fixture::build_caller;
use super::growth_row::{GrowthPoint, GrowthRow};
use crate::allocation_count::AllocationCounter;
use crate::policy::policy_fixture::{echo_executor, fixed_clock, gateway_with_snapshot};

/// Sizes of a run: multiples of a page and of the sources.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemSizes {
    pub(super) prompts: &'static [usize],
    pub(super) resources: &'static [usize],
    pub(super) sources: usize,
}

/// Servers that measure the same page; the report has the median.
const PAGE_SERVERS: usize = 5;

/// A list at `/mcp`.
#[derive(Debug, Clone, Copy)]
struct ItemList {
    method: &'static str,
    member: &'static str,
    /// Its items, in the rows.
    grows: &'static str,
    /// Names of the rows of its last page and of all pages.
    rows: [&'static str; 2],
}

const PROMPTS: ItemList = ItemList {
    method: "prompts/list",
    member: "prompts",
    grows: "prompts",
    rows: ["the last page of 1,000 prompts at `/mcp`", "all pages of prompts at `/mcp`"],
};
const RESOURCES: ItemList = ItemList {
    method: "resources/list",
    member: "resources",
    grows: "resources",
    rows: ["the last page of 1,000 resources at `/mcp`", "all pages of resources at `/mcp`"],
};

/// Measures the rows of both lists; `folder` is for records that nobody writes.
pub(super) async fn measure_item_rows(
    sizes: ItemSizes,
    folder: &Path,
) -> Result<Vec<GrowthRow>, String> {
    let mut rows = Vec::new();
    for (list, numbers) in [(PROMPTS, sizes.prompts), (RESOURCES, sizes.resources)] {
        let [page, all] = list.rows;
        let mut page = GrowthRow::new(page, list.grows, "allocations", 0.01);
        let mut all = GrowthRow::new(all, list.grows, "bytes", 1.01);
        for number in numbers {
            let fixture = ItemFixture::new((list, *number), sizes.sources, folder).await?;
            let (whole, cursor) = fixture.measure_all(*number).await?;
            all.points.push(whole);
            page.points.push(fixture.measure_page(*number, &cursor).await?);
        }
        rows.extend([page, all]);
    }
    Ok(rows)
}

/// Sources with items, as one caller lists them.
struct ItemFixture {
    list: ItemList,
    gateway: Arc<Gateway>,
    intake: Arc<SourceSupervisor>,
    keys: Arc<KeyStore>,
    ledger: Arc<FileLedger>,
    caller: Principal,
}

impl ItemFixture {
    async fn new(
        (list, items): (ItemList, usize),
        sources: usize,
        folder: &Path,
    ) -> Result<Self, String> {
        let catalogs = (0..sources).map(|source| build_source(list, (source, items / sources)));
        let catalogs = catalogs.collect::<Result<Vec<_>, String>>()?;
        let catalog = Arc::new(Catalog::from_sources(1, catalogs));
        let current = Arc::new(CurrentSnapshot::new(catalog, Policy::default()));
        let timeouts = SupervisorTimeouts::default();
        let intake =
            SourceSupervisor::start_sources(Org::default(), Vec::new(), timeouts, fixed_clock());
        let keys = KeyStore::load(Arc::new(MemoryStore::new()), None).await;
        let options = LedgerOptions::default();
        let folder = folder.join(format!("{}{items}", list.member));
        let ledger = FileLedger::open_directory(&folder, Arc::new(OsDisk), fixed_clock(), options);
        Ok(Self {
            list,
            gateway: Arc::new(gateway_with_snapshot(current)),
            intake: Arc::new(intake),
            keys: Arc::new(keys.map_err(|error| error.to_string())?.0),
            ledger: Arc::new(ledger.map_err(|error| error.to_string())?.0),
            caller: build_caller(0)?,
        })
    }

    /// A server that has cached no list.
    fn new_server(&self) -> McpServerState {
        McpServerState::new(ServerComponents {
            gateway: Arc::clone(&self.gateway),
            intake: Arc::clone(&self.intake),
            keys: Arc::clone(&self.keys),
            issuers: Arc::new(TokenIssuers::default()),
            records: Arc::clone(&self.ledger) as _,
            record_inspector: None,
            call_counters: CallCounters::default(),
            clock: fixed_clock(),
            events: EventLog::new(fixed_clock()),
            webhooks: None,
            allowed_hosts: Hosts::default(),
            max_body_bytes: server_core::DEFAULT_MAX_BODY_BYTES,
            pending_call_options: PendingCallOptions::default(),
            listing_options: ListingOptions::default(),
            sentence_vectors: None,
            search_learning: None,
            programs: None,
            node_registry: None,
            package_registry: None,
            plugins: None,
            configuration: None,
            installation_secret: Secret::new("key"),
        })
    }

    /// Requests one page and returns its bytes.
    async fn request_page(
        &self,
        server: &McpServerState,
        cursor: Option<&str>,
    ) -> Result<bytes::Bytes, String> {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": self.list.method, "params": params });
        let request = Request::post("/mcp")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Body::from(message.to_string()))
            .map_err(|error| error.to_string())?;
        let response = server_mcp::handle_post(server, &self.caller, None, request).await;
        let response = response.map_err(|error| error.message().to_owned())?;
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok(body.to_bytes())
    }

    /// Measures all pages; returns the cursor of the last one beside it.
    async fn measure_all(&self, items: usize) -> Result<(GrowthPoint, String), String> {
        let server = self.new_server();
        let (begun, mut bytes, mut found) = (Instant::now(), 0, 0);
        let (mut cursor, mut last) = (None, None);
        loop {
            let body = self.request_page(&server, cursor.as_deref()).await?;
            bytes += body.len();
            let page: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            let member = |name: &str| page.get("result").and_then(|result| result.get(name));
            found += member(self.list.member).and_then(Value::as_array).map_or(0, Vec::len);
            let Some(next) = member("nextCursor").and_then(Value::as_str) else { break };
            (last, cursor) = (Some(next.to_owned()), Some(next.to_owned()));
        }
        let micros = begun.elapsed().as_secs_f64() * 1e6;
        if found != items {
            return Err(format!("{found} of {items} items of `{}` are listed", self.list.method));
        }
        let point = GrowthPoint { size: items, micros, count: bytes as f64 };
        Ok((point, last.ok_or("the list has one page")?))
    }

    /// Measures the page after this cursor at servers that have cached none.
    async fn measure_page(&self, items: usize, cursor: &str) -> Result<GrowthPoint, String> {
        let (mut times, mut counts) = (Vec::new(), Vec::new());
        for _ in 0..PAGE_SERVERS {
            let server = self.new_server();
            let counter = AllocationCounter::start();
            let begun = Instant::now();
            let body = self.request_page(&server, Some(cursor)).await?;
            times.push(begun.elapsed());
            counts.push(counter.count().allocations);
            drop(body);
        }
        times.sort_unstable();
        counts.sort_unstable();
        let time = times.get(PAGE_SERVERS / 2).copied().unwrap_or_default();
        let count = counts.get(PAGE_SERVERS / 2).copied().unwrap_or_default();
        Ok(GrowthPoint { size: items, micros: time.as_secs_f64() * 1e6, count: count as f64 })
    }
}

/// Builds an MCP server with items of one list, and the method that they are for.
fn build_source(
    list: ItemList,
    (number, items): (usize, usize),
) -> Result<Arc<SourceCatalog>, String> {
    let source = SourceName::new(format!("source{number}")).map_err(|error| error.to_string())?;
    let offer = |item| Offer { item, executor: echo_executor() };
    let method = if list.grows == PROMPTS.grows { "mcp.prompts.get" } else { "mcp.resources.read" };
    let mut offers = vec![offer(CatalogItem::Method(Arc::new(build_method(method)?)))];
    for item in 0..items {
        let item = if list.grows == PROMPTS.grows {
            CatalogItem::Prompt(build_prompt((number, item))?)
        } else {
            CatalogItem::Resource(build_resource((number, item)))
        };
        offers.push(offer(item));
    }
    let empty = SourceCatalog::new_starting(source, "mcp", SourceTrust::Full);
    let listing = SourceListing { offers, ..SourceListing::default() };
    Ok(Arc::new(empty.with_listing(&Org::default(), listing)))
}

fn build_method(name: &str) -> Result<Tool, String> {
    let traits = ToolTraits {
        min_level: PermissionLevel::Guest,
        effects: SideEffects::read_only(),
        ..ToolTraits::default()
    };
    Ok(Tool {
        name: ToolName::new(name).map_err(|error| error.to_string())?,
        title: None,
        description: String::new(),
        input_schema: Json::encode(&json!({ "type": "object" })),
        output_schema: None,
        traits,
        raw_definition: Json::empty_object(),
    })
}

fn build_prompt((source, item): (usize, usize)) -> Result<Prompt, String> {
    let own = format!("review_{item:06}");
    let name = ToolName::new(format!("source{source}.{own}")).map_err(|error| error.to_string())?;
    let argument =
        json!({ "name": "order", "description": "Number of the order.", "required": true });
    let definition = json!({
        "name": own, "description": format!("Reviews order {item} by the rules of the house."),
        "arguments": [argument],
    });
    Ok(Prompt { name, raw_definition: Json::encode(&definition) })
}

fn build_resource((source, item): (usize, usize)) -> Resource {
    let uri = format!("file:///inventory/{source:03}/{item:06}.json");
    let definition = json!({
        "uri": uri, "name": format!("Item {item}"), "mimeType": "application/json",
        "description": format!("State of item {item} of the inventory."),
    });
    Resource { uri, is_template: false, raw_definition: Json::encode(&definition) }
}
