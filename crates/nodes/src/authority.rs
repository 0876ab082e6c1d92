//! Signs who a node is. One authority for one installation: its key stays in the data directory, and
//! nothing that it signs holds anywhere else.

use std::fmt;
use std::sync::Arc;

use proto::tls::{self, Acceptance, Identity, TlsError};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
    SignatureAlgorithm,
};
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use tool::Wall;
use tool::node::Certified;

use crate::certificates::fingerprint;

/// How long a node's certificate holds; it asks for another one before.
const HOLDS: Duration = Duration::days(90);
/// How far the clocks of two machines may be apart.
const SKEW: Duration = Duration::hours(1);
/// How long the authority itself holds.
const FOR_LONG: Duration = Duration::days(20 * 365);

/// Why there is no authority, or it signs nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// Its key or certificate cannot be read, or made.
    #[error("the authority of nodes: {0}")]
    Unusable(String),
    /// What it should sign is nothing of the kind.
    #[error("{0}")]
    Unfit(&'static str),
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

impl From<TlsError> for AuthorityError {
    fn from(error: TlsError) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// What an authority is kept as: PEM.
#[derive(Clone, Serialize, Deserialize)]
pub struct Kept {
    /// Its certificate, which anyone may see.
    pub certificate: String,
    /// Its private key, which nobody else may.
    pub key: String,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

/// The authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    /// A new one, to be kept.
    ///
    /// # Errors
    /// [`AuthorityError::Unusable`].
    pub fn make(now: Wall) -> Result<Kept, AuthorityError> {
        let key = KeyPair::generate()?;
        let certificate = own(now)?.self_signed(&key)?.pem();
        Ok(Kept { certificate, key: key.serialize_pem() })
    }

    /// The one that was kept.
    ///
    /// # Errors
    /// [`AuthorityError::Unusable`].
    pub fn open(kept: &Kept) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(&kept.key)?;
        // Its name and the way keys are told apart are the same for each.
        let issuer = Issuer::new(own(Wall(0))?, key);
        Ok(Self { issuer, certificate: kept.certificate.clone() })
    }

    /// Whether who asks has the private key of `public`, a P-256 point without compression.
    ///
    /// # Errors
    /// [`AuthorityError::Unfit`].
    pub fn check(node_id: &str, (public, proof): (&[u8], &[u8])) -> Result<(), AuthorityError> {
        let told = "the proof does not fit: sign the node's id and the public key with the \
                    private key, P-256 and SHA-256";
        let proved = tls::proved(node_id, public, proof);
        if proved { Ok(()) } else { Err(AuthorityError::Unfit(told)) }
    }

    /// Signs that the key of `public`, a P-256 point without compression, is the node's.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn certify(
        &self,
        node_id: &str,
        (public, proof): (&[u8], &[u8]),
        now: Wall,
    ) -> Result<Certified, AuthorityError> {
        Self::check(node_id, (public, proof))?;
        let name = tls::node_name(node_id);
        let ends = at(now)? + HOLDS;
        let mut params = leaf(&name, ExtendedKeyUsagePurpose::ServerAuth, now, ends)?;
        params.distinguished_name.push(DnType::CommonName, shown(node_id));
        let serial = *uuid::Uuid::new_v4().as_bytes();
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let certificate = params.signed_by(&Point(public.to_vec()), &self.issuer)?;
        let fingerprint = fingerprint(certificate.der());
        let (certificate, serial) = (certificate.pem(), hexadecimal(&serial));
        let until = u64::try_from(ends.unix_timestamp()).unwrap_or_default();
        let (authority, until) = (self.certificate.clone(), Wall(until.saturating_mul(1_000)));
        Ok(Certified { certificate, authority, name, until, serial, fingerprint })
    }

    /// What this server shows to nodes: a key of its own, made now and kept nowhere. Of the certificates
    /// that the authority signed those count that `acceptance` lets count; all without one.
    ///
    /// # Errors
    /// [`AuthorityError::Unusable`].
    pub fn caller(
        &self,
        now: Wall,
        acceptance: Option<Arc<dyn Acceptance>>,
    ) -> Result<Arc<ClientConfig>, AuthorityError> {
        let key = KeyPair::generate()?;
        // As long as the authority: a server may run for years.
        let ends = at(now)? + FOR_LONG;
        let params = leaf(tls::SERVER, ExtendedKeyUsagePurpose::ClientAuth, now, ends)?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        let identity = Identity::of_pem(&certificate, &key.serialize_pem(), &self.certificate)?;
        Ok(match acceptance {
            Some(acceptance) => identity.client_of(acceptance)?,
            None => identity.client()?,
        })
    }
}

fn at(now: Wall) -> Result<OffsetDateTime, AuthorityError> {
    let seconds = i64::try_from(now.0 / 1_000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds)
        .map_err(|error| AuthorityError::Unusable(format!("the clock: {error}")))
}

/// The authority's own certificate.
fn own(now: Wall) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Toolkeep nodes");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    (params.not_before, params.not_after) = (at(now)? - SKEW, at(now)? + FOR_LONG);
    Ok(params)
}

fn leaf(
    name: &str,
    usage: ExtendedKeyUsagePurpose,
    now: Wall,
    ends: OffsetDateTime,
) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = vec![SanType::DnsName(name.try_into()?)];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (at(now)? - SKEW, ends);
    Ok(params)
}

fn hexadecimal(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// An id as people see it in a certificate. It says nothing: the name does.
fn shown(node_id: &str) -> String {
    let fits = |c: &char| c.is_ascii_graphic() || *c == ' ';
    node_id.chars().filter(fits).take(64).collect()
}

/// A P-256 point without compression.
struct Point(Vec<u8>);

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

#[cfg(test)]
mod tests {
    use proto::tls::NodeKey;
    use tool::Wall;

    use super::{Authority, AuthorityError};

    const NOW: Wall = Wall(1_800_000_000_000);

    #[test]
    fn it_signs_for_who_has_the_key_and_for_that_node_alone() {
        let authority = Authority::open(&Authority::make(NOW).unwrap()).unwrap();
        let key = NodeKey::new().unwrap();
        let proof = key.prove("n1").unwrap();
        let signed = authority.certify("n1", (key.public(), &proof), NOW).unwrap();
        assert!(signed.certificate.contains("BEGIN CERTIFICATE"));
        assert_eq!(signed.name, proto::tls::node_name("n1"));
        assert_eq!(signed.until, Wall(NOW.0 + 90 * 24 * 3_600_000));
        let other = authority.certify("n2", (key.public(), &proof), NOW);
        assert!(matches!(other, Err(AuthorityError::Unfit(_))), "{other:?}");
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let kept = Authority::make(NOW).unwrap();
        let authority = Authority::open(&kept).unwrap();
        assert_eq!(
            (format!("{kept:?}"), format!("{authority:?}")),
            ("Kept".into(), "Authority".into())
        );
    }
}
