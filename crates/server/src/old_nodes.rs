//! Registration without a credential, for nodes of spec 4, which have none: whoever reaches this door is the
//! node of one key, and can nothing but register, change and remove that node's own tools.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use identity::Right;
use tool::{Code, Secret};

use crate::routes;
use server_core::auth;
use server_core::error::ApiError;
use server_core::state::Doors;

/// The routes of registration, as the node whose key this is. A key that may register for others as well opens
/// nothing here: a door that asks for no key must not be a way around who owns a name.
///
/// # Errors
/// In words, where the key is no line of text.
pub fn old_nodes(doors: &Doors, key: &Secret) -> Result<Router, String> {
    let bearer = HeaderValue::try_from(format!("Bearer {}", key.open()));
    let mut bearer = bearer.map_err(|_| "the key is no line of text".to_owned())?;
    bearer.set_sensitive(true);
    let node = from_fn_with_state((doors.clone(), bearer), as_node);
    let checked = from_fn_with_state(doors.clone(), crate::middleware::open);
    let mounted = routes::registration(doors).layer(node);
    Ok(mounted.fallback(routes::nothing_here).layer(checked))
}

async fn as_node(
    State((doors, bearer)): State<(Doors, HeaderValue)>,
    mut request: Request,
    next: Next,
) -> Response {
    // In the place of whatever came along.
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let now = doors.parts.clock.wall();
    match auth::principal(&doors, (request.headers(), None), None, now).await {
        Ok(node) if node.may(Right::NodesRegister) && !node.may(Right::NodesWrite) => {
            request.extensions_mut().insert(node);
            next.run(request).await
        }
        Ok(_) => {
            let told = "the key of this door is not a node's own";
            let fix = "make one with the right `nodes:register` and without `nodes:write`";
            ApiError::new(Code::Forbidden, told).fix(fix).into_response()
        }
        Err(error) => error.into_response(),
    }
}
