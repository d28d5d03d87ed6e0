//! A certificate for one server, made in memory, and who trusts it.
//!
//! Whoever tells a client the certificate over a way that it trusts needs no authority: the client
//! trusts this one and no other. The key leaves neither memory nor process.

use std::fmt;

use tonic::transport::{Certificate, ClientTlsConfig, Identity as TonicIdentity, ServerTlsConfig};

use crate::error::{Error, Result};

/// The name that certificates are made out to: who connects knows addresses only.
const SERVER_NAME: &str = "fabricbench";

/// A self-signed certificate with its key.
#[derive(Clone)]
pub struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    /// Makes a new one.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn generate() -> Result<Identity> {
        let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])
            .map_err(|error| Error::Certificate { detail: error.to_string() })?;
        Ok(Identity { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    /// The certificate as PEM, for the client to trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    pub(crate) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(TonicIdentity::from_pem(&self.certificate, &self.key))
    }
}

impl fmt::Debug for Identity {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// A client's that trusts the certificate, which is PEM, and no other.
pub(crate) fn trusting(certificate: &str) -> ClientTlsConfig {
    ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(certificate))
        .domain_name(SERVER_NAME)
}
