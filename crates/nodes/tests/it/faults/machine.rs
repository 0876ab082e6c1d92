//! A machine that runs tools: a node over TLS behind a line that can be cut, at an address of its own.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nodes::CertificateAuthority;
use proto::server::serve_tcp;
use proto::tls::{NodeKey, TlsIdentity};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::Clock as _;
use tool::node_registry::KeyProof;

use super::RealClock;
use super::writes::WriteLogTools;

/// Nodes that executed each call, by call number.
pub(super) type Effects = Arc<Mutex<HashMap<u64, Vec<String>>>>;

/// A node that runs until it is dropped, at once and with all that it does.
pub(super) struct Machine {
    runtime: Option<Runtime>,
    stopped: Arc<AtomicBool>,
}

impl Machine {
    /// At `at`, with the certificate of `id`.
    pub(super) async fn start(
        id: &str,
        at: SocketAddr,
        authority: &CertificateAuthority,
        effects: &Effects,
    ) -> Self {
        let key = NodeKey::generate().unwrap();
        let signature = key.sign_proof(id).unwrap();
        let proof = KeyProof { public_key: key.public_key(), signature: &signature };
        let signed =
            authority.issue_node_certificate(id, proof, RealClock::default().wall_now()).unwrap();
        let identity = TlsIdentity::from_pem(
            &signed.certificate_pem,
            &key.private_key_pem().unwrap(),
            &signed.ca_certificate_pem,
        );
        let tls = identity.unwrap().server_config().unwrap();
        let outer = bind_listener(at).await.into_std().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let effects = Arc::clone(effects);
        let writes = WriteLogTools::new(id, move |number, id| {
            effects.lock().unwrap().entry(number).or_default().push(id.to_owned());
        });
        let stopped = Arc::new(AtomicBool::new(false));
        let line = Arc::clone(&stopped);
        drop(TaskTracker::new().spawn_on(
            async move {
                let inner = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let behind = inner.local_addr().unwrap();
                let outer = TcpListener::from_std(outer).unwrap();
                let serving =
                    serve_tcp(Arc::new(writes), inner, Some(tls), CancellationToken::new());
                tokio::join!(serving, relay(outer, behind, line)).0.unwrap();
            },
            runtime.handle(),
        ));
        Self { runtime: Some(runtime), stopped }
    }

    /// Drops all traffic without notification.
    pub(super) fn stop(&self, stopped: bool) {
        self.stopped.store(stopped, Ordering::SeqCst);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Listens there as soon as what was there before is gone.
pub(crate) async fn bind_listener(at: SocketAddr) -> TcpListener {
    let since = tokio::time::Instant::now();
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        match socket.bind(at).and_then(|()| socket.listen(256)) {
            Ok(listener) => return listener,
            Err(error) => assert!(since.elapsed() < Duration::from_secs(20), "{at}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn relay(outer: TcpListener, behind: SocketAddr, stopped: Arc<AtomicBool>) {
    let mut open = tokio::task::JoinSet::new();
    loop {
        let (from, _) = outer.accept().await.unwrap();
        let stopped = Arc::clone(&stopped);
        open.spawn(async move {
            #[expect(clippy::disallowed_methods, reason = "a test is the network, too")]
            let to = TcpStream::connect(behind).await.unwrap();
            from.set_nodelay(true).unwrap();
            to.set_nodelay(true).unwrap();
            let (from_read, from_write) = from.into_split();
            let (to_read, to_write) = to.into_split();
            tokio::select! {
                () = copy_one_way(from_read, to_write, &stopped) => {}
                () = copy_one_way(to_read, from_write, &stopped) => {}
            }
        });
    }
}

async fn copy_one_way(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    stopped: &AtomicBool,
) {
    let mut part = vec![0; 16 << 10];
    loop {
        let Ok(read @ 1..) = from.read(&mut part).await else { return };
        while stopped.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if to.write_all(&part[..read]).await.is_err() {
            return;
        }
    }
}

/// A port that is free at all of these addresses.
pub(crate) async fn free_port(all: &[IpAddr]) -> u16 {
    'again: loop {
        let first = TcpListener::bind((all[0], 0)).await.unwrap();
        let port = first.local_addr().unwrap().port();
        for other in &all[1..] {
            if TcpListener::bind((*other, port)).await.is_err() {
                continue 'again;
            }
        }
        return port;
    }
}
