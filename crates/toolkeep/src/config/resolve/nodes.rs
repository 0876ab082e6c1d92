//! Where nodes are.

use std::collections::BTreeSet;

use nodes::Addresses;
use tool::{SourceName, Trust};

use super::Resolver;
use super::source::trust;
use crate::config::field::Field;
use crate::config::high::NodesConfig;
use crate::config::low;

impl Resolver<'_> {
    pub(super) fn nodes(&self, low: &low::File) -> NodesConfig {
        let Some(low) = low.nodes.get() else { return NodesConfig::default() };
        let insecure = low.insecure_ok.get().into_iter().flatten();
        let insecure_ok: BTreeSet<String> = insecure.filter_map(Field::get).cloned().collect();
        let mut addresses = Addresses { insecure_ok, ..Addresses::default() };
        for (id, url) in low.addresses.get().into_iter().flatten() {
            let Some((url, place)) = url.given() else { continue };
            if let Err(error) = SourceName::new(id) {
                self.sink.tell(
                    place,
                    error.to_string(),
                    "write the id that the node registers with",
                );
                continue;
            }
            addresses.nodes.insert(id.clone(), url.clone());
            if let Err(error) = addresses.of(id) {
                self.sink.tell(place, error.to_string(), "write `http://HOST:PORT`");
            }
        }
        NodesConfig { addresses, trust: low.trust.get().map_or(Trust::Full, |word| trust(*word)) }
    }
}
