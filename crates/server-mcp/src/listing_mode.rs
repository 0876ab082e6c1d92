//! How the tools of one request are listed: the mode of the address, of the key or of the
//! configuration, and what `auto` makes of it. What may be called does not depend on it.

use gateway::CatalogView;
use mcp::ProtocolEra;
use server_core::provider_forms::definition_tokens;
use server_core::tool_search::ToolDeferral;
use server_core::{ListingMode, ListingOptions};

use super::endpoint::Endpoint;
use super::request_context::RequestContext;

/// Clients that keep tools out of the context themselves if they have more than a number of tools,
/// by the name that they send in `clientInfo`: Claude Code, OpenAI's Responses API, Copilot CLI.
const SEARCHING_CLIENTS: &[(&str, usize)] =
    &[("claude-code", 0), ("openai-mcp", 0), ("github-copilot-developer", 30)];

/// The listing of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolListing {
    /// The complete definitions.
    Full,
    /// Names with one line each, and a tool that describes them.
    Deferred,
    /// The search tools, and the tools that no list defers.
    Search,
    /// The search tools, and the complete definitions of all tools but those that every list defers.
    Mixed,
}

impl ToolListing {
    /// Whether the search tools are in the list and answer.
    pub(crate) fn has_search_tools(self) -> bool {
        matches!(self, Self::Search | Self::Mixed)
    }
}

impl RequestContext<'_> {
    /// Returns which tools of the view a list defers.
    pub(crate) fn tool_deferral<'v>(
        &self,
        view: &'v CatalogView,
        listing: ToolListing,
    ) -> ToolDeferral<'v> {
        let options = &self.caller.state.components.listing_options;
        let defers = matches!(listing, ToolListing::Deferred | ToolListing::Search);
        ToolDeferral::new(options, view, defers)
    }

    /// Returns how tools are listed for this request.
    pub(crate) fn tool_listing(&self, view: &CatalogView) -> ToolListing {
        let Endpoint::AllSources { mode, .. } = self.caller.endpoint else {
            return ToolListing::Full;
        };
        let options = &self.caller.state.components.listing_options;
        let mode = mode.unwrap_or_else(|| options.mode_of_key(self.caller.principal.key_id()));
        let lists_all = match mode {
            ListingMode::List => true,
            ListingMode::Auto => self.has_search_of_its_own(view) || is_within_bound(view, options),
            ListingMode::Deferred | ListingMode::Search => false,
        };
        match mode {
            _ if lists_all && view.always_defers() => ToolListing::Mixed,
            _ if lists_all => ToolListing::Full,
            ListingMode::Deferred => ToolListing::Deferred,
            ListingMode::List | ListingMode::Search | ListingMode::Auto => ToolListing::Search,
        }
    }

    /// Whether the client is known to defer this many tools itself.
    fn has_search_of_its_own(&self, view: &CatalogView) -> bool {
        let name = match (self.era, &self.session) {
            (ProtocolEra::Stateless, _) => {
                let name = self.meta.client_info.as_ref().and_then(|info| info.get("name"));
                name.and_then(|name| Some(name.string_value()?.into_owned()))
            }
            (ProtocolEra::Handshake, session) => {
                session.as_ref().map(|session| session.client_name.to_string())
            }
        };
        let known = name.and_then(|name| SEARCHING_CLIENTS.iter().find(|it| it.0 == name));
        known.is_some_and(|(_, most)| view.list_tools().nth(*most).is_some())
    }
}

/// Whether the list without the tools that every list defers has at most the configured number of
/// tokens. Reads no more of a long list than it must.
fn is_within_bound(view: &CatalogView, options: &ListingOptions) -> bool {
    let mut left = Some(options.auto_tokens);
    let deferral = ToolDeferral::new(options, view, false);
    for entry in view.list_tools().filter(|entry| !deferral.is_deferred(entry)) {
        left = left.and_then(|left| left.checked_sub(definition_tokens(entry)));
        if left.is_none() {
            return false;
        }
    }
    true
}
