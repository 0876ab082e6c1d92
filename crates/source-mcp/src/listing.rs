//! Lists all items of a server, page by page, within limits of count, bytes and time.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use ::mcp::events::EVENTS_EXTENSION;
use ::mcp::extensions::SKILLS_EXTENSION;
use ::mcp::headers::ArgumentHeaders;
use ::mcp::{RpcError, error_codes};
use serde_json::value::RawValue;
use tool::source::SourceErrorKind;
use tool::{CatalogItem, Executor, Json, Offer, Problem, SourceListing, Tool};

use super::connection::McpConnection;
use super::definition_parser::{self, ParsedDefinition};
use super::delivery_errors::{describe_rpc_error, to_connection_error};
use super::in_flight_request::RpcOutcome;
use super::list_page::{UpstreamListKind, parse_page};
use super::listed_items::ListedItems;
use super::method_executor::method_offers;
use super::negotiation::ServerCapabilities;
use super::pipe_connector::ConnectionError;
use super::restart_backoff::EXIT_WINDOW;
use super::server_supervisor::ServerSupervisor;
use super::skill_files::SkillFiles;
use super::skill_parser;
use super::start_monitoring::LastExit;
use super::tool_executor::{McpToolExecutor, NotCallable, TaskSupport};
use source_layers::ToolSelection;

/// Maximum problems that are listed one by one; further ones are only counted.
const MAX_PROBLEMS: usize = 100;

/// Lists all items over `connection`.
///
/// # Errors
/// Fails if the tools cannot be listed. If prompts or resources fail, the listing has a problem for
/// each.
pub(super) async fn fetch_listing(
    upstream: &Arc<ServerSupervisor>,
    connection: &Arc<McpConnection>,
) -> Result<SourceListing, ConnectionError> {
    // Read before the first request, so that a change during the listing counts as a change.
    let revision = upstream.revision();
    let (items, problems) = fetch_items(upstream, connection).await?;
    let items = Arc::new(items);
    upstream.store_items(&items).await;
    let mut listing = build_listing(upstream, &items, problems);
    let stray = connection.context.stray_output.to_problem(&upstream.display_address);
    listing.problems.extend(stray);
    listing.revision = revision;
    Ok(listing)
}

/// Requests all items, as received, within the limits.
///
/// # Errors
/// Fails if the tools cannot be listed.
pub(super) async fn fetch_items(
    upstream: &ServerSupervisor,
    connection: &Arc<McpConnection>,
) -> Result<(ListedItems, Vec<Problem>), ConnectionError> {
    let mut items = ListedItems::new(connection);
    let mut problems = Vec::new();
    let capabilities = items.capabilities();
    for kind in UpstreamListKind::ALL {
        if !is_list_supported(capabilities, upstream, kind) {
            continue;
        }
        match fetch_pages((upstream, connection), kind, &mut items).await {
            Ok(problem) => problems.extend(problem),
            Err(fault) if kind == UpstreamListKind::Tools && capabilities.tools.is_some() => {
                return Err(fault);
            }
            // A server that declares no tools may still have some, and need not.
            Err(_) if kind == UpstreamListKind::Tools => {}
            Err(fault) => {
                let place = format!("{} of `{}`", kind.method(), upstream.name);
                problems.push(fault.to_problem(&place));
            }
        }
    }
    Ok((items, problems))
}

/// What the server says of itself, with the extensions that are relayed and no others.
fn relayed_description(upstream: &ServerSupervisor, received: &Json) -> Json {
    let Some(capabilities) = received.get("capabilities") else { return received.clone() };
    let Some(declared) = capabilities.get("extensions") else { return received.clone() };
    let capabilities = match upstream.options.extensions.select(Some(&declared)) {
        Some(extensions) => capabilities.with_member("extensions", &extensions),
        None => capabilities.without_member("extensions"),
    };
    received.with_member("capabilities", &capabilities)
}

/// Builds the listing of these items, with `problems` of fetching them.
pub(super) fn build_listing(
    upstream: &Arc<ServerSupervisor>,
    items: &ListedItems,
    problems: Vec<Problem>,
) -> SourceListing {
    let mut builder = ListingBuilder::new(upstream, items.requires_request_headers());
    for problem in problems {
        builder.add_problem(problem);
    }
    for (index, (kind, raw)) in items.iter().enumerate() {
        if let Err(problem) = builder.build_offer(kind, (index, raw)) {
            builder.add_problem(problem);
        }
    }
    builder.report_unmatched_overrides();
    let skills = builder.offers.iter().filter_map(|offer| match &offer.item {
        CatalogItem::Skill(skill) => Some(skill),
        _ => None,
    });
    let skill_files = Arc::new(SkillFiles::from_skills(skills));
    let ListingBuilder { mut offers, mut problems, omitted_problems: unnamed, .. } = builder;
    let capabilities = items.initialize_result().get("capabilities");
    let declared = capabilities.and_then(|capabilities| capabilities.get("extensions"));
    let (can, era) = (items.capabilities(), items.era());
    offers.extend(method_offers(upstream, (can, era), declared.as_ref(), &skill_files));
    if unnamed > 0 {
        problems.push(Problem::new(
            upstream.name.as_str(),
            format!("{unnamed} more problems in the same list"),
        ));
    }
    problems.extend(upstream.last_exit().map(|LastExit { error, count }| {
        let message = format!(
            "is running again; it ended {} within {} minutes, the last time because it {}",
            if count == 1 { "once".to_owned() } else { format!("{count} times") },
            EXIT_WINDOW.as_secs() / 60,
            error.message
        );
        Problem::new(upstream.display_address.clone(), message)
    }));
    problems.extend(
        upstream
            .token_provider()
            .and_then(|account| account.scope_problem(&upstream.display_address)),
    );
    SourceListing {
        revision: upstream.revision(),
        offers,
        problems,
        initialize_result: Some(relayed_description(upstream, items.initialize_result())),
        trusted_annotations: upstream.options.overrides.trusts_annotations,
        ..SourceListing::default()
    }
}

/// Creates the error for a list request that the server answered with an error.
fn error_reply(method: &str, error: &RpcError) -> ConnectionError {
    let why = describe_rpc_error(error);
    ConnectionError::new(
        SourceErrorKind::ErrorReply,
        format!("returned an error for `{method}`: {why}"),
    )
}

/// Whether to request lists of this kind. Tools are requested in any case.
fn is_list_supported(
    can: ServerCapabilities,
    upstream: &ServerSupervisor,
    kind: UpstreamListKind,
) -> bool {
    match kind {
        UpstreamListKind::Tools => true,
        UpstreamListKind::Prompts => can.prompts.is_some(),
        UpstreamListKind::Resources | UpstreamListKind::Templates => can.resources.is_some(),
        UpstreamListKind::Skills => {
            can.skills.is_some() && upstream.options.extensions.allows(SKILLS_EXTENSION)
        }
        UpstreamListKind::Events => {
            can.events && upstream.options.extensions.allows(EVENTS_EXTENSION)
        }
    }
}

/// Requests all pages of one kind. Returns a problem if the list ends early.
async fn fetch_pages(
    (upstream, link): (&ServerSupervisor, &Arc<McpConnection>),
    kind: UpstreamListKind,
    items: &mut ListedItems,
) -> Result<Option<Problem>, ConnectionError> {
    let mut cursors = HashSet::new();
    let mut cursor = None;
    loop {
        let params = match &cursor {
            Some(cursor) => Json::encode(&serde_json::json!({"cursor": cursor})),
            None => Json::empty_object(),
        };
        let method = kind.method();
        let outcome = link
            .call_method(method, &params)
            .await
            .map_err(|why| to_connection_error(method, why))?;
        let result = match outcome {
            RpcOutcome::Result(result) => result.bytes().clone(),
            RpcOutcome::InvalidResult(invalid) => invalid.raw_result,
            // Servers may have resources without templates, and many lack the method.
            RpcOutcome::Error(error)
                if kind == UpstreamListKind::Templates
                    && error.code == error_codes::METHOD_NOT_FOUND =>
            {
                return Ok(None);
            }
            RpcOutcome::Error(error) => return Err(error_reply(method, &error)),
        };
        let page = parse_page(kind, &result).map_err(|why| {
            ConnectionError::new(
                SourceErrorKind::MalformedReply,
                format!("returned an invalid response to `{method}`: {why}"),
            )
        })?;
        for raw in page.items {
            if !items.add_item(kind, raw, &upstream.options.limits) {
                let bounds = &upstream.options.limits;
                let message = format!(
                    "offers more than {} definitions or {} bytes; the rest is omitted",
                    bounds.max_definitions, bounds.max_definition_bytes
                );
                return Ok(Some(Problem::new(upstream.name.as_str(), message)));
            }
        }
        match page.next_cursor {
            None => return Ok(None),
            Some(next) if cursors.insert(next.clone()) => cursor = Some(next),
            Some(_) => {
                let place = format!("{} of `{}`", kind.method(), upstream.name);
                let message = "returned the same page twice; only the pages before it are used";
                return Ok(Some(Problem::new(place, message)));
            }
        }
    }
}

struct ListingBuilder<'a> {
    supervisor: &'a Arc<ServerSupervisor>,
    offers: Vec<Offer>,
    problems: Vec<Problem>,
    /// Problems that were only counted.
    omitted_problems: usize,
    names: HashSet<(&'static str, String)>,
    tool_names: BTreeSet<String>,
    /// Whether headers must repeat arguments.
    requires_request_headers: bool,
}

impl<'a> ListingBuilder<'a> {
    fn new(upstream: &'a Arc<ServerSupervisor>, requires_request_headers: bool) -> Self {
        Self {
            supervisor: upstream,
            offers: Vec::new(),
            problems: Vec::new(),
            omitted_problems: 0,
            names: HashSet::new(),
            tool_names: BTreeSet::new(),
            requires_request_headers,
        }
    }

    fn add_problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.omitted_problems += 1;
        }
    }

    fn build_offer(
        &mut self,
        kind: UpstreamListKind,
        raw: (usize, &RawValue),
    ) -> Result<(), Problem> {
        let (source, marks) = (&self.supervisor.name, &self.supervisor.options.overrides);
        let (mut mirror, mut support) = (None, TaskSupport::Forbidden);
        let (own, item, problem) = match kind {
            UpstreamListKind::Tools => {
                let ParsedDefinition { upstream_name: own, item, problem } =
                    definition_parser::parse_tool(source, marks, raw)?;
                if !marks.is_offered(&own) {
                    self.tool_names.insert(own);
                    return Ok(());
                }
                mirror = self.parse_argument_headers(&own, &item)?;
                support = TaskSupport::from_definition(&item.raw_definition);
                (own, CatalogItem::Tool(Arc::new(item)), problem)
            }
            UpstreamListKind::Prompts => {
                let ParsedDefinition { upstream_name: own, item, problem } =
                    definition_parser::parse_prompt(source, raw)?;
                (own, CatalogItem::Prompt(item), problem)
            }
            UpstreamListKind::Resources | UpstreamListKind::Templates => {
                let ParsedDefinition { upstream_name: own, item, problem } =
                    definition_parser::parse_resource(kind == UpstreamListKind::Templates, raw)?;
                (own, CatalogItem::Resource(item), problem)
            }
            UpstreamListKind::Skills => {
                let skill = skill_parser::parse_skill(raw)?;
                (skill.uri.clone(), CatalogItem::Skill(skill), None)
            }
            UpstreamListKind::Events => {
                let ParsedDefinition { upstream_name: own, item, problem } =
                    definition_parser::parse_event(source, raw)?;
                (own, CatalogItem::Event(item), problem)
            }
        };
        if !self.names.insert((kind.method(), own.clone())) {
            let place = format!(
                "{} `{}`",
                kind.method(),
                tool::display_text::escape_and_truncate(&own, 80)
            );
            return Err(Problem::new(place, "is defined twice; the first definition is used"));
        }
        let executor: Arc<dyn Executor> = if kind == UpstreamListKind::Tools {
            self.tool_names.insert(own.clone());
            let definition = self.supervisor.is_lazy().then(|| raw.1.get().into());
            let upstream = Arc::clone(self.supervisor);
            Arc::new(McpToolExecutor::new(upstream, (&own, definition), (mirror, support)))
        } else {
            Arc::new(NotCallable)
        };
        if let Some(problem) = problem {
            self.add_problem(problem);
        }
        self.offers.push(Offer { item, executor });
        Ok(())
    }

    /// Parses the header annotations of arguments. If they are invalid, the tool cannot be called
    /// over HTTP.
    fn parse_argument_headers(
        &self,
        own: &str,
        tool: &Tool,
    ) -> Result<Option<ArgumentHeaders>, Problem> {
        match ArgumentHeaders::from_schema(&tool.input_schema.to_value()) {
            Ok(mirror) => Ok(Some(mirror)),
            Err(_) if !self.requires_request_headers => Ok(None),
            Err(why) => {
                let place = format!("tool `{}`", tool::display_text::escape_and_truncate(own, 80));
                let fix = "correct the annotation in the tool's input schema at the server";
                Err(Problem::new(place, format!("is not offered: {why}")).with_help(fix))
            }
        }
    }

    /// Reports overrides for tools that do not exist: a typo may leave a tool without its override.
    fn report_unmatched_overrides(&mut self) {
        let marks = &self.supervisor.options.overrides;
        let mut problems = Vec::new();
        let no_tools = ToolSelection::NONE;
        let selections = [
            ("read_only", &marks.read_only),
            ("idempotent", &marks.idempotent),
            ("destructive", marks.destructive.as_ref().unwrap_or(&no_tools)),
            ("chain", &marks.callable_by_programs),
        ];
        let marked = selections.map(|(mark, marked)| (mark, marked.names().collect::<Vec<_>>()));
        let sets = [
            ("disabled_tools", Some(&marks.disabled_tools)),
            ("includeTools", marks.enabled_tools.as_ref()),
        ];
        let sets = sets
            .map(|(mark, names)| (mark, names.into_iter().flatten().map(String::as_str).collect()));
        for (mark, names) in marked.into_iter().chain(sets) {
            for name in names.into_iter().filter(|name| !self.tool_names.contains(*name)) {
                let message = format!("`{mark}` names `{name}`, which the server does not offer");
                let fix = "write the server's own name, without the prefix of the source";
                problems.push(Problem::new(self.supervisor.name.as_str(), message).with_help(fix));
            }
        }
        for problem in problems {
            self.add_problem(problem);
        }
    }
}
