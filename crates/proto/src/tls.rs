//! Who may speak to whom: a node shows a certificate with the name that its id makes, and takes calls
//! only from who shows one of the server's. Both are signed by one authority, and nothing else counts.
//!
//! A certificate says what its owner is in its use: a node's is for servers of TLS alone, so that a node
//! cannot call another one with it.

mod acceptance;

use std::fmt;
use std::io;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

pub use acceptance::Acceptance;
use acceptance::CheckedVerifier;

/// The name in the server's own certificate.
pub const SERVER: &str = "server.toolkeep.internal";
/// Files of the folder that a node keeps: its certificate, its private key, the authority's certificate,
/// and its key for the registry.
pub const CERTIFICATE: &str = "node.pem";
/// See [`CERTIFICATE`].
pub const KEY: &str = "node.key";
/// See [`CERTIFICATE`].
pub const AUTHORITY: &str = "authority.pem";
/// See [`CERTIFICATE`].
pub const REGISTRY_KEY: &str = "registry.key";
/// What names of nodes end with.
const NODES: &str = ".node.toolkeep.internal";
/// What is signed to show that a key is one's own.
const PROOF: &[u8] = b"toolkeep node join\0";
/// HTTP/2.
const ALPN: &[u8] = b"h2";

/// What a connection that a node dials begins with, before its id.
const GREETING: &str = "toolkeep-node 1 ";
/// The longest id in a greeting, in bytes.
const ID: usize = 128;

/// Says which node dials. The other side then shakes hands as the one that calls.
///
/// # Errors
/// Where the connection breaks, or the id is none.
pub async fn greet(stream: &mut (impl AsyncWrite + Unpin), node_id: &str) -> io::Result<()> {
    if node_id.is_empty() || node_id.len() > ID || node_id.contains('\n') {
        let told = format!("an id has 1 to {ID} bytes on one line");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, told));
    }
    stream.write_all(format!("{GREETING}{node_id}\n").as_bytes()).await?;
    stream.flush().await
}

/// Takes a connection that a node dialled, and shakes hands over it as if this side had: the node must
/// show the certificate of the id that it says, and is shown one's own. Has no limit of time.
///
/// # Errors
/// Where it greets in another way, shows another certificate, or breaks off.
pub async fn greeted<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    tls: Arc<ClientConfig>,
) -> io::Result<(String, tokio_rustls::client::TlsStream<S>)> {
    let wrong = |told: String| io::Error::new(io::ErrorKind::InvalidData, told);
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            byte if line.len() < GREETING.len() + ID => line.push(byte),
            _ => return Err(wrong("this is no greeting of a node".to_owned())),
        }
    }
    let id = std::str::from_utf8(&line).ok().and_then(|line| line.strip_prefix(GREETING));
    let id = id.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| wrong("this is no greeting of a node".to_owned()))?.to_owned();
    let name = node_server_name(&id).map_err(|error| wrong(error.to_string()))?;
    let stream = TlsConnector::from(tls).connect(name, stream).await?;
    Ok((id, stream))
}

/// Why something of TLS cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl TlsError {
    fn of(what: &str, error: impl fmt::Display) -> Self {
        Self(format!("{what}: {error}"))
    }
}

/// The name in a node's certificate. Ids may hold what no name of a host can, so it is made of a hash.
pub fn node_name(node_id: &str) -> String {
    let hash = digest(&SHA256, node_id.as_bytes());
    let hex: String = hash.as_ref().iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    format!("n{hex}{NODES}")
}

/// The same as TLS checks it.
///
/// # Errors
/// Never, as far as anyone knows: the name is made of hexadecimal digits.
pub fn node_server_name(node_id: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(node_name(node_id)).map_err(|error| TlsError::of("a node's name", error))
}

/// The authority's word is enough.
#[derive(Debug)]
struct EverySigned;

impl Acceptance for EverySigned {
    fn check(&self, _: &str, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// What one side shows, and whom it believes.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authority: Arc<RootCertStore>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({} certificates)", self.chain.len())
    }
}

impl Identity {
    /// Of PEM: the own certificate, its private key, the authority's certificate.
    ///
    /// # Errors
    /// Where one of them is none.
    pub fn of_pem(certificate: &str, key: &str, authority: &str) -> Result<Self, TlsError> {
        let read = |what, pem: &str| -> Result<Vec<_>, TlsError> {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
            let all = all.map_err(|error| TlsError::of(what, error))?;
            if all.is_empty() { Err(TlsError::of(what, "there is none")) } else { Ok(all) }
        };
        let chain = read("the certificate", certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| TlsError::of("the private key", error))?;
        let mut roots = RootCertStore::empty();
        for root in read("the authority's certificate", authority)? {
            let what = "the authority's certificate";
            roots.add(root).map_err(|error| TlsError::of(what, error))?;
        }
        Ok(Self { chain, key, authority: Arc::new(roots) })
    }

    /// For calls to nodes.
    ///
    /// # Errors
    /// Where key and certificate do not belong together.
    pub fn client(&self) -> Result<Arc<ClientConfig>, TlsError> {
        self.client_of(Arc::new(EverySigned))
    }

    /// The same, where of the certificates that the authority signed only those count that `acceptance`
    /// lets count. Each connection is checked: none is resumed.
    ///
    /// # Errors
    /// Where key and certificate do not belong together.
    pub fn client_of(
        &self,
        acceptance: Arc<dyn Acceptance>,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let wrong = |error| TlsError::of("the certificate cannot be shown", error);
        let authority = Arc::clone(&self.authority);
        let signed = WebPkiServerVerifier::builder_with_provider(authority, provider())
            .build()
            .map_err(|error| TlsError::of("the authority", error))?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(CheckedVerifier { signed, acceptance }))
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(wrong)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// For a node: only who shows a certificate of the server gets through.
    ///
    /// # Errors
    /// Where key and certificate do not belong together.
    pub fn server(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let wrong = |error: rustls::Error| TlsError::of("the certificate cannot be shown", error);
        let authority = Arc::clone(&self.authority);
        let callers = WebPkiClientVerifier::builder_with_provider(authority, provider())
            .build()
            .map_err(|error| TlsError::of("the authority", error))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(wrong)?
            .with_client_cert_verifier(callers)
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(wrong)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Arc::new(config))
    }
}

/// Named here, so that it does not hang on what the process has installed.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The key that a node makes for itself: P-256. It never leaves the node.
#[derive(Debug)]
pub struct NodeKey(EcdsaKeyPair);

impl NodeKey {
    /// A new one.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub fn new() -> Result<Self, TlsError> {
        let made = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING);
        made.map(Self).map_err(|error| TlsError::of("a key", error))
    }

    /// The private key in PEM, to be kept where nobody else reads.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn pem(&self) -> Result<String, TlsError> {
        let der = self.0.to_pkcs8v1().map_err(|error| TlsError::of("a key", error))?;
        let der = PrivatePkcs8KeyDer::from(der.as_ref());
        Ok(pem("PRIVATE KEY", der.secret_pkcs8_der()))
    }

    /// The public key, as a point without compression.
    pub fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    /// Shows that the key is one's own, for this node.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub fn prove(&self, node_id: &str) -> Result<Vec<u8>, TlsError> {
        let signed = self.0.sign(&SystemRandom::new(), &proof(node_id, self.public()));
        let signed = signed.map_err(|error| TlsError::of("a signature", error))?;
        Ok(signed.as_ref().to_vec())
    }
}

/// Whether who asks for `node_id` has the private key of `public`, a P-256 point without compression.
pub fn proved(node_id: &str, public: &[u8], signature: &[u8]) -> bool {
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, public);
    key.verify(&proof(node_id, public), signature).is_ok()
}

fn proof(node_id: &str, public: &[u8]) -> Vec<u8> {
    [PROOF, node_id.as_bytes(), b"\0", public].concat()
}

/// RFC 7468: lines of 64 characters.
fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut lines = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        lines.push_str(&String::from_utf8_lossy(line));
        lines.push('\n');
    }
    lines + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::{NodeKey, node_name, proved};

    #[test]
    fn any_id_makes_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            ["a", "A", "", "node/1", "ü".repeat(200).as_str()].map(node_name).into();
        assert_eq!(names.len(), 5);
        for name in names {
            assert!(name.split('.').all(|label| label.len() < 64 && !label.is_empty()), "{name}");
            assert!(rustls::pki_types::ServerName::try_from(name.clone()).is_ok(), "{name}");
        }
    }

    #[test]
    fn only_who_has_the_key_can_ask_with_it_and_only_for_one_node() {
        let (own, other) = (NodeKey::new().unwrap(), NodeKey::new().unwrap());
        let signature = own.prove("n1").unwrap();
        assert!(proved("n1", own.public(), &signature));
        assert!(!proved("n2", own.public(), &signature));
        assert!(!proved("n1", other.public(), &signature));
        assert!(!proved("n1", b"no point", &signature));
        assert!(!proved("n1", own.public(), b""));
    }
}
