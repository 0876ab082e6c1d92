//! The certificate authority that signs node certificates. Each installation has its own; its key
//! stays in the data directory.

use std::fmt;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use proto::tls::{self, CertificateAcceptance, TlsError, TlsIdentity};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
    SignatureAlgorithm,
};
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use tool::WallTime;
use tool::node_registry::{IssuedCertificate, KeyProof};

use crate::certificate_index::certificate_fingerprint;

/// Validity of a node certificate. The node requests a new one before it expires.
const NODE_CERTIFICATE_VALIDITY: Duration = Duration::days(90);
/// Allowed clock difference between two machines.
const CLOCK_SKEW: Duration = Duration::hours(1);
/// Validity of the certificate of the authority.
const AUTHORITY_VALIDITY: Duration = Duration::days(20 * 365);

/// The reason why the authority is unusable or refused to sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateAuthorityError {
    /// Its key or certificate is invalid or cannot be generated.
    #[error("the authority of nodes: {0}")]
    Unusable(String),
    /// The certificate request is invalid.
    #[error("{0}")]
    InvalidRequest(&'static str),
}

impl From<rcgen::Error> for CertificateAuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

impl From<TlsError> for CertificateAuthorityError {
    fn from(error: TlsError) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// Certificate and private key of an authority as stored, in PEM.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredAuthority {
    /// The certificate, which is public.
    pub certificate: String,
    /// The private key, which is secret.
    pub key: String,
}

impl fmt::Debug for StoredAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredAuthority")
    }
}

/// The certificate authority for nodes.
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateAuthority")
    }
}

impl CertificateAuthority {
    /// Generates a new authority, to be stored.
    ///
    /// # Errors
    /// [`CertificateAuthorityError::Unusable`].
    pub fn generate(now: WallTime) -> Result<StoredAuthority, CertificateAuthorityError> {
        let key = KeyPair::generate()?;
        let certificate = authority_params(now)?.self_signed(&key)?.pem();
        Ok(StoredAuthority { certificate, key: key.serialize_pem() })
    }

    /// Loads a stored authority.
    ///
    /// # Errors
    /// [`CertificateAuthorityError::Unusable`].
    pub fn from_stored(stored: &StoredAuthority) -> Result<Self, CertificateAuthorityError> {
        let key = KeyPair::from_pem(&stored.key)?;
        // Name and key identifier method are the same for each authority.
        let issuer = Issuer::new(authority_params(WallTime(0))?, key);
        Ok(Self { issuer, certificate_pem: stored.certificate.clone() })
    }

    /// Checks that the requester has the private key of an uncompressed P-256 point.
    ///
    /// # Errors
    /// [`CertificateAuthorityError::InvalidRequest`].
    pub fn check_proof(
        node_id: &str,
        proof: KeyProof<'_>,
    ) -> Result<(), CertificateAuthorityError> {
        let message = "invalid proof: sign the node's ID and the public key with the private key \
            (P-256, SHA-256)";
        let is_proved = tls::verify_proof(node_id, proof.public_key, proof.signature);
        if is_proved { Ok(()) } else { Err(CertificateAuthorityError::InvalidRequest(message)) }
    }

    /// Issues a node certificate for an uncompressed P-256 point.
    ///
    /// # Errors
    /// [`CertificateAuthorityError`].
    pub fn issue_node_certificate(
        &self,
        node_id: &str,
        proof: KeyProof<'_>,
        now: WallTime,
    ) -> Result<IssuedCertificate, CertificateAuthorityError> {
        Self::check_proof(node_id, proof)?;
        let name = tls::node_name(node_id);
        let expires_at = to_offset_time(now)? + NODE_CERTIFICATE_VALIDITY;
        let mut params = leaf_params(&name, ExtendedKeyUsagePurpose::ServerAuth, now, expires_at)?;
        params.distinguished_name.push(DnType::CommonName, printable_id(node_id));
        let serial = *uuid::Uuid::new_v4().as_bytes();
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let certificate =
            params.signed_by(&EcPublicKey(proof.public_key.to_vec()), &self.issuer)?;
        let fingerprint = certificate_fingerprint(certificate.der());
        let (certificate, serial) = (certificate.pem(), HEXLOWER.encode(&serial));
        let until = u64::try_from(expires_at.unix_timestamp()).unwrap_or_default();
        let (authority, until) =
            (self.certificate_pem.clone(), WallTime(until.saturating_mul(1_000)));
        Ok(IssuedCertificate {
            certificate_pem: certificate,
            ca_certificate_pem: authority,
            dns_name: name,
            expires_at: until,
            serial,
            fingerprint,
        })
    }

    /// Builds the TLS client configuration of this server, with a newly generated key that is not
    /// stored. `acceptance` restricts which signed node certificates are accepted.
    ///
    /// # Errors
    /// [`CertificateAuthorityError::Unusable`].
    pub fn build_client_config(
        &self,
        now: WallTime,
        acceptance: Option<Arc<dyn CertificateAcceptance>>,
    ) -> Result<Arc<ClientConfig>, CertificateAuthorityError> {
        let key = KeyPair::generate()?;
        // As long as the authority is valid, because a server may run for years.
        let expires_at = to_offset_time(now)? + AUTHORITY_VALIDITY;
        let params =
            leaf_params(tls::SERVER_NAME, ExtendedKeyUsagePurpose::ClientAuth, now, expires_at)?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        let identity =
            TlsIdentity::from_pem(&certificate, &key.serialize_pem(), &self.certificate_pem)?;
        Ok(match acceptance {
            Some(acceptance) => identity.accepting_client_config(acceptance)?,
            None => identity.client_config()?,
        })
    }
}

fn to_offset_time(now: WallTime) -> Result<OffsetDateTime, CertificateAuthorityError> {
    let seconds = i64::try_from(now.0 / 1_000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds)
        .map_err(|error| CertificateAuthorityError::Unusable(format!("the clock: {error}")))
}

/// Returns the parameters of the authority's own certificate.
fn authority_params(now: WallTime) -> Result<CertificateParams, CertificateAuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Toolkeep nodes");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    (params.not_before, params.not_after) =
        (to_offset_time(now)? - CLOCK_SKEW, to_offset_time(now)? + AUTHORITY_VALIDITY);
    Ok(params)
}

fn leaf_params(
    name: &str,
    usage: ExtendedKeyUsagePurpose,
    now: WallTime,
    expires_at: OffsetDateTime,
) -> Result<CertificateParams, CertificateAuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = vec![SanType::DnsName(name.try_into()?)];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (to_offset_time(now)? - CLOCK_SKEW, expires_at);
    Ok(params)
}

/// Returns a node id as display text for a certificate. Only the DNS name is verified.
fn printable_id(node_id: &str) -> String {
    let is_printable = |c: &char| c.is_ascii_graphic() || *c == ' ';
    node_id.chars().filter(is_printable).take(64).collect()
}

/// An uncompressed P-256 point.
struct EcPublicKey(Vec<u8>);

impl PublicKeyData for EcPublicKey {
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
    use tool::WallTime;

    use super::{CertificateAuthority, CertificateAuthorityError, KeyProof};

    const NOW: WallTime = WallTime(1_800_000_000_000);

    #[test]
    fn it_signs_for_who_has_the_key_and_for_that_node_alone() {
        let authority =
            CertificateAuthority::from_stored(&CertificateAuthority::generate(NOW).unwrap())
                .unwrap();
        let key = NodeKey::generate().unwrap();
        let signature = key.sign_proof("n1").unwrap();
        let proof = KeyProof { public_key: key.public_key(), signature: &signature };
        let signed = authority.issue_node_certificate("n1", proof, NOW).unwrap();
        assert!(signed.certificate_pem.contains("BEGIN CERTIFICATE"));
        assert_eq!(signed.dns_name, proto::tls::node_name("n1"));
        assert_eq!(signed.expires_at, WallTime(NOW.0 + 90 * 24 * 3_600_000));
        let other = authority.issue_node_certificate("n2", proof, NOW);
        assert!(matches!(other, Err(CertificateAuthorityError::InvalidRequest(_))), "{other:?}");
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let kept = CertificateAuthority::generate(NOW).unwrap();
        let authority = CertificateAuthority::from_stored(&kept).unwrap();
        assert_eq!(
            (format!("{kept:?}"), format!("{authority:?}")),
            ("StoredAuthority".into(), "CertificateAuthority".into())
        );
    }
}
