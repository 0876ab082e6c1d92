//! Certificates of nodes: the newest one counts, and none once the node or its key is revoked.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nodes::{CertificateAuthority, NodeAddresses, PersistentNodeRegistry};
use proto::ServerConfig;
use proto::tls::{NodeKey, TlsIdentity, send_greeting};
use testkit::clock::FakeClock;
use testkit::context::{quiet_context, test_caller};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;
use tool::executor::DispatchState;
use tool::node_registry::{
    CertificateState, KeyProof, NodeAccess, NodeError, NodeKeyStatus, NodeRegistry as _,
};
use tool::{Clock, ErrorCode, MonotonicTime, WallTime};

use crate::support::{Node, NodeEvent, call, listed_offers, register_tools, run, timed};

/// Certificates are checked against the time of day.
#[derive(Debug)]
struct AdjustableClock;

impl Clock for AdjustableClock {
    fn wall_now(&self) -> WallTime {
        #[expect(
            clippy::disallowed_methods,
            reason = "certificates end by the machine's own clock"
        )]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        WallTime(u64::try_from(since.as_millis()).unwrap())
    }
    fn monotonic_now(&self) -> MonotonicTime {
        FakeClock::default().monotonic_now()
    }
}

/// Keys that hold no more.
#[derive(Debug, Default)]
struct EndedKeys(Mutex<BTreeSet<String>>);

impl NodeKeyStatus for EndedKeys {
    fn is_key_ended(&self, key: &str, _: WallTime) -> bool {
        self.0.lock().unwrap().contains(key)
    }
}

/// A registry that signs, with these tools of `n1`.
async fn registry_with_authority(tools: &[&str]) -> PersistentNodeRegistry {
    let registry = timed(Arc::new(AdjustableClock), None, tools).await;
    let authority = CertificateAuthority::generate(AdjustableClock.wall_now()).unwrap();
    registry.set_authority(CertificateAuthority::from_stored(&authority).unwrap()).unwrap();
    registry
}

/// Joins a node, with this key if given, and returns its TLS configuration.
async fn join_node(
    registry: &PersistentNodeRegistry,
    id: &str,
    with: Option<&str>,
) -> Arc<ServerConfig> {
    let key = NodeKey::generate().unwrap();
    let (by, signature) = (NodeAccess::Node(id.to_owned()), key.sign_proof(id).unwrap());
    let proof = KeyProof { public_key: key.public_key(), signature: &signature };
    let signed = registry.issue_certificate(&by, id, proof, with).await.unwrap();
    let identity = TlsIdentity::from_pem(
        &signed.certificate_pem,
        &key.private_key_pem().unwrap(),
        &signed.ca_certificate_pem,
    );
    identity.unwrap().server_config().unwrap()
}

fn set_https_addresses(registry: &PersistentNodeRegistry, nodes: &[(&str, SocketAddr)]) {
    let url = |(id, at): &(&str, SocketAddr)| ((*id).to_owned(), format!("https://{at}"));
    let nodes = nodes.iter().map(url).collect();
    registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
}

async fn assert_reached(registry: &PersistentNodeRegistry, node: &mut Node) {
    let caller = test_caller();
    call(registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(node.next().await, NodeEvent::Call { .. }));
    assert_eq!(node.next().await, NodeEvent::Dropped);
}

/// A call that was not sent.
async fn not_sent_message(registry: &PersistentNodeRegistry) -> String {
    let caller = test_caller();
    let refused = call(registry, "echo", "{}", &quiet_context(&caller)).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.dispatch),
        (ErrorCode::UpstreamLost, DispatchState::NotSent),
        "{refused}"
    );
    refused.message
}

fn states(registry: &PersistentNodeRegistry, node: &str) -> Vec<CertificateState> {
    registry.list_certificates(node).into_iter().map(|one| one.state).collect()
}

#[tokio::test]
async fn only_the_newest_certificate_of_a_node_is_accepted() {
    use CertificateState::{Current, Replaced};
    let registry = registry_with_authority(&["echo"]).await;
    let first = join_node(&registry, "n1", None).await;
    let mut node = Node::start_with_tls("127.0.0.1:0", Arc::clone(&first)).await;
    set_https_addresses(&registry, &[("n1", node.address)]);
    assert_reached(&registry, &mut node).await;
    assert_eq!(states(&registry, "n1"), [Current]);
    let second = join_node(&registry, "n1", None).await;
    assert_eq!(states(&registry, "n1"), [Current, Replaced]);
    // An open connection continues; a node that presents the old certificate now is not called.
    assert_reached(&registry, &mut node).await;
    let mut stolen = Node::start_with_tls("127.0.0.1:0", first).await;
    set_https_addresses(&registry, &[("n1", stolen.address)]);
    not_sent_message(&registry).await;
    assert!(stolen.events.try_recv().is_err());
    // The control: the newest one is.
    let mut renewed = Node::start_with_tls("127.0.0.1:0", second).await;
    set_https_addresses(&registry, &[("n1", renewed.address)]);
    assert_reached(&registry, &mut renewed).await;
    let serials: BTreeSet<_> =
        registry.list_certificates("n1").into_iter().map(|one| one.serial).collect();
    assert_eq!(serials.len(), 2);
    for _ in 0..10 {
        join_node(&registry, "n1", None).await;
    }
    assert_eq!(registry.list_certificates("n1").len(), 8, "what is remembered is bounded");
}

#[tokio::test]
async fn a_revoked_node_is_cut_off_at_once_and_no_other() {
    let registry = registry_with_authority(&["echo", "hangs"]).await;
    register_tools(&registry, "n2", &["other"]).await;
    let (one, two) =
        (join_node(&registry, "n1", None).await, join_node(&registry, "n2", None).await);
    let mut one = Node::start_with_tls("127.0.0.1:0", one).await;
    let mut two = Node::start_with_tls("127.0.0.1:0", two).await;
    set_https_addresses(&registry, &[("n1", one.address), ("n2", two.address)]);
    let own = NodeAccess::Node("n1".to_owned());
    let foreign = registry.revoke_certificates(&own, "n1").await;
    assert!(matches!(foreign, Err(NodeError::NotAuthorized(_))), "a person's work: {foreign:?}");
    assert_eq!(
        registry.revoke_certificates(&NodeAccess::All, "n9").await,
        Err(NodeError::NotFound)
    );
    let caller = test_caller();
    let ctx = quiet_context(&caller);
    let (tool, executor) = listed_offers(&registry, 1, "other").await;
    let other = (&tool, &executor);
    let mut staying = pin!(run(other, "{}", &ctx));
    let revoked = async {
        assert!(matches!(one.next().await, NodeEvent::Call { .. }));
        assert!(matches!(two.next().await, NodeEvent::Call { .. }));
        registry.revoke_certificates(&NodeAccess::All, "n1").await.unwrap();
    };
    let both = async { tokio::join!(call(&registry, "hangs", "{}", &ctx), revoked).0 };
    let lost = tokio::select! {
        ended = &mut staying => panic!("{ended:?}"),
        lost = both => lost.unwrap_err(),
    };
    assert_eq!(
        (lost.code, lost.dispatch),
        (ErrorCode::UpstreamLost, DispatchState::MaybeSent),
        "{lost}"
    );
    assert!(two.events.try_recv().is_err(), "the other node's call goes on");
    assert!(not_sent_message(&registry).await.contains("revoked"));
    assert_eq!(states(&registry, "n1"), [CertificateState::Revoked]);
    // In plaintext as little as over TLS.
    let mut plain = Node::start().await;
    crate::support::set_address(&registry, plain.address);
    assert!(not_sent_message(&registry).await.contains("revoked"));
    assert!(plain.events.try_recv().is_err());
    // It joins again, and is called again.
    let mut again =
        Node::start_with_tls("127.0.0.1:0", join_node(&registry, "n1", None).await).await;
    set_https_addresses(&registry, &[("n1", again.address)]);
    assert_reached(&registry, &mut again).await;
}

#[tokio::test]
async fn a_certificate_counts_for_as_long_as_the_key_it_was_issued_with() {
    let registry = registry_with_authority(&["echo", "hangs"]).await;
    let ended = Arc::new(EndedKeys::default());
    registry.set_key_status(Arc::clone(&ended) as _);
    let first = join_node(&registry, "n1", Some("k1")).await;
    let mut node = Node::start_with_tls("127.0.0.1:0", first).await;
    set_https_addresses(&registry, &[("n1", node.address)]);
    assert_reached(&registry, &mut node).await;
    // Another key that ends is none of its business.
    ended.0.lock().unwrap().insert("k2".to_owned());
    registry.revoke_ended_keys().await;
    assert_reached(&registry, &mut node).await;
    let caller = test_caller();
    let ctx = quiet_context(&caller);
    let ends = async {
        assert!(matches!(node.next().await, NodeEvent::Call { .. }));
        ended.0.lock().unwrap().insert("k1".to_owned());
        registry.revoke_ended_keys().await;
    };
    let (lost, ()) = tokio::join!(call(&registry, "hangs", "{}", &ctx), ends);
    assert_eq!(lost.unwrap_err().code, ErrorCode::UpstreamLost);
    assert!(not_sent_message(&registry).await.contains("revoked"));
    // The revocation is stored: the key stays invalid even if a caller claims otherwise.
    ended.0.lock().unwrap().clear();
    assert!(not_sent_message(&registry).await.contains("revoked"));
}

/// A node connects and claims to be this one.
#[expect(clippy::disallowed_methods, reason = "a test is the node, too")]
async fn connect_node(server: SocketAddr, id: &str, shown: &Arc<ServerConfig>) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    send_greeting(&mut stream, id).await?;
    TlsAcceptor::from(Arc::clone(shown)).accept(stream).await.map(drop)
}

#[tokio::test]
async fn a_node_that_dials_is_let_in_with_its_newest_certificate_alone() {
    let registry = Arc::new(registry_with_authority(&["echo", "hangs"]).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let accepting = Arc::clone(&registry);
    drop(TaskTracker::new().spawn(async move { accepting.accept_nodes(listener).await }));
    let first = join_node(&registry, "n1", None).await;
    connect_node(server, "n1", &first).await.unwrap();
    let second = join_node(&registry, "n1", None).await;
    let refused = connect_node(server, "n1", &first).await;
    assert!(refused.is_err(), "it was replaced");
    connect_node(server, "n1", &second).await.unwrap();

    let mut node = Node::start_reverse(server, "n1", Arc::clone(&second));
    let caller = test_caller();
    let ctx = quiet_context(&caller);
    while call(&registry, "echo", "{}", &ctx).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(node.next().await, NodeEvent::Call { .. }));
    assert_eq!(node.next().await, NodeEvent::Dropped);
    let own = registry.resolve_endpoint("n1").unwrap_err();
    let words = "the node `n1` has no address: it is called over its own connection";
    assert_eq!(own.to_string(), words);
    // A second connection with the same certificate replaces the first one, which is logged.
    let replaced =
        || registry.list_nodes().into_iter().any(|node| node.connection_replaced_at.is_some());
    assert!(!replaced());
    let other = Node::start_reverse(server, "n1", Arc::clone(&second));
    while !replaced() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.kill();
    node.kill();
    let mut node = Node::start_reverse(server, "n1", Arc::clone(&second));
    while call(&registry, "echo", "{}", &ctx).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut hanging = pin!(call(&registry, "hangs", "{}", &ctx));
    let begun = async {
        loop {
            match node.next().await {
                NodeEvent::Call { tool, .. } if tool == "hangs" => break,
                _ => {}
            }
        }
    };
    tokio::select! {
        ended = &mut hanging => panic!("{ended:?}"),
        () = begun => {}
    }
    registry.revoke_certificates(&NodeAccess::All, "n1").await.unwrap();
    assert_eq!(hanging.await.unwrap_err().code, ErrorCode::UpstreamLost);
    assert!(connect_node(server, "n1", &second).await.is_err(), "it was revoked");
    not_sent_message(&registry).await;
}
