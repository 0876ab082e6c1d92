//! Requests: sent once, bounded, and their connections used again by nobody else.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use egress::{
    CertificateDer, Dialer, EgressClient, EgressError, EgressOptions, Origin, PoolOptions,
    RequestLimits, RequestPhase, TrustStore, UrlPolicy, UrlTrust,
};
use http::Request;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tool::BoxFuture;
use tool::executor::DispatchState;

use crate::test_server::{Answer, RoutingDialer, ScriptedResolver, TestServer, ok};
use testkit::condition::wait_until;

const SHORT: Duration = Duration::from_millis(80);

pub(crate) fn get(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

fn post(url: &str, body: &'static str) -> Request<Bytes> {
    Request::post(url).body(Bytes::from(body)).unwrap()
}

fn operator(url: &str) -> UrlTrust {
    UrlTrust::Configured { origin: Origin::parse(url).unwrap() }
}

fn egress() -> EgressClient {
    EgressClient::new(EgressOptions::default()).unwrap()
}

async fn text(egress: &EgressClient, class: &UrlTrust, url: &str) -> Result<String, EgressError> {
    let response = egress.send_request(class, get(url), RequestLimits::default()).await?;
    Ok(String::from_utf8(response.into_body().collect_bytes().await?.to_vec()).unwrap())
}

#[tokio::test]
async fn requests_to_one_origin_share_a_connection() {
    let site = TestServer::start(|count, _| ok(&count.to_string())).await;
    let (egress, class) = (egress(), operator(&site.url("")));
    for count in 1..=20 {
        assert_eq!(text(&egress, &class, &site.url("/a?b=c")).await.unwrap(), count.to_string());
    }
    assert_eq!(site.seen.accepted(), 1);
    assert!(
        site.seen.requests()[0].starts_with("GET /a?b=c HTTP/1.1\r\n"),
        "{:?}",
        site.seen.requests()[0]
    );
}

#[tokio::test]
async fn a_connection_is_used_again_for_its_own_class_only() {
    let site = TestServer::start(|_, _| ok("")).await;
    let lead = RoutingDialer::to(&[("8.8.8.8", &site)]);
    let egress =
        EgressClient::new(EgressOptions { dialer: lead.clone(), ..EgressOptions::default() })
            .unwrap();
    let url = "http://8.8.8.8/";
    let classes = [operator(url), UrlTrust::CallArgument, UrlTrust::UpstreamResponse];
    for round in 0..3 {
        for class in &classes {
            text(&egress, class, url).await.unwrap();
        }
        assert_eq!(lead.count(), 3, "round {round}");
    }
}

#[tokio::test]
async fn a_connection_stays_with_the_runtime_that_made_it() {
    let site = TestServer::start(|_, _| ok("")).await;
    let (egress, class, url) = (egress(), operator(&site.url("")), site.url("/"));
    for round in 0..3 {
        text(&egress, &class, &url).await.unwrap();
        let (egress, class, url) = (egress.clone(), class.clone(), url.clone());
        let other = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                for _ in 0..3 {
                    text(&egress, &class, &url).await.unwrap();
                }
            });
        };
        tokio::task::spawn_blocking(other).await.unwrap();
        // One of this runtime's, and one of each of the others.
        assert_eq!(site.seen.accepted(), 2 + round);
    }
}

#[tokio::test]
async fn only_headers_of_the_request_itself_go_along() {
    let site = TestServer::start(|_, _| ok("")).await;
    let url = site.url("");
    let mut request = post(&url, "body");
    for name in [
        "host",
        "connection",
        "te",
        "transfer-encoding",
        "upgrade",
        "proxy-authorization",
        "keep-alive",
    ] {
        request.headers_mut().insert(name, "x".parse().unwrap());
    }
    request.headers_mut().insert("content-length", "9999".parse().unwrap());
    request.headers_mut().insert("x-own", "1".parse().unwrap());
    egress().send_request(&operator(&url), request, RequestLimits::default()).await.unwrap();
    let expected = format!(
        "POST / HTTP/1.1\r\nx-own: 1\r\nhost: {}\r\ncontent-length: 4\r\n\r\nbody",
        site.address
    );
    assert_eq!(site.seen.requests(), [expected]);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_costs_no_request() {
    let site = TestServer::start(|_, _| {
        Answer::Last(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx".to_vec())
    })
    .await;
    let (egress, class) = (egress(), operator(&site.url("")));
    for _ in 0..20 {
        assert_eq!(text(&egress, &class, &site.url("/")).await.unwrap(), "x");
    }
    assert_eq!((site.seen.accepted(), site.seen.requests().len()), (20, 20));
}

#[tokio::test]
async fn a_request_that_was_sent_is_never_sent_again() {
    let site =
        TestServer::start(|count, _| if count == 1 { ok("x") } else { Answer::Last(Vec::new()) })
            .await;
    let (egress, class) = (egress(), operator(&site.url("")));
    text(&egress, &class, &site.url("/")).await.unwrap();
    let error = text(&egress, &class, &site.url("/")).await.unwrap_err();
    assert!(
        matches!(error, EgressError::Protocol { dispatch: DispatchState::MaybeSent, .. }),
        "{error}"
    );
    assert_eq!(site.seen.requests().len(), 2);
}

#[tokio::test]
async fn nobody_there_means_surely_not_sent() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/?token=secret");
    let error = text(&egress(), &operator(&url), &url).await.unwrap_err();
    assert!(
        matches!(error, EgressError::Unreachable { dispatch: DispatchState::NotSent, .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains(&free.to_string()) && !error.to_string().contains("secret"),
        "{error}"
    );
}

#[tokio::test]
async fn every_wait_ends() {
    let limits = RequestLimits {
        connect_timeout: SHORT,
        header_timeout: SHORT,
        body_idle_timeout: SHORT,
        max_body_bytes: 100,
    };
    for (said, phase) in [
        ("", RequestPhase::ResponseHead),
        ("HTTP/1.1 200 OK\r\ncontent-le", RequestPhase::ResponseHead),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", RequestPhase::ResponseBody),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            RequestPhase::ResponseBody,
        ),
    ] {
        let site = TestServer::start(move |_, _| Answer::Hold(said.as_bytes().to_vec())).await;
        let (egress, class) = (egress(), operator(&site.url("")));
        let error = match egress.send_request(&class, get(&site.url("/")), limits).await {
            Ok(response) => response.into_body().collect_bytes().await.unwrap_err(),
            Err(error) => error,
        };
        let found = matches!(error, EgressError::TimedOut { phase: found, dispatch: DispatchState::MaybeSent, .. } if found == phase);
        assert!(found, "{said}: {error}");
        wait_until("the site sees the end", || site.seen.closed() == 1).await;
    }
}

#[tokio::test]
async fn a_slow_reader_is_not_taken_for_a_slow_server() {
    let limits = RequestLimits { body_idle_timeout: SHORT, ..RequestLimits::default() };
    let site = TestServer::start(|_, _| {
        Answer::Say(
            [b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n".to_vec(), vec![b'x'; 200_000]]
                .concat(),
        )
    });
    let site = site.await;
    let (egress, class) = (egress(), operator(&site.url("")));
    let mut body =
        egress.send_request(&class, get(&site.url("/")), limits).await.unwrap().into_body();
    let mut seen = 0;
    while let Some(part) = body.next_chunk().await.unwrap() {
        seen += part.len();
        if seen < 100_000 {
            tokio::time::sleep(SHORT + SHORT / 2).await;
        }
    }
    assert_eq!(seen, 200_000);
}

#[tokio::test]
async fn what_is_too_large_or_not_http_is_an_error() {
    let limits = RequestLimits { max_body_bytes: 5, ..RequestLimits::default() };
    let huge = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: 1\r\n".repeat(200));
    for (said, words) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabcdef", "larger than 5 bytes"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n",
            "larger than 5 bytes",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nabcdef", "larger than 5 bytes"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", "ended early"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "ended early"),
        ("HTTP/1.1 101 x\r\nupgrade: y\r\nconnection: upgrade\r\n\r\n", "another protocol"),
        ("SSH-2.0-OpenSSH\r\n", "no response"),
        ("", "no response"),
        (&huge, "header section is too large"),
        (&many, "header section is too large"),
    ] {
        let bytes = said.as_bytes().to_vec();
        let site = TestServer::start(move |_, _| Answer::Last(bytes.clone())).await;
        let (egress, class) = (egress(), operator(&site.url("")));
        let error = match egress.send_request(&class, get(&site.url("/")), limits).await {
            Ok(response) => response.into_body().collect_bytes().await.expect_err(words),
            Err(error) => error,
        };
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert_eq!(error.dispatch(), DispatchState::MaybeSent);
    }
}

#[tokio::test]
async fn what_nobody_waits_for_is_closed_at_once() {
    let site = TestServer::start(|count, _| match count {
        1 => Answer::Hold(Vec::new()),
        _ => Answer::Hold(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".to_vec()),
    });
    let site = site.await;
    let (egress, class) = (egress(), operator(&site.url("")));
    let sending = egress.send_request(&class, get(&site.url("/")), RequestLimits::default());
    assert!(tokio::time::timeout(SHORT, sending).await.is_err());
    wait_until("the site sees the end of the request", || site.seen.closed() == 1).await;
    let mut body = egress
        .send_request(&class, get(&site.url("/")), RequestLimits::default())
        .await
        .unwrap()
        .into_body();
    assert_eq!(body.next_chunk().await.unwrap().unwrap(), "abc");
    drop(body);
    wait_until("the site sees the end of the body", || site.seen.closed() == 2).await;
}

#[tokio::test]
async fn requests_beyond_the_places_wait_and_are_told() {
    let site = TestServer::start(|_, _| Answer::Hold(Vec::new())).await;
    let egress =
        EgressClient::new(EgressOptions { max_open_requests: 1, ..EgressOptions::default() })
            .unwrap();
    let class = operator(&site.url(""));
    let limits = RequestLimits { connect_timeout: SHORT, ..RequestLimits::default() };
    let url = site.url("/");
    let (first, second) = (
        egress.send_request(&class, get(&url), limits),
        egress.send_request(&class, get(&url), limits),
    );
    tokio::select! {
        biased;
        _ = first => panic!("the site never answers"),
        error = second => {
            let error = error.unwrap_err();
            assert!(matches!(error, EgressError::TimedOut { phase: RequestPhase::RequestPermit, dispatch: DispatchState::NotSent, .. }), "{error}");
            assert_eq!(error.error_code(), tool::ErrorCode::Busy);
        }
    }
    assert_eq!(site.seen.accepted(), 1);
}

#[tokio::test]
async fn kept_connections_are_bounded_in_number_and_time() {
    let site = TestServer::start(|_, _| ok("")).await;
    let keep =
        PoolOptions { max_idle: 3, max_idle_per_origin: 2, idle_timeout: Duration::from_mins(5) };
    let lead = RoutingDialer::to(&[("8.8.8.8", &site), ("9.9.9.9", &site)]);
    let settings = EgressOptions { pool: keep, dialer: lead, ..EgressOptions::default() };
    let egress = EgressClient::new(settings).unwrap();
    for host in ["8.8.8.8", "9.9.9.9"] {
        let url = format!("http://{host}/");
        let all = (0..5).map(|_| text(&egress, &UrlTrust::CallArgument, &url));
        assert!(futures_util::future::join_all(all).await.iter().all(Result::is_ok));
    }
    wait_until("seven of ten are closed", || site.seen.closed() == 7).await;
    let brief = PoolOptions { idle_timeout: SHORT, ..PoolOptions::default() };
    let egress =
        EgressClient::new(EgressOptions { pool: brief, ..EgressOptions::default() }).unwrap();
    let class = operator(&site.url(""));
    text(&egress, &class, &site.url("/")).await.unwrap();
    tokio::select! {
        () = egress.run_idle_eviction() => {}
        () = wait_until("the last one is closed", || site.seen.closed() == 8) => {}
    }
}

/// Never connects to the first address, and always to the second.
#[derive(Debug)]
struct StallingDialer(SocketAddr);

impl Dialer for StallingDialer {
    fn dial_address(
        &self,
        address: SocketAddr,
    ) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>> {
        Box::pin(async move {
            if address.ip().to_string() == "8.8.8.8" {
                std::future::pending::<()>().await;
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the test leads the connection elsewhere"
            )]
            let stream = TcpStream::connect(self.0).await?;
            // Says who really answered.
            let peer =
                if address.ip().to_string() == "9.9.9.9" { address } else { stream.peer_addr()? };
            Ok((stream, peer))
        })
    }
}

#[tokio::test]
async fn a_silent_address_does_not_use_up_the_time_of_the_next() {
    let site = TestServer::start(|_, _| ok("x")).await;
    let resolver = ScriptedResolver::by(|host, _| match host {
        "two.example.org." => vec!["8.8.8.8".parse().unwrap(), "9.9.9.9".parse().unwrap()],
        "other.example.org." => vec!["7.7.7.7".parse().unwrap()],
        _ => vec!["8.8.8.8".parse().unwrap()],
    });
    let dialer = Arc::new(StallingDialer(site.address));
    let egress =
        EgressClient::new(EgressOptions { resolver, dialer, ..EgressOptions::default() }).unwrap();
    // Long enough for a busy machine to connect to itself: what is silent is silent for ever.
    let limits =
        RequestLimits { connect_timeout: Duration::from_secs(2), ..RequestLimits::default() };
    let send = async |url| {
        egress.send_request(&UrlTrust::CallArgument, get(url), limits).await.map(|_| ())
    };
    send("http://two.example.org/").await.unwrap();
    let error = send("http://one.example.org/").await.unwrap_err();
    assert!(
        matches!(
            error,
            EgressError::TimedOut {
                phase: RequestPhase::Connect,
                dispatch: DispatchState::NotSent,
                ..
            }
        ),
        "{error}"
    );
    let error = send("http://other.example.org/").await.unwrap_err();
    assert!(error.to_string().contains("the connection reached another address"), "{error}");
    assert_eq!(site.seen.requests().len(), 1);
}

fn der(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/it/certs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn acceptor() -> TlsAcceptor {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der("site.key.der")));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(der("site.der"))], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn a_certificate_must_be_trusted_and_carry_the_name() {
    let site = TestServer::with(Some(acceptor()), |_, _| ok("secret")).await;
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, plain_port) = (site.address.port(), plain.local_addr().unwrap().port());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 x\r\n\r\n").await.unwrap();
    });
    let ask = async |url: String, extra: Vec<CertificateDer<'static>>| {
        let roots = TrustStore {
            uses_system_roots: false,
            falls_back_to_bundled: false,
            extra_roots: extra,
        };
        let resolver = ScriptedResolver::by(|_, _| vec!["127.0.0.1".parse().unwrap()]);
        let egress = EgressClient::new(EgressOptions {
            trust_store: roots,
            resolver,
            ..EgressOptions::default()
        })
        .unwrap();
        text(&egress, &operator(&url), &url).await
    };
    let root = || vec![CertificateDer::from(der("ca.der"))];
    assert_eq!(ask(format!("https://site.example.org:{port}/"), root()).await.unwrap(), "secret");
    assert_eq!(ask(format!("https://127.0.0.1:{port}/"), root()).await.unwrap(), "secret");
    for (url, extra, words) in [
        (format!("https://other.example.org:{port}/"), root(), "not trusted"),
        (format!("https://site.example.org:{port}/"), Vec::new(), "not trusted"),
        (format!("https://site.example.org:{plain_port}/"), root(), "TLS failed"),
    ] {
        let error = ask(url, extra).await.unwrap_err();
        assert!(
            matches!(error, EgressError::Tls { dispatch: DispatchState::NotSent, .. }),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(site.seen.requests().len(), 2);
}

#[tokio::test]
async fn the_systems_resolver_knows_this_machine_and_says_so_for_what_it_does_not_know() {
    let site = TestServer::start(|_, _| ok("x")).await;
    let url = format!("http://localhost:{}/", site.address.port());
    assert_eq!(text(&egress(), &operator(&url), &url).await.unwrap(), "x");
    let url = "http://no-such-host.invalid:9/";
    let limits =
        RequestLimits { connect_timeout: Duration::from_millis(1500), ..RequestLimits::default() };
    let error = egress().send_request(&operator(url), get(url), limits).await.unwrap_err();
    // Without a name server the system may only be silent.
    assert!(matches!(
        error,
        EgressError::Unreachable { .. }
            | EgressError::TimedOut { phase: RequestPhase::DnsLookup, .. }
    ));
    assert_eq!(error.dispatch(), DispatchState::NotSent);
}

#[tokio::test]
async fn a_private_listener_sees_nothing_of_a_callers_url() {
    let site = TestServer::start(|_, _| ok("")).await;
    let port = site.address.port();
    let rules = UrlPolicy { allowed_ports: vec![port], ..UrlPolicy::default() };
    let resolver = ScriptedResolver::by(|_, count| {
        [
            vec!["127.0.0.1".parse().unwrap()],
            vec!["8.8.8.8".parse().unwrap(), "127.0.0.1".parse().unwrap()],
        ][count % 2]
            .clone()
    });
    let egress = EgressClient::new(EgressOptions {
        url_policy: rules,
        resolver,
        ..EgressOptions::default()
    })
    .unwrap();
    for host in [
        "127.0.0.1",
        "2130706433",
        "localhost",
        "[::ffff:127.0.0.1]",
        "a.example.org",
        "b.example.org",
    ] {
        for class in [UrlTrust::CallArgument, UrlTrust::UpstreamResponse] {
            let error = text(&egress, &class, &format!("http://{host}:{port}/")).await.unwrap_err();
            assert!(
                matches!(error, EgressError::Blocked { dispatch: DispatchState::NotSent, .. }),
                "{host}: {error}"
            );
        }
    }
    assert_eq!(site.seen.accepted(), 0);
}
