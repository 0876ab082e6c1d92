//! Which certificates of nodes count, beyond that the authority signed them.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use super::TlsError;

/// Says which of the certificates that an authority signed still count.
pub trait Acceptance: Send + Sync + fmt::Debug {
    /// Whether a node with this name in its certificate may show this one, in DER.
    ///
    /// # Errors
    /// Why not, in words.
    fn check(&self, name: &str, certificate: &[u8]) -> Result<(), String>;
}

/// Checks a node's certificate as ever, and then whether it still counts.
#[derive(Debug)]
pub(super) struct CheckedVerifier {
    pub(super) signed: Arc<WebPkiServerVerifier>,
    pub(super) acceptance: Arc<dyn Acceptance>,
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
        let verified = self.signed.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        let counts = self.acceptance.check(&server_name.to_str(), end_entity.as_ref());
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
        self.signed.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
