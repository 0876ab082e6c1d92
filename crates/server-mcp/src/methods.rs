//! Methods that are forwarded to the endpoint's source: prompts, resources, completion, log level.

use gateway::Request;
use tool::{Interface, Json};

use super::asked::Asked;
use super::body::Reply;
use super::level::Level;
use super::refused::Refused;
use super::run::{Finish, of_source, run};

/// Members of the params that this server consumes and does not forward.
const OURS: [&str; 3] = ["_meta", "requestState", "inputResponses"];

/// Forwards a request to the method `name` of [`tool::METHODS`].
pub(crate) async fn called(asked: &Asked<'_>, name: &'static str) -> Result<Reply, Refused> {
    with(asked, name, args(asked)).await
}

async fn with(asked: &Asked<'_>, name: &'static str, args: Json) -> Result<Reply, Refused> {
    let target = of_source(asked, name)?;
    let mut finish = Finish::method(asked, &args);
    let continues = finish.continues(asked).await?;
    let mut request = Box::new(Request::to(target, args.bytes().clone(), Interface::Mcp));
    request.unasked = continues.is_none().then(|| asked.unasked()).flatten();
    request.continues = continues;
    Ok(run(asked, finish, request).await)
}

/// Handles `prompts/get`. Prompts whose definition was not approved are rejected.
pub(crate) async fn prompt(asked: &Asked<'_>) -> Result<Reply, Refused> {
    let [name] = asked.pick(["name"]);
    let name = name.as_ref().and_then(Json::text);
    let view = asked.who.view();
    let shelf = asked.who.scope.shelf(&view).map_err(Refused::params)?;
    if let (Some(shelf), Some(name)) = (shelf, name)
        && shelf.holds_prompt_back(&name)
    {
        let shown: String = name.chars().take(tool::name::MAX).collect();
        return Err(Refused::params(format!("unknown prompt `{}`", shown.escape_debug())));
    }
    called(asked, "mcp.prompts.get").await
}

/// The params without the members meant for this server.
pub(crate) fn args(asked: &Asked<'_>) -> Json {
    let params = asked.params.cloned().unwrap_or_else(Json::empty);
    OURS.iter().fold(params, |params, key| params.without(key))
}

/// Handles `logging/setLevel` for the session, and at the source if it supports levels. Sessions
/// share the source: it receives the lowest requested level, and each session filters by its own.
pub(crate) async fn set_level(asked: &Asked<'_>) -> Result<Reply, Refused> {
    let session = asked.session.as_ref().ok_or_else(|| asked.unknown())?;
    let [level] = asked.pick(["level"]);
    let level = level.as_ref().and_then(Level::read).ok_or_else(|| {
        Refused::params(format!("`params.level` must be one of {}", Level::words()))
    })?;
    session.live.set_level(level);
    let method = "mcp.logging.setLevel";
    if of_source(asked, method).is_ok() {
        let least = asked.who.doors.mcp.sessions.least_level(asked.who.scope);
        let least = least.map_or(level, |least| least.min(level));
        return with(asked, method, args(asked).with("level", &least.word())).await;
    }
    Ok(asked.result(&Json::empty()))
}
