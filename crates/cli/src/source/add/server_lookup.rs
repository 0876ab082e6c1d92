//! Lookup of a published MCP server: in a file, at a URL, in a registry by its name, or by the AI
//! catalog of a host.
//!
//! What a response names is reached as untrusted: public addresses only, and no other host than the
//! one that the caller named, until the caller names it too.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use config_edit::{
    AiCatalog, CardLocation, ImportError, ImportErrorKind, MAX_DOCUMENT_BYTES, ServerDocument,
    is_server_name,
};
use egress::{
    EgressClient, EgressError, EgressOptions, Origin, RedirectPolicy, RequestLimits, UrlTrust,
};
use http::{Method, Request, header};
use url::{Host, Url};

use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::{sanitize_line, sanitize_text};

use super::server_import::{ServerImportArgs, import_error};

/// The official MCP Registry.
const DEFAULT_REGISTRY: &str = "https://registry.modelcontextprotocol.io";
/// The path of an AI catalog.
const CATALOG_PATH: &str = "/.well-known/ai-catalog.json";
const CATALOG_TYPE: &str = "application/ai-catalog+json, application/json";
const CARD_TYPE: &str = "application/mcp-server-card+json, application/json";
const JSON_TYPE: &str = "application/json";
/// Maximum number of redirects of one document.
const MAX_REDIRECTS: u8 = 3;

/// Limits of one request for a document.
const LIMITS: RequestLimits = RequestLimits {
    connect_timeout: Duration::from_secs(10),
    header_timeout: Duration::from_secs(15),
    body_idle_timeout: Duration::from_secs(15),
    max_body_bytes: MAX_DOCUMENT_BYTES,
};

/// Finds the document of the server that the argument names.
///
/// # Errors
/// The argument names no server; it cannot be read, or names what may not be added.
pub(super) async fn find_server(
    text: &str,
    args: &ServerImportArgs,
) -> Result<FoundServer, CommandError> {
    if text.starts_with("http://") || text.starts_with("https://") {
        let url = parse_url(text)?;
        let lookup = ServerLookup::new(&url)?;
        return match url.path() {
            "/" => lookup.find_by_host(args.entry.as_deref()).await,
            _ => lookup.fetch_listed(&url).await,
        };
    }
    let path = Path::new(text);
    if path.is_file() || path.extension().is_some_and(|extension| extension == "json") {
        return Ok(FoundServer { document: read_file(path)?, origin: None });
    }
    if is_server_name(text) {
        let registry = args.registry.as_deref().unwrap_or(DEFAULT_REGISTRY);
        let version = args.server_version.as_deref().unwrap_or("latest");
        return find_in_registry(registry, text, version).await;
    }
    let is_host = text.contains(['.', ':']) || text == "localhost";
    let url = Some(text)
        .filter(|_| is_host)
        .and_then(|host| Url::parse(&format!("https://{host}/")).ok());
    let Some(url) = url.filter(|url| url.path() == "/" && url.query().is_none()) else {
        let message = format!("no source of tools is given for `{}`", sanitize_line(text, 80));
        return Err(CommandError::new(ExitStatus::UsageError, message).with_help(
            "pass --tools, --module, --mcp or a command after `--`; or name a published server: FILE, \
             URL, NAMESPACE/NAME or HOST",
        ));
    };
    ServerLookup::new(&with_scheme(url)?)?.find_by_host(args.entry.as_deref()).await
}

/// The URL of a bare host: over plain http on this machine, where servers rarely have TLS.
fn with_scheme(mut url: Url) -> Result<Url, CommandError> {
    let origin = Origin::parse(url.as_str()).map_err(|error| egress_error(&error))?;
    if origin.is_loopback() {
        // Both schemes are special, so that one can replace the other.
        let _kept = url.set_scheme("http");
    }
    Ok(url)
}

/// Reads a document from a file, up to the maximum size.
fn read_file(path: &Path) -> Result<ServerDocument, CommandError> {
    let mut text = Vec::new();
    let limit = u64::try_from(MAX_DOCUMENT_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let read = fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut text));
    read.map_err(|error| {
        let path = sanitize_text(&path.display().to_string());
        CommandError::new(ExitStatus::Failed, format!("`{path}` cannot be read: {error}"))
    })?;
    ServerDocument::parse(&text).map_err(import_error)
}

async fn find_in_registry(
    registry: &str,
    name: &str,
    version: &str,
) -> Result<FoundServer, CommandError> {
    let mut url = parse_url(registry)?;
    let lookup = ServerLookup::new(&url)?;
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["v0.1", "servers", name, "versions", version]);
    }
    let server = lookup.fetch_listed(&url).await?;
    if server.document.name() == name {
        return Ok(server);
    }
    let found = server.document.name();
    let message = format!("the registry returned the server `{found}` for `{name}`");
    Err(CommandError::new(ExitStatus::Failed, message))
}

/// A server that was found, and what its endpoint is compared with.
pub(super) struct FoundServer {
    pub(super) document: ServerDocument,
    /// Absent for a file, which the caller has.
    origin: Option<DocumentOrigin>,
}

/// Where a document came from.
struct DocumentOrigin {
    lookup: ServerLookup,
    /// The URL of a server card, which describes an endpoint of its own host. A registry lists
    /// servers of any host.
    card: Option<Url>,
}

/// Requests on behalf of one origin that the caller named.
struct ServerLookup {
    egress: EgressClient,
    named: Url,
    origin: Origin,
}

impl FoundServer {
    /// Checks the endpoint that is about to be added, with its variables filled in: a card names its
    /// own host or the one that the caller named, and every response names public addresses only.
    ///
    /// # Errors
    /// The endpoint may not be added this way.
    pub(super) async fn check_endpoint(&self, endpoint: &str) -> Result<(), CommandError> {
        let Some(DocumentOrigin { lookup, card }) = &self.origin else { return Ok(()) };
        let url = Url::parse(endpoint).map_err(url_error)?;
        if let Some(card) = card
            && check_host("server card", &url, &lookup.named).is_err()
        {
            check_host("server card", &url, card)?;
        }
        lookup.check_address(&url).await
    }
}

impl ServerLookup {
    fn new(named: &Url) -> Result<Self, CommandError> {
        let egress =
            EgressClient::new(EgressOptions::default()).map_err(|error| egress_error(&error))?;
        let origin = Origin::parse(named.as_str()).map_err(|error| egress_error(&error))?;
        Ok(Self { egress, named: named.clone(), origin })
    }

    /// Reads the AI catalog of the host, and the server card that it names.
    async fn find_by_host(self, entry: Option<&str>) -> Result<FoundServer, CommandError> {
        let catalog_url = self.named.join(CATALOG_PATH).map_err(url_error)?;
        let catalog = self.fetch(&catalog_url, CATALOG_TYPE).await.map_err(|error| {
            error.with_help(
                "if you know the address of the server: `toolkeep source add NAME --mcp URL`",
            )
        })?;
        let card = AiCatalog::parse(&catalog).and_then(|catalog| catalog.find_card(entry));
        let (document, card) = match card.map_err(import_error)? {
            CardLocation::Inline(card) => (ServerDocument::from_value(card), catalog_url),
            CardLocation::Url(text) => {
                let url = catalog_url.join(&text).map_err(url_error)?;
                check_host("AI catalog", &url, &self.named)?;
                (ServerDocument::parse(&self.fetch(&url, CARD_TYPE).await?), url)
            }
        };
        let document = document.map_err(import_error)?;
        let origin = Some(DocumentOrigin { lookup: self, card: Some(card) });
        Ok(FoundServer { document, origin })
    }

    /// Fetches a document that may describe a server of any host.
    async fn fetch_listed(self, url: &Url) -> Result<FoundServer, CommandError> {
        let text = self.fetch(url, JSON_TYPE).await?;
        let document = ServerDocument::parse(&text).map_err(import_error)?;
        Ok(FoundServer { document, origin: Some(DocumentOrigin { lookup: self, card: None }) })
    }

    /// Checks that an endpoint is reached over TLS and at a public address, unless the caller named
    /// its origin.
    async fn check_address(&self, url: &Url) -> Result<(), CommandError> {
        let help = "if it is meant: `toolkeep source add NAME --mcp URL`";
        if self.is_named(url) {
            return Ok(());
        }
        if url.scheme() != "https" {
            let message = format!("the endpoint `{}` has no TLS", shown_url(url));
            return Err(CommandError::new(ExitStatus::Failed, message).with_help(help));
        }
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = Method::HEAD;
        *request.uri_mut() = parse_uri(url)?;
        let sent = self.egress.send_request(&UrlTrust::UpstreamResponse, request, LIMITS).await;
        // A server that is away, or has no such method, is no reason: only its address counts.
        match sent {
            Err(error @ EgressError::Blocked { .. }) => Err(egress_error(&error).with_help(help)),
            _ => Ok(()),
        }
    }

    fn is_named(&self, url: &Url) -> bool {
        url.origin() == self.named.origin()
    }

    async fn fetch(&self, url: &Url, accept: &'static str) -> Result<Bytes, CommandError> {
        let request = Request::builder()
            .uri(parse_uri(url)?)
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, concat!("toolkeep/", env!("CARGO_PKG_VERSION")))
            .body(Bytes::new());
        let request = request
            .map_err(|error| CommandError::new(ExitStatus::UsageError, error.to_string()))?;
        let trust = if self.is_named(url) {
            UrlTrust::Configured { origin: self.origin.clone() }
        } else {
            UrlTrust::UpstreamResponse
        };
        let redirects = RedirectPolicy { max_redirects: MAX_REDIRECTS };
        let response =
            self.egress.send_following_redirects(&trust, request, LIMITS, redirects).await;
        let response = response.map_err(|error| egress_error(&error))?;
        if !response.status().is_success() {
            let message =
                format!("`{}` returned status {}", shown_url(url), response.status().as_u16());
            return Err(CommandError::new(ExitStatus::Failed, message));
        }
        response.into_body().collect_bytes().await.map_err(|error| egress_error(&error))
    }
}

/// Checks that a URL of a document is on the same host as `base`, or below it.
fn check_host(document: &str, url: &Url, base: &Url) -> Result<(), CommandError> {
    if is_same_site(url, base) {
        return Ok(());
    }
    let (base, url) = (shown_url(base), shown_url(url));
    let message = format!("the {document} of `{base}` names `{url}`, which is on another host");
    Err(CommandError::new(ExitStatus::Failed, message)
        .with_help("if you trust that host, name it yourself: `toolkeep source add URL`"))
}

/// Whether a URL is on the host of `base`, or on one below it.
fn is_same_site(url: &Url, base: &Url) -> bool {
    match (url.host(), base.host()) {
        (Some(Host::Domain(host)), Some(Host::Domain(base))) => {
            let below = host.strip_suffix(base).is_some_and(|rest| rest.ends_with('.'));
            host == base || (below && base.contains('.'))
        }
        (Some(host), Some(base)) => host == base,
        _ => false,
    }
}

fn parse_url(text: &str) -> Result<Url, CommandError> {
    Url::parse(text).map_err(|error| {
        let message = format!("`{}` is no URL: {error}", sanitize_line(text, 120));
        CommandError::new(ExitStatus::UsageError, message)
    })
}

fn parse_uri(url: &Url) -> Result<http::Uri, CommandError> {
    let mut url = url.clone();
    url.set_fragment(None);
    url.as_str().parse().map_err(|_| {
        let message = format!("`{}` cannot be requested", shown_url(&url));
        CommandError::new(ExitStatus::Failed, message)
    })
}

fn url_error(error: url::ParseError) -> CommandError {
    import_error(ImportError {
        kind: ImportErrorKind::InvalidDocument,
        message: format!("the document names an invalid URL: {error}"),
        help: None,
    })
}

/// Scheme, host and path of a URL.
fn shown_url(url: &Url) -> String {
    sanitize_line(url.as_str().split(['?', '#']).next().unwrap_or_default(), 120)
}

fn egress_error(error: &EgressError) -> CommandError {
    CommandError::new(ExitStatus::Failed, sanitize_text(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::is_same_site;

    #[test]
    fn a_host_and_those_below_it_are_one_site() {
        let same =
            |a: &str, b: &str| is_same_site(&Url::parse(a).unwrap(), &Url::parse(b).unwrap());
        assert!(same("https://a.example/x", "https://a.example"));
        assert!(same("https://mcp.a.example/x", "https://a.example"));
        assert!(same("https://127.0.0.1/x", "https://127.0.0.1:8443"));
        for (url, base) in [
            ("https://a.example.evil.com", "https://a.example"),
            ("https://evila.example", "https://a.example"),
            ("https://example", "https://a.example"),
            ("https://a.com", "https://com"),
            ("https://1.127.0.0.1", "https://127.0.0.1"),
            ("https://[::1]", "https://127.0.0.1"),
            ("data:text/plain,x", "https://a.example"),
        ] {
            if let Ok(parsed) = Url::parse(url) {
                assert!(!is_same_site(&parsed, &Url::parse(base).unwrap()), "{url} {base}");
            }
        }
    }
}
