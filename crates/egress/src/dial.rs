//! One connection, made in the only order that is safe: resolve, check every address, dial exactly a
//! checked one, look who answered, then TLS with the host's name.

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
use tool::Boxed;
use tool::executor::Sent;
use url::Host;

use super::error::{EgressError, Phase, Shown};
use super::resolve::{MOST_ANSWERS, Resolve};
use super::target::{Origin, blocked, check_address};
use super::{Class, tls};
use host::descriptors::Claim;

/// Longest wait for the addresses of a name.
const RESOLVE: Duration = Duration::from_secs(2);
/// How long sent bytes may stay without an acknowledgement, in milliseconds (tcp(7), TCP_USER_TIMEOUT).
const UNACKNOWLEDGED: u32 = 20_000;

/// Opens connections. Tests bring their own, to count or to lead elsewhere.
pub trait Dial: Send + Sync + fmt::Debug {
    /// Connects to exactly this address; answers with the stream and the address that answered.
    ///
    /// # Errors
    /// The system's.
    fn dial(&self, address: SocketAddr) -> Boxed<'_, io::Result<(TcpStream, SocketAddr)>>;
}

/// Plain TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Tcp {
    async fn open(address: SocketAddr) -> io::Result<(TcpStream, SocketAddr)> {
        #[expect(clippy::disallowed_methods, reason = "guard is the one crate that dials")]
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        rustix::net::sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED)?;
        let peer = stream.peer_addr()?;
        Ok((stream, peer))
    }
}

impl Dial for Tcp {
    fn dial(&self, address: SocketAddr) -> Boxed<'_, io::Result<(TcpStream, SocketAddr)>> {
        Box::pin(Self::open(address))
    }
}

/// Makes connections for one [`Egress`](super::Egress).
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) dialer: Arc<dyn Dial>,
    pub(super) tls: Arc<ClientConfig>,
    /// The name that a certificate must carry; the origin's own where there is none.
    pub(super) name: Option<ServerName<'static>>,
}

impl Connector {
    /// The same for what is not HTTP: TLS then names no protocol.
    pub(super) fn without_alpn(&self) -> Self {
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols.clear();
        self.with_tls(Arc::new(tls), None)
    }

    /// The same with another idea of whom to believe.
    pub(super) fn with_tls(
        &self,
        tls: Arc<ClientConfig>,
        name: Option<ServerName<'static>>,
    ) -> Self {
        let (resolver, dialer) = (Arc::clone(&self.resolver), Arc::clone(&self.dialer));
        Self { resolver, dialer, tls, name }
    }

    /// A connection to `origin`, which was checked for `class`, within `limit`.
    pub(super) async fn connect(
        &self,
        class: &Class,
        origin: &Origin,
        limit: Duration,
    ) -> Result<Stream, EgressError> {
        let url = Shown::of(&origin.to_string());
        let end = Instant::now() + limit;
        let late =
            |phase| EgressError::TimedOut { url: url.clone(), phase, after: limit, sent: Sent::No };
        let resolving =
            timeout_at(end.min(Instant::now() + RESOLVE), self.addresses(class, origin, &url));
        let addresses = resolving.await.map_err(|_| EgressError::TimedOut {
            url: url.clone(),
            phase: Phase::Resolve,
            after: limit.min(RESOLVE),
            sent: Sent::No,
        })??;
        let claim = Claim::take(1).map_err(|error| EgressError::Unreachable {
            url: url.clone(),
            what: error.to_string(),
            sent: Sent::No,
        })?;
        let tcp = self.any_of(&addresses, origin.port(), end, &url).await?;
        let Some(tcp) = tcp else { return Err(late(Phase::Connect)) };
        if !origin.is_https() {
            return Ok(Stream::Plain(tcp, claim));
        }
        let name = self.name.clone().or_else(|| tls::server_name(origin));
        let name =
            name.ok_or_else(|| blocked(&url, "its host is not a name a certificate can carry"))?;
        let shaking = TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp);
        match timeout_at(end, shaking).await {
            Err(_) => Err(late(Phase::Tls)),
            Ok(Ok(stream)) => Ok(Stream::Tls(Box::new(stream), claim)),
            Ok(Err(error)) => Err(distrust(url, &error)),
        }
    }

    /// The addresses of `origin`, every one of them checked.
    async fn addresses(
        &self,
        class: &Class,
        origin: &Origin,
        url: &Shown,
    ) -> Result<Vec<IpAddr>, EgressError> {
        let unreachable =
            |what| EgressError::Unreachable { url: url.clone(), what, sent: Sent::No };
        let found = match origin.host() {
            Host::Domain(name) => self.look_up(class, name).await,
            Host::Ipv4(address) => Ok(vec![IpAddr::V4(*address)]),
            Host::Ipv6(address) => Ok(vec![IpAddr::V6(*address)]),
        };
        let found =
            found.map_err(|error| unreachable(format!("its host cannot be looked up: {error}")))?;
        if found.is_empty() {
            return Err(unreachable("its host has no address".to_owned()));
        }
        if found.len() > MOST_ANSWERS {
            return Err(blocked(url, format!("its host has over {MOST_ANSWERS} addresses")));
        }
        for address in &found {
            check_address(class, *address, origin.literal().is_some(), url)?;
        }
        Ok(found)
    }

    async fn look_up(&self, class: &Class, name: &str) -> io::Result<Vec<IpAddr>> {
        // A public name is made absolute, so that no search list of this network's is tried.
        if matches!(class, Class::Operator { .. }) || name.ends_with('.') {
            self.resolver.resolve(name).await
        } else {
            self.resolver.resolve(&format!("{name}.")).await
        }
    }

    /// The first that answers; each has its share of the time. `None` where the time is up.
    async fn any_of(
        &self,
        addresses: &[IpAddr],
        port: u16,
        end: Instant,
        url: &Shown,
    ) -> Result<Option<TcpStream>, EgressError> {
        let mut last = None;
        for (done, address) in addresses.iter().enumerate() {
            let now = Instant::now();
            let left = u32::try_from(addresses.len() - done).unwrap_or(u32::MAX);
            let turn = now + end.saturating_duration_since(now) / left;
            let address = SocketAddr::new(*address, port);
            match timeout_at(turn, self.dialer.dial(address)).await {
                Ok(Ok((stream, peer))) if peer == address => return Ok(Some(stream)),
                Ok(Ok(_)) => {
                    return Err(blocked(
                        url,
                        "another address answered than the one that was checked",
                    ));
                }
                Ok(Err(error)) => last = Some(error),
                Err(_) => {}
            }
        }
        match last {
            None => Ok(None),
            Some(error) => Err(EgressError::Unreachable {
                url: url.clone(),
                what: format!("{error}; is it running there?"),
                sent: Sent::No,
            }),
        }
    }
}

fn distrust(url: Shown, error: &io::Error) -> EgressError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let what = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!(
                "its certificate is not trusted: {why}; a private authority must be added to the roots"
            )
        }
        Some(other) => other.to_string(),
        None => error.to_string(),
    };
    EgressError::Tls { url, what, sent: Sent::No }
}

/// A connection, encrypted or not, and its descriptor.
#[derive(Debug)]
#[expect(dead_code, reason = "a claim is held, not read")]
pub(super) enum Stream {
    Plain(TcpStream, Claim),
    Tls(Box<TlsStream<TcpStream>>, Claim),
}

impl AsyncRead for Stream {
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

impl AsyncWrite for Stream {
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
