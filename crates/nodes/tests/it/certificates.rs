//! Certificates of nodes: the newest one counts, and none once the node or its key is revoked.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nodes::{Addresses, Authority, Registry};
use proto::ServerConfig;
use proto::tls::{Identity, NodeKey, greet};
use testkit::clock::FakeClock;
use testkit::context::{caller, context};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;
use tool::executor::Sent;
use tool::node::{CertificateState, KeyState, NodeFault, Nodes as _, Speaks};
use tool::{Clock, Code, Mono, Wall};

use crate::support::{Heard, Node, call, has, offered, run, timed};

/// Certificates are checked against the time of day.
#[derive(Debug)]
struct Today;

impl Clock for Today {
    fn wall(&self) -> Wall {
        #[expect(
            clippy::disallowed_methods,
            reason = "certificates end by the machine's own clock"
        )]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Wall(u64::try_from(since.as_millis()).unwrap())
    }
    fn mono(&self) -> Mono {
        FakeClock::default().mono()
    }
}

/// Keys that hold no more.
#[derive(Debug, Default)]
struct Ended(Mutex<BTreeSet<String>>);

impl KeyState for Ended {
    fn has_ended(&self, key: &str, _: Wall) -> bool {
        self.0.lock().unwrap().contains(key)
    }
}

/// A registry that signs, with these tools of `n1`.
async fn signing(tools: &[&str]) -> Registry {
    let registry = timed(Arc::new(Today), None, tools).await;
    let authority = Authority::make(Today.wall()).unwrap();
    registry.set_authority(Authority::open(&authority).unwrap()).unwrap();
    registry
}

/// What a node shows that joins now, with this key.
async fn join(registry: &Registry, id: &str, with: Option<&str>) -> Arc<ServerConfig> {
    let key = NodeKey::new().unwrap();
    let (by, proof) = (Speaks::For(id.to_owned()), key.prove(id).unwrap());
    let signed = registry.certify(&by, id, (key.public(), &proof), with).await.unwrap();
    let identity = Identity::of_pem(&signed.certificate, &key.pem().unwrap(), &signed.authority);
    identity.unwrap().server().unwrap()
}

fn at(registry: &Registry, nodes: &[(&str, SocketAddr)]) {
    let url = |(id, at): &(&str, SocketAddr)| ((*id).to_owned(), format!("https://{at}"));
    let nodes = nodes.iter().map(url).collect();
    registry.set_addresses(Addresses { nodes, ..Addresses::default() });
}

async fn reached(registry: &Registry, node: &mut Node) {
    let caller = caller();
    call(registry, "echo", "{}", &context(&caller)).await.unwrap();
    assert!(matches!(node.next().await, Heard::Call { .. }));
    assert_eq!(node.next().await, Heard::Dropped);
}

/// A call that was not sent.
async fn unsent(registry: &Registry) -> String {
    let caller = caller();
    let refused = call(registry, "echo", "{}", &context(&caller)).await.unwrap_err();
    assert_eq!((refused.code, refused.sent), (Code::UpstreamLost, Sent::No), "{refused}");
    refused.message
}

fn states(registry: &Registry, node: &str) -> Vec<CertificateState> {
    registry.certificates(node).into_iter().map(|one| one.state).collect()
}

#[tokio::test]
async fn only_the_newest_certificate_of_a_node_is_accepted() {
    use CertificateState::{Current, Replaced};
    let registry = signing(&["echo"]).await;
    let first = join(&registry, "n1", None).await;
    let mut node = Node::showing("127.0.0.1:0", Arc::clone(&first)).await;
    at(&registry, &[("n1", node.address)]);
    reached(&registry, &mut node).await;
    assert_eq!(states(&registry, "n1"), [Current]);
    let second = join(&registry, "n1", None).await;
    assert_eq!(states(&registry, "n1"), [Current, Replaced]);
    // A connection that is open goes on; whoever shows the old one now is not called.
    reached(&registry, &mut node).await;
    let mut stolen = Node::showing("127.0.0.1:0", first).await;
    at(&registry, &[("n1", stolen.address)]);
    unsent(&registry).await;
    assert!(stolen.heard.try_recv().is_err());
    // The control: the newest one is.
    let mut renewed = Node::showing("127.0.0.1:0", second).await;
    at(&registry, &[("n1", renewed.address)]);
    reached(&registry, &mut renewed).await;
    let serials: BTreeSet<_> =
        registry.certificates("n1").into_iter().map(|one| one.serial).collect();
    assert_eq!(serials.len(), 2);
    for _ in 0..10 {
        join(&registry, "n1", None).await;
    }
    assert_eq!(registry.certificates("n1").len(), 8, "what is remembered is bounded");
}

#[tokio::test]
async fn a_revoked_node_is_cut_off_at_once_and_no_other() {
    let registry = signing(&["echo", "hangs"]).await;
    has(&registry, "n2", &["other"]).await;
    let (one, two) = (join(&registry, "n1", None).await, join(&registry, "n2", None).await);
    let mut one = Node::showing("127.0.0.1:0", one).await;
    let mut two = Node::showing("127.0.0.1:0", two).await;
    at(&registry, &[("n1", one.address), ("n2", two.address)]);
    let own = Speaks::For("n1".to_owned());
    let foreign = registry.revoke(&own, "n1").await;
    assert!(matches!(foreign, Err(NodeFault::Foreign(_))), "a person's work: {foreign:?}");
    assert_eq!(registry.revoke(&Speaks::All, "n9").await, Err(NodeFault::Missing));
    let caller = caller();
    let ctx = context(&caller);
    let (tool, executor) = offered(&registry, 1, "other").await;
    let other = (&tool, &executor);
    let mut staying = pin!(run(other, "{}", &ctx));
    let revoked = async {
        assert!(matches!(one.next().await, Heard::Call { .. }));
        assert!(matches!(two.next().await, Heard::Call { .. }));
        registry.revoke(&Speaks::All, "n1").await.unwrap();
    };
    let both = async { tokio::join!(call(&registry, "hangs", "{}", &ctx), revoked).0 };
    let lost = tokio::select! {
        ended = &mut staying => panic!("{ended:?}"),
        lost = both => lost.unwrap_err(),
    };
    assert_eq!((lost.code, lost.sent), (Code::UpstreamLost, Sent::Maybe), "{lost}");
    assert!(two.heard.try_recv().is_err(), "the other node's call goes on");
    assert!(unsent(&registry).await.contains("revoked"));
    assert_eq!(states(&registry, "n1"), [CertificateState::Revoked]);
    // In plaintext as little as over TLS.
    let mut plain = Node::start().await;
    crate::support::moved(&registry, plain.address);
    assert!(unsent(&registry).await.contains("revoked"));
    assert!(plain.heard.try_recv().is_err());
    // It joins again, and is called again.
    let mut again = Node::showing("127.0.0.1:0", join(&registry, "n1", None).await).await;
    at(&registry, &[("n1", again.address)]);
    reached(&registry, &mut again).await;
}

#[tokio::test]
async fn a_certificate_counts_for_as_long_as_the_key_it_was_issued_with() {
    let registry = signing(&["echo", "hangs"]).await;
    let ended = Arc::new(Ended::default());
    registry.set_keys(Arc::clone(&ended) as _);
    let first = join(&registry, "n1", Some("k1")).await;
    let mut node = Node::showing("127.0.0.1:0", first).await;
    at(&registry, &[("n1", node.address)]);
    reached(&registry, &mut node).await;
    // Another key that ends is none of its business.
    ended.0.lock().unwrap().insert("k2".to_owned());
    registry.review_keys().await;
    reached(&registry, &mut node).await;
    let caller = caller();
    let ctx = context(&caller);
    let ends = async {
        assert!(matches!(node.next().await, Heard::Call { .. }));
        ended.0.lock().unwrap().insert("k1".to_owned());
        registry.review_keys().await;
    };
    let (lost, ()) = tokio::join!(call(&registry, "hangs", "{}", &ctx), ends);
    assert_eq!(lost.unwrap_err().code, Code::UpstreamLost);
    assert!(unsent(&registry).await.contains("revoked"));
    // It is stored: the key counts no more if somebody should say that it holds again.
    ended.0.lock().unwrap().clear();
    assert!(unsent(&registry).await.contains("revoked"));
}

/// A node dials and says that it is this one.
#[expect(clippy::disallowed_methods, reason = "a test is the node, too")]
async fn let_in(server: SocketAddr, id: &str, shown: &Arc<ServerConfig>) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    greet(&mut stream, id).await?;
    TlsAcceptor::from(Arc::clone(shown)).accept(stream).await.map(drop)
}

#[tokio::test]
async fn a_node_that_dials_is_let_in_with_its_newest_certificate_alone() {
    let registry = Arc::new(signing(&["echo", "hangs"]).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let accepting = Arc::clone(&registry);
    drop(TaskTracker::new().spawn(async move { accepting.accept(listener).await }));
    let first = join(&registry, "n1", None).await;
    let_in(server, "n1", &first).await.unwrap();
    let second = join(&registry, "n1", None).await;
    let refused = let_in(server, "n1", &first).await;
    assert!(refused.is_err(), "it was replaced");
    let_in(server, "n1", &second).await.unwrap();

    let mut node = Node::dialling(server, "n1", Arc::clone(&second));
    let caller = caller();
    let ctx = context(&caller);
    while call(&registry, "echo", "{}", &ctx).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(node.next().await, Heard::Call { .. }));
    assert_eq!(node.next().await, Heard::Dropped);
    let own = registry.endpoint("n1").unwrap_err();
    let words = "the node `n1` has no address: it is called over its own connection";
    assert_eq!(own.to_string(), words);
    // A second one with the same certificate takes its place, and that is told.
    let replaced = || registry.nodes().into_iter().any(|node| node.replaced.is_some());
    assert!(!replaced());
    let other = Node::dialling(server, "n1", Arc::clone(&second));
    while !replaced() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.kill();
    node.kill();
    let mut node = Node::dialling(server, "n1", Arc::clone(&second));
    while call(&registry, "echo", "{}", &ctx).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut hanging = pin!(call(&registry, "hangs", "{}", &ctx));
    let begun = async {
        loop {
            match node.next().await {
                Heard::Call { tool, .. } if tool == "hangs" => break,
                _ => {}
            }
        }
    };
    tokio::select! {
        ended = &mut hanging => panic!("{ended:?}"),
        () = begun => {}
    }
    registry.revoke(&Speaks::All, "n1").await.unwrap();
    assert_eq!(hanging.await.unwrap_err().code, Code::UpstreamLost);
    assert!(let_in(server, "n1", &second).await.is_err(), "it was revoked");
    unsent(&registry).await;
}
