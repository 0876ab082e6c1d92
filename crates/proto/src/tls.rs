//! Mutual TLS between server and nodes. A node's certificate carries a name derived from its id; a
//! node accepts calls only from clients with a server certificate of the same authority.
//!
//! The extended key usage of a certificate states its role: a node's is for TLS servers only, so
//! that a node cannot call another node with it.

mod certificate_acceptance;

use std::fmt;
use std::io;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use data_encoding::HEXLOWER;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

pub use certificate_acceptance::CertificateAcceptance;
use certificate_acceptance::CheckedVerifier;

/// The name in the certificate of the server.
pub const SERVER_NAME: &str = "server.toolkeep.internal";
/// File name of the node's certificate in its folder.
pub const CERTIFICATE_FILE: &str = "node.pem";
/// File name of the node's private key in its folder.
pub const PRIVATE_KEY_FILE: &str = "node.key";
/// File name of the authority's certificate in the node's folder.
pub const AUTHORITY_FILE: &str = "authority.pem";
/// File name of the node's API key for the registry.
pub const REGISTRY_KEY_FILE: &str = "registry.key";
/// The suffix of node names.
const NODE_NAME_SUFFIX: &str = ".node.toolkeep.internal";
/// The prefix of the message that proves possession of a key.
const PROOF_PREFIX: &[u8] = b"toolkeep node join\0";
/// The ALPN protocol name of HTTP/2.
const ALPN_HTTP2: &[u8] = b"h2";

/// The start of the greeting of a reverse connection; the node id follows.
const GREETING_PREFIX: &str = "toolkeep-node 1 ";
/// Maximum length of a node id in a greeting, in bytes.
const MAX_NODE_ID_BYTES: usize = 128;

/// Sends the greeting of a node over a reverse connection. The server then acts as the TLS client.
///
/// # Errors
/// Fails if the connection fails or the id is invalid.
pub async fn send_greeting(
    stream: &mut (impl AsyncWrite + Unpin),
    node_id: &str,
) -> io::Result<()> {
    if node_id.is_empty() || node_id.len() > MAX_NODE_ID_BYTES || node_id.contains('\n') {
        let message = format!("a node ID must have 1 to {MAX_NODE_ID_BYTES} bytes on one line");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    stream.write_all(format!("{GREETING_PREFIX}{node_id}\n").as_bytes()).await?;
    stream.flush().await
}

/// Reads the greeting of a reverse connection and performs the TLS handshake as the client. The
/// node must present the certificate of the id in its greeting. Has no timeout.
///
/// # Errors Fails for an invalid greeting, another certificate or a failed connection.
pub async fn accept_greeting<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    tls: Arc<ClientConfig>,
) -> io::Result<(String, tokio_rustls::client::TlsStream<S>)> {
    let greeting_error = |told: String| io::Error::new(io::ErrorKind::InvalidData, told);
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            byte if line.len() < GREETING_PREFIX.len() + MAX_NODE_ID_BYTES => line.push(byte),
            _ => return Err(greeting_error("invalid greeting of a node".to_owned())),
        }
    }
    let id = std::str::from_utf8(&line).ok().and_then(|line| line.strip_prefix(GREETING_PREFIX));
    let id = id.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| greeting_error("invalid greeting of a node".to_owned()))?.to_owned();
    let name = node_server_name(&id).map_err(|error| greeting_error(error.to_string()))?;
    let stream = TlsConnector::from(tls).connect(name, stream).await?;
    Ok((id, stream))
}

/// The reason why a certificate, key or TLS configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl TlsError {
    fn with_context(what: &str, error: impl fmt::Display) -> Self {
        Self(format!("{what}: {error}"))
    }
}

/// Returns the certificate name of a node. It is derived from a hash, because ids may hold
/// characters that host names cannot.
pub fn node_name(node_id: &str) -> String {
    let hash = digest(&SHA256, node_id.as_bytes());
    format!("n{:.40}{NODE_NAME_SUFFIX}", HEXLOWER.encode(hash.as_ref()))
}

/// Returns the certificate name of a node as a TLS server name.
///
/// # Errors
/// None in practice: the name consists of hexadecimal digits.
pub fn node_server_name(node_id: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(node_name(node_id))
        .map_err(|error| TlsError::with_context("a node's name", error))
}

/// Accepts every certificate that the authority signed.
#[derive(Debug)]
struct AcceptEverySigned;

impl CertificateAcceptance for AcceptEverySigned {
    fn check_acceptance(&self, _: &str, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// The certificate and private key of one side, and the authority that it trusts.
pub struct TlsIdentity {
    certificate_chain: Vec<CertificateDer<'static>>,
    private_key: PrivateKeyDer<'static>,
    trusted_roots: Arc<RootCertStore>,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsIdentity({} certificates)", self.certificate_chain.len())
    }
}

impl TlsIdentity {
    /// Parses certificate, private key and the certificate of the authority from PEM.
    ///
    /// # Errors
    /// Fails if one of them is invalid.
    pub fn from_pem(certificate: &str, key: &str, authority: &str) -> Result<Self, TlsError> {
        let parse_certificates = |what, pem: &str| -> Result<Vec<_>, TlsError> {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
            let all = all.map_err(|error| TlsError::with_context(what, error))?;
            if all.is_empty() {
                Err(TlsError::with_context(what, "there is none"))
            } else {
                Ok(all)
            }
        };
        let certificate_chain = parse_certificates("the certificate", certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| TlsError::with_context("the private key", error))?;
        let mut trusted_roots = RootCertStore::empty();
        for root in parse_certificates("the authority's certificate", authority)? {
            let what = "the authority's certificate";
            trusted_roots.add(root).map_err(|error| TlsError::with_context(what, error))?;
        }
        Ok(Self { certificate_chain, private_key: key, trusted_roots: Arc::new(trusted_roots) })
    }

    /// Builds the TLS configuration for calls to nodes.
    ///
    /// # Errors
    /// Fails if key and certificate do not match.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        self.accepting_client_config(Arc::new(AcceptEverySigned))
    }

    /// Builds the TLS configuration for calls to nodes whose certificates pass `acceptance`.
    /// Sessions are not resumed, so that each connection is checked.
    ///
    /// # Errors
    /// Fails if key and certificate do not match.
    pub fn accepting_client_config(
        &self,
        acceptance: Arc<dyn CertificateAcceptance>,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let certificate_error = |error| TlsError::with_context("cannot use the certificate", error);
        let authority = Arc::clone(&self.trusted_roots);
        let chain_verifier =
            WebPkiServerVerifier::builder_with_provider(authority, crypto_provider())
                .build()
                .map_err(|error| TlsError::with_context("the authority", error))?;
        let mut config = ClientConfig::builder_with_provider(crypto_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(certificate_error)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(CheckedVerifier {
                chain_verifier,
                acceptance,
            }))
            .with_client_auth_cert(self.certificate_chain.clone(), self.private_key.clone_key())
            .map_err(certificate_error)?;
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// Builds the TLS configuration of a node, which accepts only clients with a server
    /// certificate.
    ///
    /// # Errors
    /// Fails if key and certificate do not match.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let certificate_error =
            |error: rustls::Error| TlsError::with_context("cannot use the certificate", error);
        let authority = Arc::clone(&self.trusted_roots);
        let client_verifier =
            WebPkiClientVerifier::builder_with_provider(authority, crypto_provider())
                .build()
                .map_err(|error| TlsError::with_context("the authority", error))?;
        let mut config = ServerConfig::builder_with_provider(crypto_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(certificate_error)?
            .with_client_cert_verifier(client_verifier)
            .with_single_cert(self.certificate_chain.clone(), self.private_key.clone_key())
            .map_err(certificate_error)?;
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        Ok(Arc::new(config))
    }
}

/// Returns the crypto provider, independent of the one that the process installed.
fn crypto_provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The P-256 key that a node generates for itself. It never leaves the node.
#[derive(Debug)]
pub struct NodeKey(EcdsaKeyPair);

impl NodeKey {
    /// Generates a new key.
    ///
    /// # Errors
    /// Fails if the system has no random numbers.
    pub fn generate() -> Result<Self, TlsError> {
        let made = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING);
        made.map(Self).map_err(|error| TlsError::with_context("a key", error))
    }

    /// Returns the private key in PEM, to be stored where only the node can read it.
    ///
    /// # Errors
    /// Fails if the key cannot be encoded.
    pub fn private_key_pem(&self) -> Result<String, TlsError> {
        let der = self.0.to_pkcs8v1().map_err(|error| TlsError::with_context("a key", error))?;
        let der = PrivatePkcs8KeyDer::from(der.as_ref());
        Ok(encode_pem("PRIVATE KEY", der.secret_pkcs8_der()))
    }

    /// Returns the public key as an uncompressed point.
    pub fn public_key(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    /// Signs a proof of possession of the key for this node.
    ///
    /// # Errors
    /// Fails if the system has no random numbers.
    pub fn sign_proof(&self, node_id: &str) -> Result<Vec<u8>, TlsError> {
        let signed = self.0.sign(&SystemRandom::new(), &proof_message(node_id, self.public_key()));
        let signed = signed.map_err(|error| TlsError::with_context("a signature", error))?;
        Ok(signed.as_ref().to_vec())
    }
}

/// Verifies a proof of possession: the requester of `node_id` has the private key of an
/// uncompressed P-256 point.
pub fn verify_proof(node_id: &str, public_key: &[u8], signature: &[u8]) -> bool {
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, public_key);
    key.verify(&proof_message(node_id, public_key), signature).is_ok()
}

fn proof_message(node_id: &str, public_key: &[u8]) -> Vec<u8> {
    [PROOF_PREFIX, node_id.as_bytes(), b"\0", public_key].concat()
}

/// Encodes PEM (RFC 7468), in lines of 64 characters.
fn encode_pem(label: &str, der: &[u8]) -> String {
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
    use super::{NodeKey, node_name, verify_proof};

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
        let (own, other) = (NodeKey::generate().unwrap(), NodeKey::generate().unwrap());
        let signature = own.sign_proof("n1").unwrap();
        assert!(verify_proof("n1", own.public_key(), &signature));
        assert!(!verify_proof("n2", own.public_key(), &signature));
        assert!(!verify_proof("n1", other.public_key(), &signature));
        assert!(!verify_proof("n1", b"no point", &signature));
        assert!(!verify_proof("n1", own.public_key(), b""));
    }
}
