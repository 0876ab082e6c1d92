//! Sends requests to webhooks through the outbound client, which checks each address and dials it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{EgressClient, EgressError, Origin, RequestLimits, UrlTrust};
use http::Request;
use server_core::webhook::{WebhookFailure, WebhookRequest, WebhookTransport};
use tool::BoxFuture;

/// Largest response that is read, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Maximum time of one request, with its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Webhooks by HTTP. Public addresses may be called, and the origins that the operator named.
#[derive(Debug)]
pub(crate) struct EgressWebhooks {
    egress: EgressClient,
    trusted_origins: Vec<Origin>,
}

impl EgressWebhooks {
    pub(crate) fn new(egress: &EgressClient, trusted_origins: Vec<Origin>) -> Arc<Self> {
        let egress = egress.with_separate_pool();
        Arc::new(Self { egress, trusted_origins })
    }

    fn url_trust(&self, url: &str) -> UrlTrust {
        let trusted =
            Origin::parse(url).ok().filter(|origin| self.trusted_origins.contains(origin));
        trusted.map_or(UrlTrust::CallArgument, |origin| UrlTrust::Configured { origin })
    }

    async fn send_request(
        &self,
        url: &str,
        request: WebhookRequest,
    ) -> Result<Bytes, WebhookFailure> {
        let second = Duration::from_secs(1);
        let limits = RequestLimits {
            connect_timeout: 5 * second,
            header_timeout: 10 * second,
            body_idle_timeout: 5 * second,
            max_body_bytes: MAX_RESPONSE_BYTES,
        };
        let mut post =
            Request::post(url).body(request.body).map_err(|_| WebhookFailure::ConnectionRefused)?;
        *post.headers_mut() = request.headers;
        let sent = self.egress.send_request(&self.url_trust(url), post, limits).await;
        let response = sent.map_err(|error| to_failure(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(WebhookFailure::Status(status));
        }
        response.into_body().collect_bytes().await.map_err(|error| to_failure(&error))
    }
}

impl WebhookTransport for EgressWebhooks {
    fn check_url(&self, url: &str) -> Result<(), String> {
        let checked = self.egress.validate_url(&self.url_trust(url), url);
        checked.map(drop).map_err(|error| error.to_string())
    }

    fn post_request<'a>(
        &'a self,
        url: &'a str,
        request: WebhookRequest,
    ) -> BoxFuture<'a, Result<Bytes, WebhookFailure>> {
        Box::pin(async move {
            // A receiver that sends a byte now and then is not waited for.
            let sent = tokio::time::timeout(REQUEST_TIMEOUT, self.send_request(url, request));
            sent.await.unwrap_or(Err(WebhookFailure::Timeout))
        })
    }
}

/// Converts an error to one that reveals nothing of the network behind this server: a blocked address
/// is as one where nothing listens.
fn to_failure(error: &EgressError) -> WebhookFailure {
    tracing::debug!(%error, "a request to a webhook failed");
    match error {
        EgressError::Blocked { .. }
        | EgressError::Unreachable { .. }
        | EgressError::InvalidOptions(_) => WebhookFailure::ConnectionRefused,
        EgressError::Tls { .. } => WebhookFailure::TlsError,
        EgressError::TimedOut { .. } => WebhookFailure::Timeout,
        EgressError::TooLarge { .. } | EgressError::Protocol { .. } => {
            WebhookFailure::InvalidResponse
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use egress::{Dialer, DnsResolver, EgressOptions, UrlPolicy};
    use http::{HeaderMap, StatusCode};
    use tokio::net::TcpStream;
    use tokio::task::JoinSet;

    use super::*;

    /// A webhook that counts its requests, and redirects those to `/away` to `/hook`.
    struct CountingHook {
        port: u16,
        requests: Arc<AtomicUsize>,
        _serving: JoinSet<()>,
    }

    impl CountingHook {
        async fn start() -> Self {
            let requests = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&requests);
            let take = move || {
                count.fetch_add(1, Ordering::SeqCst);
                // No connection is used again, so that each message needs the address anew.
                std::future::ready(([("connection", "close")], "taken"))
            };
            let away = || std::future::ready(axum::response::Redirect::temporary("/hook"));
            let router = axum::Router::new()
                .route("/hook", axum::routing::any(take))
                .route("/away", axum::routing::any(away));
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let mut serving = JoinSet::new();
            serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
            Self { port, requests, _serving: serving }
        }

        /// Allows the port of the hook, so that the address alone decides.
        fn options(&self) -> EgressOptions {
            let url_policy = UrlPolicy { allowed_ports: vec![self.port], ..UrlPolicy::default() };
            EgressOptions { url_policy, ..EgressOptions::default() }
        }

        fn url(&self, host: &str, path: &str) -> String {
            format!("http://{host}:{}{path}", self.port)
        }
    }

    async fn post(hooks: &EgressWebhooks, url: &str) -> Result<Bytes, WebhookFailure> {
        let request = WebhookRequest { headers: HeaderMap::new(), body: Bytes::from_static(b"{}") };
        hooks.post_request(url, request).await
    }

    fn client(options: EgressOptions) -> EgressClient {
        EgressClient::new(options).unwrap()
    }

    #[tokio::test]
    async fn only_an_origin_that_the_operator_named_is_called_in_a_private_network() {
        let hook = CountingHook::start().await;
        let hooks = EgressWebhooks::new(&client(hook.options()), Vec::new());
        let url = hook.url("127.0.0.1", "/hook");
        let forms =
            [url.clone(), hook.url("[::ffff:127.0.0.1]", "/hook"), hook.url("localhost", "/hook")];
        for form in &forms {
            assert_eq!(post(&hooks, form).await, Err(WebhookFailure::ConnectionRefused), "{form}");
            assert!(hooks.check_url(form).is_err(), "{form}");
        }
        assert_eq!(hook.requests.load(Ordering::SeqCst), 0);
        // The control: the origin that the operator named.
        let hooks =
            EgressWebhooks::new(&client(hook.options()), vec![Origin::parse(&url).unwrap()]);
        assert_eq!(post(&hooks, &url).await, Ok(Bytes::from_static(b"taken")));
        assert_eq!(hook.requests.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn no_redirect_is_followed() {
        let hook = CountingHook::start().await;
        let origin = Origin::parse(&hook.url("127.0.0.1", "/")).unwrap();
        let hooks = EgressWebhooks::new(&client(hook.options()), vec![origin]);
        let sent = post(&hooks, &hook.url("127.0.0.1", "/away")).await;
        assert_eq!(sent, Err(WebhookFailure::Status(StatusCode::TEMPORARY_REDIRECT)));
        assert_eq!(hook.requests.load(Ordering::SeqCst), 0);
        assert!(post(&hooks, &hook.url("127.0.0.1", "/hook")).await.is_ok(), "control");
    }

    /// Names a public address at first, and this machine ever after.
    #[derive(Debug, Default)]
    struct RebindingResolver(AtomicUsize);

    impl DnsResolver for RebindingResolver {
        fn resolve_host<'a>(&'a self, _: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
            let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
            let address = if first { [93, 184, 216, 34] } else { [127, 0, 0, 1] };
            Box::pin(std::future::ready(Ok(vec![IpAddr::V4(Ipv4Addr::from(address))])))
        }
    }

    /// A network in which the hook has every address.
    #[derive(Debug)]
    struct HookNetwork(u16);

    impl Dialer for HookNetwork {
        #[expect(clippy::disallowed_methods, reason = "the network of this test")]
        fn dial_address(
            &self,
            address: SocketAddr,
        ) -> BoxFuture<'_, std::io::Result<(TcpStream, SocketAddr)>> {
            Box::pin(async move {
                Ok((TcpStream::connect((Ipv4Addr::LOCALHOST, self.0)).await?, address))
            })
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_elsewhere_later_is_not_followed_there() {
        let hook = CountingHook::start().await;
        let options = EgressOptions {
            resolver: Arc::new(RebindingResolver::default()),
            dialer: Arc::new(HookNetwork(hook.port)),
            ..hook.options()
        };
        let hooks = EgressWebhooks::new(&client(options), Vec::new());
        let url = hook.url("hook.example.com", "/hook");
        // The control: the address was public when the first message was sent.
        assert!(hooks.check_url(&url).is_ok() && post(&hooks, &url).await.is_ok());
        assert_eq!(post(&hooks, &url).await, Err(WebhookFailure::ConnectionRefused));
        assert_eq!(hook.requests.load(Ordering::SeqCst), 1);
    }
}
