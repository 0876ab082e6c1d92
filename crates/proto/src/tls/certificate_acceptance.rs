//! Checks of node certificates beyond the signature of the authority, such as revocation.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use super::TlsError;

/// Decides which signed certificates are still accepted.
pub trait CertificateAcceptance: Send + Sync + fmt::Debug {
    /// Checks whether a node with this certificate name may present this certificate, in DER.
    ///
    /// # Errors
    /// The reason for the rejection.
    fn check_acceptance(&self, name: &str, certificate: &[u8]) -> Result<(), String>;
}

/// Verifies the certificate chain of a node, then whether the certificate is still accepted.
#[derive(Debug)]
pub(super) struct CheckedVerifier {
    pub(super) chain_verifier: Arc<WebPkiServerVerifier>,
    pub(super) acceptance: Arc<dyn CertificateAcceptance>,
}

impl ServerCertVerifier for CheckedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.chain_verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        let counts = self.acceptance.check_acceptance(&server_name.to_str(), end_entity.as_ref());
        counts.map_err(|told| {
            let error = OtherError(Arc::new(TlsError(told)));
            Error::InvalidCertificate(CertificateError::Other(error))
        })?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain_verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain_verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain_verifier.supported_verify_schemes()
    }
}
