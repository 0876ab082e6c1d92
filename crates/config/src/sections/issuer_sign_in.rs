//! The client with which people sign in to the web console at an issuer.

use super::upstream_auth::{ClientAuthKeys, OAuthClientAuth, client_auth, oauth_scope};
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{flattened, section};
use crate::value_parsers::{boolean, list, text};

section! {
    /// The client with which people sign in to the web console at this issuer, by the authorization code flow with PKCE.
    /// Register the redirect URI `https://HOST/ui/sign-in/issuers/NAME/callback`, with the host of `tokens.resource` and the
    /// name of the issuer.
    #[derive(Debug, Clone)]
    pub struct IssuerSignInConfig as "SignIn": RedactedJson {
        /// The client id of this server at the issuer.
        pub client_id: String = text().and_then(client_id),
            required "write the id with which this server is registered at the issuer";
        /// The authentication of the client.
        pub client_auth as "..": OAuthClientAuth =
            flattened::<ClientAuthKeys>().and_then(client_auth);
        /// The scopes to request beside `openid`, such as `groups`. Default: none.
        pub scopes: Vec<String> = list(text().and_then(oauth_scope));
        /// Whether the claims of the user info endpoint count too, for an issuer whose ID tokens have no groups.
        /// Default: `false`.
        pub fetches_user_info as "user_info": bool = boolean();
    }
}

fn client_id(value: ConfigValue<'_>, id: String) -> Option<String> {
    if (1..=2048).contains(&id.len()) && !id.contains(char::is_control) {
        return Some(id);
    }
    let message = "the `client_id` is empty, too long or contains control characters";
    value.report(message, "write 1 to 2048 characters");
    None
}
