//! Changed lists of servers of 2026-07-28, which tell of them only where they are asked to.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::{Era, code};
use serde_json::{Map, Value};
use tokio::time::sleep;
use tool::Json;

use super::exchange::{Event, Kind};
use super::greeting::{Can, Listed};
use super::link::Link;
use super::request::Outgoing;

/// A subscription that ended is renewed after this.
const RESUBSCRIBE: Duration = Duration::from_secs(30);

/// MCP's method.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// Listens for as long as the connection lasts.
pub(super) async fn follow(link: &Arc<Link>) {
    let Some(wanted) = wanted(link.greeted().can).filter(|_| link.era() == Era::Stateless) else {
        return;
    };
    tokio::select! {
        () = link.over() => {}
        () = listening(link, &wanted) => {}
    }
}

async fn listening(link: &Arc<Link>, wanted: &Json) {
    loop {
        let request = Outgoing::own(LISTEN, wanted);
        if let Ok(mut listening) = link.begin(&request, Kind::Own).await {
            // What is told goes to the ears of the connection.
            let mut begun = false;
            while let Ok(event) = listening.next().await {
                match event {
                    // It has no such thing, whatever it says of itself.
                    Event::Answered(Err(error)) if error.code == code::METHOD_NOT_FOUND => return,
                    Event::Answered(_) | Event::Spoiled(_) => break,
                    Event::Noticed(_) => begun = true,
                    Event::Progressed(_) | Event::Asked(_) | Event::Withdrawn(_) => {}
                }
            }
            if begun {
                // What happens between this and the next subscription is not told.
                link.shared.ears.changed();
            }
        }
        sleep(RESUBSCRIBE).await;
    }
}

/// The params that ask for what the server says it tells of.
fn wanted(can: Can) -> Option<Json> {
    let mut filter = Map::new();
    for (listed, name) in [
        (can.tools, "toolsListChanged"),
        (can.prompts, "promptsListChanged"),
        (can.resources, "resourcesListChanged"),
    ] {
        if listed.is_some_and(|Listed { changes, .. }| changes) {
            filter.insert(name.to_owned(), Value::Bool(true));
        }
    }
    (!filter.is_empty()).then(|| Json::of(&serde_json::json!({"notifications": filter})))
}
