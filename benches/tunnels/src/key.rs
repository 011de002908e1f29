//! Whom the QUIC client trusts: a server with one key, which everybody can read here. It keeps no
//! secret, and costs a handshake what another would. Raw keys (RFC 7250), as no crate of ours makes
//! certificates.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, PeerIncompatible, ServerConfig,
    SignatureScheme,
};

/// TLS of the server's end.
pub(crate) fn server() -> anyhow::Result<ServerConfig> {
    let key = signing_key()?;
    let shown = CertificateDer::from(public_key(&*key)?.to_vec());
    let shown = Arc::new(CertifiedKey::new(vec![shown], key));
    Ok(ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(shown))))
}

/// TLS of the client's end.
pub(crate) fn client() -> anyhow::Result<ClientConfig> {
    let verifier = OneKey {
        key: public_key(&*signing_key()?)?,
        algorithms: provider().signature_verification_algorithms,
    };
    Ok(ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn signing_key() -> Result<Arc<dyn SigningKey>, Error> {
    let pkcs8 = [ED25519_PKCS8, &[0x11; 32]].concat();
    ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8))
}

fn public_key(key: &dyn SigningKey) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    let public = key
        .public_key()
        .ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
    Ok(public.into_owned())
}

/// RFC 8410, section 7: what stands before the 32 bytes of an Ed25519 key.
const ED25519_PKCS8: &[u8] = &[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Takes this key and no other.
#[derive(Debug)]
struct OneKey {
    key: SubjectPublicKeyInfoDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for OneKey {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match shown.as_ref() == self.key.as_ref() {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        _: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature_with_raw_key(
            message,
            &self.key,
            signature,
            &self.algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
