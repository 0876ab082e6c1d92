//! Where nodes are.

use std::collections::BTreeSet;

use nodes::{Addresses, Token};
use tool::{Secret, SourceName, Trust};

use super::Resolver;
use super::source::trust;
use crate::config::field::Field;
use crate::config::high::NodesConfig;
use crate::config::low;

/// The fewest characters of a node's token.
const TOKEN: usize = 16;

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
        for (id, token) in low.tokens.get().into_iter().flatten() {
            let Some((token, place)) = token.given() else { continue };
            let fits = token.0.len() >= TOKEN && token.0.bytes().all(|b| b.is_ascii_graphic());
            if fits {
                addresses.tokens.insert(id.clone(), Token(Secret::new(token.0.clone())));
            } else {
                let told = format!("a node's token has at least {TOKEN} characters, and no blanks");
                self.sink.tell_hidden(place, &told, "make one: `openssl rand -hex 32`");
            }
        }
        NodesConfig { addresses, trust: low.trust.get().map_or(Trust::Full, |word| trust(*word)) }
    }
}
