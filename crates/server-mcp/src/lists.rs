//! The handlers of `tools/list`, `prompts/list`, `resources/list` and `resources/templates/list`,
//! which send cached bytes.

use catalog::Entry;
use formats::Format;
use gateway::View;
use identity::Principal;
use mcp::{Era, write};
use tool::Json;

use super::asked::Asked;
use super::body::{self, Parts, Reply};
use super::refused::Refused;
use super::scope::{Scope, speaks_mcp};
use server_core::Doors;
use server_core::lists::{Kept, Key, Lists, What, behind};
use server_core::packed;
use server_core::programs::described;

/// Time for which a client may cache a list, in milliseconds, unless it is notified of a change.
const TTL: &str = "10000";

/// Handles the method `tools/list`.
pub(crate) fn tools(asked: &Asked<'_>) -> Result<Reply, Refused> {
    let view = asked.who.view();
    let lists = &asked.who.doors.lists;
    let to = (&**asked.who.doors, asked.who.principal);
    let what = match asked.who.scope {
        Scope::All(names) => What::Tools(*names),
        Scope::Source(source) => What::Of("tools", source.clone()),
    };
    page(asked, ("tools", "tool"), (&view, what), |from| match asked.who.scope {
        Scope::All(names) => {
            let rendered = lists.rendered(&view, Format::Mcp, *names);
            let written = |entry: &Entry| {
                let name = entry.name.as_str();
                let alias = rendered.names.alias(name).unwrap_or(name);
                described(to, entry, (Format::Mcp, alias)).or_else(|| rendered.fragment(name))
            };
            let all = behind(&view, from)?;
            Kept::page(all.filter_map(|it| Some((it.name.as_str(), written(it)?))), None)
        }
        Scope::Source(_) => own(to, (asked.who.scope, &view), from),
    })
}

/// Lists the tools of one source: an MCP server's definitions as received, under their native
/// names, with the hints that apply here.
fn own(
    to: (&Doors, &Principal),
    (scope, view): (&Scope, &View),
    from: Option<&str>,
) -> Option<Kept> {
    let received = scope.shelf(view).ok()?.is_some_and(|shelf| speaks_mcp(shelf));
    let of_source = behind(view, from)?.filter(|entry| scope.holds(entry));
    let written = of_source.map(|entry| {
        let name = entry.key.name.as_str();
        let json = if received {
            formats::mcp::apply_hints(entry.tool.received.clone(), &entry.tool.traits)
        } else {
            let plain = || formats::mcp::tool(&entry.tool, name);
            described(to, entry, (Format::Mcp, name)).unwrap_or_else(plain)
        };
        (entry.name.as_str(), json)
    });
    Kept::page(written, None)
}

/// Handles the method `prompts/list`.
pub(crate) fn prompts(asked: &Asked<'_>) -> Result<Reply, Refused> {
    let (view, source) = (asked.who.view(), source(asked, "mcp.prompts.get")?);
    let shelf =
        asked.who.scope.shelf(&view).map_err(Refused::params)?.ok_or_else(|| asked.unknown())?;
    page(asked, ("prompts", "prompt"), (&view, What::Of("prompts", source)), |from| {
        let all = shelf.prompts.iter();
        Kept::page(all.map(|prompt| (prompt.name.as_str(), prompt.received.clone())), from)
    })
}

/// Handles `resources/list` and `resources/templates/list`.
pub(crate) fn resources(asked: &Asked<'_>, templates: bool) -> Result<Reply, Refused> {
    let (view, source) = (asked.who.view(), source(asked, "mcp.resources.read")?);
    let shelf =
        asked.who.scope.shelf(&view).map_err(Refused::params)?.ok_or_else(|| asked.unknown())?;
    let words =
        if templates { ("resourceTemplates", "template") } else { ("resources", "resource") };
    page(asked, words, (&view, What::Of(words.0, source)), |from| {
        let all = shelf.resources.iter().filter(|resource| resource.template == templates);
        Kept::page(all.map(|resource| (resource.uri.as_str(), resource.received.clone())), from)
    })
}

/// Returns the endpoint's source if this caller may use the method behind a list.
fn source(asked: &Asked<'_>, method: &str) -> Result<String, Refused> {
    let source = asked.who.scope.source().ok_or_else(|| asked.unknown())?;
    let view = asked.who.view();
    view.method(source, method).map(|_| source.to_owned()).ok_or_else(|| asked.unknown())
}

/// Responds with one page of a list. `member` is the result's name of the list, `one` the name of
/// an entry.
fn page(
    asked: &Asked<'_>,
    (member, one): (&str, &str),
    (view, what): (&View, What),
    join: impl FnOnce(Option<&str>) -> Option<Kept>,
) -> Result<Reply, Refused> {
    let from = cursor(asked)?;
    let lists: &Lists = &asked.who.doors.lists;
    let key = Key { view: view.id, what, from: from.clone() };
    let kept = lists.kept(key, || join(from.as_deref())).ok_or_else(|| {
        Refused::params(format!("the cursor's {one} is no longer there; list from the beginning"))
    })?;
    let mut head = write::before_result(asked.id);
    head.extend_from_slice(match asked.era {
        Era::Stateless => br#"{"resultType":"complete",""#,
        Era::Handshake => br#"{""#,
    });
    head.extend_from_slice(member.as_bytes());
    head.extend_from_slice(br#"":"#);
    let mut tail = String::new();
    if let Some(next) = &kept.next {
        tail.push_str(r#","nextCursor":"#);
        tail.push_str(Json::of(next).as_str());
    }
    if asked.era == Era::Stateless {
        tail.push_str(r#","ttlMs":"#);
        tail.push_str(TTL);
        tail.push_str(r#","cacheScope":"private""#);
    }
    tail.push('}');
    tail.push_str(write::AFTER_RESULT);
    if packed::wanted(asked.heads.all)
        && let Some(packed) = kept.packed()
    {
        return Ok(body::packed(packed.between(&head, tail.as_bytes())));
    }
    Ok(body::json(http::StatusCode::OK, Parts::new(head, kept.list, tail.into())))
}

fn cursor(asked: &Asked<'_>) -> Result<Option<String>, Refused> {
    let cursor = asked.named.cursor.as_ref().filter(|cursor| cursor.kind() != "null");
    cursor.map(|cursor| super::asked::text("cursor", Some(cursor))).transpose()
}
