//! Discovery of the authorization server from a challenge, with every fallback that MCP names.

use url::Url;

use super::metadata::{Known, Resource, Server};
use super::places::{self, covers};
use super::web::{At, Web};
use super::{Fault, Settings};
use tool::display_text::shown;

/// Maximum authorization servers of one resource that are considered.
const SERVERS: usize = 16;

/// Discovers the authorization server of a source. `hint` is the metadata URL from a challenge.
pub(super) async fn discover(
    web: &Web,
    (settings, url): (&Settings, &Url),
    hint: Option<&str>,
) -> Result<Known, Fault> {
    let own = || canonical(url);
    if let Some(endpoint) = &settings.token_endpoint {
        let issuer = settings.issuer.as_deref().unwrap_or(endpoint);
        let server = Server::named(issuer, endpoint);
        return Ok(Known { resource: own(), scopes: None, server });
    }
    let resource = resource(web, url, hint).await?;
    let (resource, scopes, named) = match resource {
        Some(Resource { name, authorization_servers, scopes_supported }) => {
            let resource = name.unwrap_or_else(own);
            if !covers(&resource, url) {
                let message = format!(
                    "has metadata that are of `{}`, another resource: no token is asked for",
                    shown(&resource, 200)
                );
                return Err(Fault::blocked(message)
                    .fix("have its metadata name the address that is configured"));
            }
            (resource, scopes_supported, authorization_servers)
        }
        None => (own(), None, Vec::new()),
    };
    let old = named.is_empty();
    let server = match issuer(settings, named)? {
        Some(issuer) => {
            let same = |said: &str| said == issuer;
            of_issuer(web, &issuer, same).await?.ok_or_else(|| unknown(&issuer))?
        }
        // MCP 2025-03-26: the host of the server is its authorization server.
        None if old => {
            let origin = url.origin().ascii_serialization();
            // No issuer was named, so the metadata on its own host may name one.
            let same = |said: &str| Url::parse(said).is_ok_and(|it| it.origin() == url.origin());
            let found = of_issuer(web, &origin, same).await?;
            found.unwrap_or_else(|| Server::assumed(&origin))
        }
        None => return Err(Fault::malformed("names no authorization server that can be used")),
    };
    Ok(Known { resource, scopes, server })
}

/// Returns the canonical resource URL: without fragment, and without a trailing slash as the only
/// path.
fn canonical(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let text = url.to_string();
    if url.path() == "/" && url.query().is_none() {
        return text.trim_end_matches('/').to_owned();
    }
    text
}

async fn resource(web: &Web, url: &Url, hint: Option<&str>) -> Result<Option<Resource>, Fault> {
    let what = "its metadata";
    if let Some(hint) = hint {
        let at = At { url: hint, what, whose: "its challenge" };
        let found = web.get(at).await?;
        return found.map(Some).ok_or_else(|| {
            Fault::malformed(format!(
                "says that its metadata are at `{}`, where nothing is",
                shown(hint, 200)
            ))
        });
    }
    for place in places::of_resource(url) {
        let at = At { url: &place, what, whose: "the configuration" };
        if let Some(found) = web.get(at).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Selects the issuer: the configured one, which the resource must name too, or the first.
fn issuer(settings: &Settings, named: Vec<String>) -> Result<Option<String>, Fault> {
    let Some(wanted) = &settings.issuer else { return Ok(named.into_iter().next()) };
    if named.is_empty() || named.iter().take(SERVERS).any(|it| it == wanted) {
        return Ok(Some(wanted.clone()));
    }
    let named: Vec<_> = named.iter().take(SERVERS).map(|it| shown(it, 200)).collect();
    let message = format!(
        "names `{}` as its authorization server, not `{}`, which is configured: nothing is sent there",
        named.join("`, `"),
        shown(wanted, 200)
    );
    Err(Fault::blocked(message).fix("look at `issuer`, and ask who runs the server"))
}

/// Fetches the metadata of an authorization server, or returns `None` if it has none.
async fn of_issuer(
    web: &Web,
    issuer: &str,
    same: impl Fn(&str) -> bool,
) -> Result<Option<Server>, Fault> {
    let bad = |why: &str| {
        Fault::malformed(format!("names the authorization server `{}`, {why}", shown(issuer, 200)))
    };
    let url = Url::parse(issuer).map_err(|_| bad("which is no URL"))?;
    for place in places::of_issuer(&url) {
        let what = "the metadata of the authorization server";
        let at = At { url: &place, what, whose: "the server" };
        let Some(server) = web.get::<Server>(at).await? else { continue };
        // RFC 8414 3.3 requires this check: otherwise one server could impersonate another.
        if !same(&server.issuer) {
            let other = shown(&server.issuer, 200);
            let why = format!("whose metadata are those of `{other}`: they are not used");
            let fault = Fault { kind: tool::source::SourceFault::Blocked, ..bad(&why) };
            return Err(fault.fix("ask who runs the authorization server"));
        }
        return Ok(Some(server));
    }
    Ok(None)
}

fn unknown(issuer: &str) -> Fault {
    let issuer = shown(issuer, 200);
    Fault::malformed(format!("names the authorization server `{issuer}`, which has no metadata"))
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::canonical;

    #[test]
    fn a_resource_is_written_without_what_does_not_name_it() {
        for (url, resource) in [
            ("https://H.example/mcp#x", "https://h.example/mcp"),
            ("https://h.example", "https://h.example"),
            ("https://h.example:8443/", "https://h.example:8443"),
            ("https://h.example/a/?q=1", "https://h.example/a/?q=1"),
        ] {
            assert_eq!(canonical(&Url::parse(url).unwrap()), resource);
        }
    }
}
