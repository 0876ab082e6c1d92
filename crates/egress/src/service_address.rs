//! The address of a service that the operator configured.

use crate::Origin;

/// A service URL from the configuration, in any network.
#[derive(Debug, Clone)]
pub struct ServiceAddress {
    /// The URL without a trailing slash.
    pub base_url: String,
    /// The origin of the URL, the only one that requests may reach.
    pub origin: Origin,
}

impl ServiceAddress {
    /// Parses a URL without query and fragment.
    ///
    /// # Errors
    /// Says what is wrong with the URL.
    pub fn parse(base_url: &str) -> Result<Self, String> {
        let origin = Origin::parse(base_url).map_err(|error| error.to_string())?;
        if base_url.contains(['?', '#']) {
            return Err("it has a query or a fragment; remove it".to_owned());
        }
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned(), origin })
    }
}
