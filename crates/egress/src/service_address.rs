//! The address of a service, by the operator's word.

use crate::Origin;

/// An address that the operator names, in any network.
#[derive(Debug, Clone)]
pub struct ServiceAddress {
    /// The URL without a slash at its end.
    pub base: String,
    /// Its origin: the only one that may be asked.
    pub origin: Origin,
}

impl ServiceAddress {
    /// Of a URL without query and fragment.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn parse(base: &str) -> Result<Self, String> {
        let origin = Origin::parse(base).map_err(|error| error.to_string())?;
        if base.contains(['?', '#']) {
            return Err("it has a query or a fragment; write it without".to_owned());
        }
        Ok(Self { base: base.trim_end_matches('/').to_owned(), origin })
    }
}
