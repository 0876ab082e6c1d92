//! Opens one connection in an order that prevents DNS rebinding: resolve the host, check every
//! address, dial, verify the peer address, perform the TLS handshake.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tool::BoxFuture;
use tool::executor::DispatchState;
use url::Host;

use super::error::{EgressError, RedactedUrl, RequestPhase};
use super::resolver::{DnsResolver, MAX_ADDRESSES};
use super::url_policy::{Origin, blocked_error, check_address};
use super::{UrlTrust, tls};
use host::descriptors::DescriptorClaim;

/// Timeout of a DNS lookup.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for unacknowledged sent data, in milliseconds (tcp(7), TCP_USER_TIMEOUT).
const TCP_USER_TIMEOUT_MS: u32 = 20_000;

/// Opens TCP connections. Tests use their own, to count them or to redirect them.
pub trait Dialer: Send + Sync + fmt::Debug {
    /// Connects to exactly this address and returns the stream and its peer address.
    ///
    /// # Errors
    /// The error of the operating system.
    fn dial_address(
        &self,
        address: SocketAddr,
    ) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>>;
}

/// Opens plain TCP connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpDialer;

impl TcpDialer {
    async fn connect_stream(address: SocketAddr) -> io::Result<(TcpStream, SocketAddr)> {
        #[expect(clippy::disallowed_methods, reason = "guard is the one crate that dials")]
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        rustix::net::sockopt::set_tcp_user_timeout(&stream, TCP_USER_TIMEOUT_MS)?;
        let peer = stream.peer_addr()?;
        Ok((stream, peer))
    }
}

impl Dialer for TcpDialer {
    fn dial_address(
        &self,
        address: SocketAddr,
    ) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>> {
        Box::pin(Self::connect_stream(address))
    }
}

/// Opens checked connections for one [`EgressClient`](super::EgressClient).
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) resolver: Arc<dyn DnsResolver>,
    pub(super) dialer: Arc<dyn Dialer>,
    pub(super) tls_config: Arc<ClientConfig>,
    /// The name that the certificate must carry; `None` means the host of the origin.
    pub(super) server_name: Option<ServerName<'static>>,
}

impl Connector {
    /// Returns a connector that offers no ALPN protocol, for protocols other than HTTP.
    pub(super) fn without_alpn(&self) -> Self {
        let mut tls_config = ClientConfig::clone(&self.tls_config);
        tls_config.alpn_protocols.clear();
        self.with_tls(Arc::new(tls_config), None)
    }

    /// Returns a connector with another TLS configuration.
    pub(super) fn with_tls(
        &self,
        tls_config: Arc<ClientConfig>,
        server_name: Option<ServerName<'static>>,
    ) -> Self {
        let (resolver, dialer) = (Arc::clone(&self.resolver), Arc::clone(&self.dialer));
        Self { resolver, dialer, tls_config, server_name }
    }

    /// Opens a connection to a validated `origin` within `limit`.
    pub(super) async fn connect_origin(
        &self,
        trust: &UrlTrust,
        origin: &Origin,
        limit: Duration,
    ) -> Result<TransportStream, EgressError> {
        let url = RedactedUrl::from_text(&origin.to_string());
        let deadline = Instant::now() + limit;
        let timeout_error = |phase| EgressError::TimedOut {
            url: url.clone(),
            phase,
            timeout: limit,
            dispatch: DispatchState::NotSent,
        };
        let resolution = timeout_at(
            deadline.min(Instant::now() + RESOLVE_TIMEOUT),
            self.resolve_checked(trust, origin, &url),
        );
        let addresses = resolution.await.map_err(|_| EgressError::TimedOut {
            url: url.clone(),
            phase: RequestPhase::DnsLookup,
            timeout: limit.min(RESOLVE_TIMEOUT),
            dispatch: DispatchState::NotSent,
        })??;
        let claim =
            DescriptorClaim::reserve_for_source(1).map_err(|error| EgressError::Unreachable {
                url: url.clone(),
                reason: error.to_string(),
                is_refused: false,
                dispatch: DispatchState::NotSent,
            })?;
        let tcp = self.connect_any(&addresses, origin.port(), deadline, &url).await?;
        let Some(tcp) = tcp else { return Err(timeout_error(RequestPhase::Connect)) };
        if !origin.is_https() {
            return Ok(TransportStream::Plain(tcp, claim));
        }
        let name = self.server_name.clone().or_else(|| tls::server_name(origin));
        let name = name
            .ok_or_else(|| blocked_error(&url, "its host is not a name a certificate can carry"))?;
        let handshake = TlsConnector::from(Arc::clone(&self.tls_config)).connect(name, tcp);
        match timeout_at(deadline, handshake).await {
            Err(_) => Err(timeout_error(RequestPhase::TlsHandshake)),
            Ok(Ok(stream)) => Ok(TransportStream::Tls(Box::new(stream), claim)),
            Ok(Err(error)) => Err(tls_error(url, &error)),
        }
    }

    /// Resolves `origin` and checks every address.
    async fn resolve_checked(
        &self,
        trust: &UrlTrust,
        origin: &Origin,
        url: &RedactedUrl,
    ) -> Result<Vec<IpAddr>, EgressError> {
        let unreachable = |what| EgressError::Unreachable {
            url: url.clone(),
            reason: what,
            is_refused: false,
            dispatch: DispatchState::NotSent,
        };
        let found = match origin.host() {
            Host::Domain(name) => self.look_up_host(trust, name).await,
            Host::Ipv4(address) => Ok(vec![IpAddr::V4(*address)]),
            Host::Ipv6(address) => Ok(vec![IpAddr::V6(*address)]),
        };
        let found =
            found.map_err(|error| unreachable(format!("its host cannot be resolved: {error}")))?;
        if found.is_empty() {
            return Err(unreachable("its host has no address".to_owned()));
        }
        if found.len() > MAX_ADDRESSES {
            return Err(blocked_error(
                url,
                format!(
                    "its host has more than {MAX_ADDRESSES} \
                addresses"
                ),
            ));
        }
        for address in &found {
            check_address(trust, *address, origin.ip_literal().is_some(), url)?;
        }
        Ok(found)
    }

    async fn look_up_host(&self, trust: &UrlTrust, name: &str) -> io::Result<Vec<IpAddr>> {
        // A public name is made absolute, so that DNS search domains do not apply.
        if matches!(trust, UrlTrust::Configured { .. }) || name.ends_with('.') {
            self.resolver.resolve_host(name).await
        } else {
            self.resolver.resolve_host(&format!("{name}.")).await
        }
    }

    /// Dials the addresses in turn, each with its share of the time. Returns `None` on a timeout.
    async fn connect_any(
        &self,
        addresses: &[IpAddr],
        port: u16,
        deadline: Instant,
        url: &RedactedUrl,
    ) -> Result<Option<TcpStream>, EgressError> {
        let mut last_error = None;
        for (tried_count, address) in addresses.iter().enumerate() {
            let now = Instant::now();
            let remaining_count = u32::try_from(addresses.len() - tried_count).unwrap_or(u32::MAX);
            let attempt_deadline = now + deadline.saturating_duration_since(now) / remaining_count;
            let address = SocketAddr::new(*address, port);
            match timeout_at(attempt_deadline, self.dialer.dial_address(address)).await {
                Ok(Ok((stream, peer))) if peer == address => return Ok(Some(stream)),
                Ok(Ok(_)) => {
                    return Err(blocked_error(
                        url,
                        "the connection reached another address than the validated one",
                    ));
                }
                Ok(Err(error)) => last_error = Some(error),
                Err(_) => {}
            }
        }
        match last_error {
            None => Ok(None),
            Some(error) => Err(EgressError::Unreachable {
                url: url.clone(),
                reason: error.to_string(),
                is_refused: true,
                dispatch: DispatchState::NotSent,
            }),
        }
    }
}

fn tls_error(url: RedactedUrl, error: &io::Error) -> EgressError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let reason = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("its certificate is not trusted: {why}; add a private CA to the trusted roots")
        }
        Some(other) => other.to_string(),
        None => error.to_string(),
    };
    EgressError::Tls { url, reason, dispatch: DispatchState::NotSent }
}

/// A TCP stream with or without TLS, and its file descriptor reservation.
#[derive(Debug)]
#[expect(dead_code, reason = "a claim is held, not read")]
pub(super) enum TransportStream {
    Plain(TcpStream, DescriptorClaim),
    Tls(Box<TlsStream<TcpStream>>, DescriptorClaim),
}

impl AsyncRead for TransportStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream, _) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream, _) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for TransportStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream, _) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream, _) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream, _) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream, _) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream, _) => stream.is_write_vectored(),
            Self::Tls(stream, _) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream, _) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream, _) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream, _) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream, _) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
