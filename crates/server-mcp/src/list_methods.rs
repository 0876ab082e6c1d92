//! The handlers of `tools/list`, `prompts/list`, `resources/list`, `resources/templates/list` and
//! `skills/list`, which send cached bytes.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{CatalogEntry, SourceCatalog, own_item_name};
use formats::ProviderFormat;
use gateway::CatalogView;
use identity::Principal;
use mcp::{ProtocolEra, encode};
use tool::{Json, Skill};

use super::endpoint::{Endpoint, is_mcp_source};
use super::listing_mode::ToolListing;
use super::request_context::RequestContext;
use super::request_error::RequestError;
use super::response_body::{self, BodyParts, McpResponse};
use super::search_mode;
use super::source_items::{
    self, PROMPT_METHOD, RESOURCE_METHOD, endpoint_source, listed_resources_after,
};
use super::uri_rewriting::{qualify_if_shared, rewrite_skill, rewrite_tool_link};
use server_core::ServerState;
use server_core::gzip_response;
use server_core::program_runner::describe_run_program;
use server_core::tool_lists::{CachedList, ListKey, ListKind, ToolListCache, tools_after};
use server_core::tool_search::deferred_definition;

/// Time for which a client may cache a list, in milliseconds, unless it is notified of a change.
const LIST_TTL_MS: &str = "10000";

/// Handles the method `tools/list`.
pub(crate) fn list_tools(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    let lists = &request.caller.state.tool_lists;
    let to = (&**request.caller.state, request.caller.principal);
    let names = match request.caller.endpoint {
        Endpoint::AllSources { names, .. } => *names,
        Endpoint::Source(source) => {
            let what = ListKind::SourcePage("tools", source.clone());
            return list_page(request, ListWords::TOOLS, (&view, what), |from| {
                source_tools_page(to, (request.caller.endpoint, &view), from)
            });
        }
    };
    let listing = request.tool_listing(&view);
    let what = match listing {
        ToolListing::Full => ListKind::ToolPage(names),
        ToolListing::Deferred => ListKind::DeferredPage(names),
        ToolListing::Search => ListKind::SearchPage(names),
        ToolListing::Mixed => ListKind::MixedPage(names),
    };
    list_page(request, ListWords::TOOLS, (&view, what), |from| {
        let rendered = lists.render_view(&view, ProviderFormat::Mcp, names);
        let alias_of = |entry: &CatalogEntry| {
            let name = entry.name.as_str();
            rendered.names.alias_of(name).unwrap_or(name).to_owned()
        };
        let written = |entry: &CatalogEntry| {
            describe_run_program(to, entry, (ProviderFormat::Mcp, &alias_of(entry)))
                .or_else(|| rendered.tool_json(entry))
                .map(|json| rewrite_tool_link(&view, entry, json))
        };
        let deferral = request.tool_deferral(&view, listing);
        match listing {
            ToolListing::Full => {
                let all = tools_after(&view, from)?;
                let all = all.filter_map(|it| Some((it.name.as_str(), written(it)?)));
                Some(CachedList::from_page(all, |json| json))
            }
            ToolListing::Deferred => {
                let own = search_mode::deferred_tools(&view).filter(|_| from.is_none());
                let own = own.into_iter().map(|json| (search_mode::DESCRIBE_TOOLS, json));
                let all = tools_after(&view, from)?;
                let one_line = |it: &CatalogEntry| deferred_definition(&alias_of(it), &it.tool);
                let all = all.filter_map(|it| {
                    let deferred = deferral.is_deferred(it);
                    let json = if deferred { one_line(it) } else { written(it)? };
                    Some((it.name.as_str(), json))
                });
                Some(CachedList::from_page(own.chain(all), |json| json))
            }
            ToolListing::Search | ToolListing::Mixed => {
                let own = search_mode::search_tools_list().filter(|_| from.is_none());
                let all = tools_after(&view, from)?.filter(|it| {
                    !deferral.is_deferred(it) && !search_mode::is_search_tool(it.name.as_str())
                });
                let all = all.filter_map(|it| Some((it.name.as_str(), written(it)?)));
                Some(CachedList::from_page(own.chain(all), |json| json))
            }
        }
    })
}

/// Lists the tools of one source: an MCP server's definitions as received, under their native
/// names, with the hints that apply here.
fn source_tools_page(
    to: (&ServerState, &Principal),
    (scope, view): (&Endpoint, &CatalogView),
    from: Option<&str>,
) -> Option<CachedList> {
    let received = scope.source_catalog(view).ok()?.is_some_and(|shelf| is_mcp_source(shelf));
    let source = scope.source().unwrap_or_default();
    // The tools of a source follow one another.
    let after = match from {
        Some(name) => {
            view.find_tool(name).filter(|(entry, _)| scope.contains_tool(entry))?;
            Some(view.tools_after(name)?.take_while(|entry| scope.contains_tool(entry)))
        }
        None => None,
    };
    let all = after.is_none().then(|| view.tools_of(source));
    let of_source = all.into_iter().flatten().chain(after.into_iter().flatten());
    let written = of_source.map(|entry| {
        let name = entry.tool_key.name.as_str();
        let json = if received {
            formats::mcp::apply_hints(entry.tool.raw_definition.clone(), &entry.tool.traits)
        } else {
            let plain = || formats::mcp::render_tool(&entry.tool, name);
            describe_run_program(to, entry, (ProviderFormat::Mcp, name)).unwrap_or_else(plain)
        };
        (entry.name.as_str(), json)
    });
    Some(CachedList::from_page(written, |json| json))
}

/// Handles the method `prompts/list`.
pub(crate) fn list_prompts(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    let words = ListWords::PROMPTS;
    let Some(source) = endpoint_source(request, &view, PROMPT_METHOD)? else {
        let of_all = ListKind::CompanionPage(words.member);
        return list_page(request, words, (&view, of_all), |from| {
            let begin = match from {
                Some(name) => Some(source_items::listed_prompts_after(&view, name)?),
                None => None,
            };
            let all = items_of_sources(&view, PROMPT_METHOD, begin, |source| &source.prompts);
            let all = all.filter(|(_, it)| source_items::is_only_prompt(&view, it.name.as_str()));
            Some(CachedList::from_page(all.map(|(_, it)| (it.name.as_str(), it)), |prompt| {
                prompt.raw_definition.with_member("name", &Json::encode(prompt.name.as_str()))
            }))
        });
    };
    let of_source = ListKind::SourcePage(words.member, source.source.to_string());
    list_page(request, words, (&view, of_source), |from| {
        let prompts = from.map_or(Some(&*source.prompts), |own| source.prompts_after(own))?;
        let all = prompts.iter().map(|it| (own_item_name(&it.raw_definition), it));
        Some(CachedList::from_page(all, |prompt| prompt.raw_definition.clone()))
    })
}

/// Handles `resources/list` and `resources/templates/list`.
pub(crate) fn list_resources(
    request: &RequestContext<'_>,
    is_template: bool,
) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    let words = if is_template { ListWords::TEMPLATES } else { ListWords::RESOURCES };
    let Some(source) = endpoint_source(request, &view, RESOURCE_METHOD)? else {
        let of_all = ListKind::CompanionPage(words.member);
        return list_page(request, words, (&view, of_all), |from| {
            let begin = match from {
                Some(uri) => Some(listed_resources_after(&view, uri, is_template)?),
                None => None,
            };
            let of_kind = |source| SourceCatalog::resources_of_kind(source, is_template);
            let all = items_of_sources(&view, RESOURCE_METHOD, begin, of_kind);
            let all = all.map(|(source, resource)| {
                let uri = qualify_if_shared(&view, source.source.as_str(), &resource.uri);
                let name = uri.clone().map_or(Cow::Borrowed(resource.uri.as_str()), Cow::Owned);
                (name, (resource, uri))
            });
            Some(CachedList::from_page(all, |(resource, uri)| match uri {
                Some(uri) => resource.raw_definition.with_member(words.key, &Json::encode(&uri)),
                None => resource.raw_definition.clone(),
            }))
        });
    };
    let of_source = ListKind::SourcePage(words.member, source.source.to_string());
    list_page(request, words, (&view, of_source), |from| {
        let first = || Some(source.resources_of_kind(is_template));
        let all = from.map_or_else(first, |uri| source.resources_after(uri, is_template))?;
        let all = all.iter().map(|resource| (resource.uri.as_str(), resource));
        Some(CachedList::from_page(all, |resource| resource.raw_definition.clone()))
    })
}

/// Handles the method `skills/list` of the skills extension (SEP-2640).
pub(crate) fn list_skills(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    let words = ListWords::SKILLS;
    let Some(source) = endpoint_source(request, &view, RESOURCE_METHOD)? else {
        let of_all = ListKind::CompanionPage(words.member);
        return list_page(request, words, (&view, of_all), |from| {
            let begin = match from {
                Some(cursor) => Some(skills_after(&view, cursor)?),
                None => None,
            };
            let all = items_of_sources(&view, RESOURCE_METHOD, begin, |source| &source.skills);
            let named = all.map(|(source, skill)| {
                // Entries of two sources may have one URI, and a cursor names one entry.
                (format!("{} {}", source.source, skill.uri), (source.source.as_str(), skill))
            });
            Some(CachedList::from_page(named, |(source, skill)| {
                rewrite_skill(&view, source, skill)
            }))
        });
    };
    let of_source = ListKind::SourcePage(words.member, source.source.to_string());
    list_page(request, words, (&view, of_source), |from| {
        let skills = from.map_or(Some(&*source.skills), |uri| source.skills_after(uri))?;
        let all = skills.iter().map(|skill| (skill.uri.as_str(), skill));
        Some(CachedList::from_page(all, |skill| skill.raw_definition.clone()))
    })
}

/// The source and skills after the one that a cursor of all sources names.
fn skills_after<'v>(
    view: &'v CatalogView,
    cursor: &str,
) -> Option<source_items::ItemsAfter<'v, Skill>> {
    let (source, uri) = cursor.split_once(' ')?;
    view.find_method(source, RESOURCE_METHOD)?;
    let source = view.source_catalog(source)?;
    Some((source, source.skills_after(uri)?))
}

/// Items of all sources with a method, in the order of the catalog: from the beginning, or the rest of
/// one source and all of those after it.
fn items_of_sources<'v, T: 'v>(
    view: &'v CatalogView,
    method: &'static str,
    begin: Option<source_items::ItemsAfter<'v, T>>,
    items: impl Fn(&'v SourceCatalog) -> &'v [T] + 'v,
) -> impl Iterator<Item = (&'v Arc<SourceCatalog>, &'v T)> {
    let after = begin.map(|(source, _)| source.source.as_str());
    let others = view.sources_with_method_after(method, after);
    let others = others.map(move |source| (source, items(source)));
    let all = begin.into_iter().chain(others);
    all.flat_map(|(source, items)| items.iter().map(move |item| (source, item)))
}

/// Handles the method `skills/get`: the entry as it is pinned, without a call of the source.
pub(crate) fn get_skill(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    endpoint_source(request, &view, RESOURCE_METHOD)?;
    let uri = request.require_uri()?;
    let (item, skill) = source_items::find_skill(request, &view, &uri)?;
    let entry = match request.caller.endpoint {
        Endpoint::AllSources { .. } => rewrite_skill(&view, item.source.source.as_str(), &skill),
        Endpoint::Source(_) => skill.raw_definition,
    };
    let mut result = Json::object_from([("skill", &entry)]);
    if request.era == ProtocolEra::Stateless {
        result = result
            .with_member("ttlMs", &Json::from_trusted(LIST_TTL_MS.to_owned()))
            .with_member("cacheScope", &Json::encode("private"));
    }
    Ok(request.encode_result(&result))
}

/// The words of one list in MCP and in errors.
#[derive(Debug, Clone, Copy)]
struct ListWords {
    /// The member of the result that holds the list.
    member: &'static str,
    /// The word for an entry.
    entry: &'static str,
    /// The member of an entry by which clients name it.
    key: &'static str,
}

impl ListWords {
    const SKILLS: Self = Self { member: "skills", entry: "skill", key: "uri" };
    const TOOLS: Self = Self { member: "tools", entry: "tool", key: "name" };
    const PROMPTS: Self = Self { member: "prompts", entry: "prompt", key: "name" };
    const RESOURCES: Self = Self { member: "resources", entry: "resource", key: "uri" };
    const TEMPLATES: Self =
        Self { member: "resourceTemplates", entry: "template", key: "uriTemplate" };
}

/// Responds with one page of a list, which `join` builds if it is not cached.
fn list_page(
    request: &RequestContext<'_>,
    ListWords { member, entry, .. }: ListWords,
    (view, what): (&CatalogView, ListKind),
    join: impl FnOnce(Option<&str>) -> Option<CachedList>,
) -> Result<McpResponse, RequestError> {
    let from = parse_cursor(request)?;
    let lists: &ToolListCache = &request.caller.state.tool_lists;
    let key = ListKey { view: view.id, list_kind: what, from: from.clone() };
    let kept = lists.get_or_build(key, || join(from.as_deref())).ok_or_else(|| {
        RequestError::invalid_params(format!(
            "the {entry} of the cursor no longer exists; list from the beginning"
        ))
    })?;
    let mut head = encode::result_prefix(request.request_id);
    head.extend_from_slice(match request.era {
        ProtocolEra::Stateless => br#"{"resultType":"complete",""#,
        ProtocolEra::Handshake => br#"{""#,
    });
    head.extend_from_slice(member.as_bytes());
    head.extend_from_slice(br#"":"#);
    let mut tail = String::new();
    if let Some(next) = &kept.next {
        tail.push_str(r#","nextCursor":"#);
        tail.push_str(Json::encode(next).as_str());
    }
    if request.era == ProtocolEra::Stateless {
        tail.push_str(r#","ttlMs":"#);
        tail.push_str(LIST_TTL_MS);
        tail.push_str(r#","cacheScope":"private""#);
    }
    tail.push('}');
    tail.push_str(encode::RESULT_SUFFIX);
    if gzip_response::accepts_gzip(request.headers.map)
        && let Some(packed) = kept.gzip_body()
    {
        return Ok(response_body::gzip_response(packed.wrap_pieces(&head, tail.as_bytes())));
    }
    Ok(response_body::json_response(
        http::StatusCode::OK,
        BodyParts::new(head, kept.array, tail.into()),
    ))
}

fn parse_cursor(request: &RequestContext<'_>) -> Result<Option<String>, RequestError> {
    let cursor = request.named_params.cursor.as_ref().filter(|cursor| cursor.kind() != "null");
    cursor.map(|cursor| super::request_context::require_string("cursor", Some(cursor))).transpose()
}
