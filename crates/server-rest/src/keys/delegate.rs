//! `POST /v1/keys/delegate`: creation of a narrower key, for oneself or to act for another user.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::{Hand, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Level, Wall};

use server_core::body::Body;
use server_core::error::ApiError;
use server_core::route::Route;
use server_core::state::Doors;

pub(super) fn route() -> Route {
    let summary = "Hand your own key on, narrower; the new one is shown once";
    Route::new("post", "/v1/keys/delegate", summary, post(delegate))
        .body::<HandBody>()
        .reply::<HandReply>()
}

/// A narrower key. What is left out stays as the key has it that asks, but rights: they are named.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct HandBody {
    /// A level that is not higher.
    #[schemars(with = "Option<String>")]
    level: Option<Level>,
    /// The rights that stay; none where empty.
    #[schemars(with = "Vec<String>")]
    rights: BTreeSet<Right>,
    /// The sources whose tools stay.
    #[serde(alias = "persona_modules")]
    modules: Option<BTreeSet<String>>,
    /// Patterns and groups of the tools that stay; none where empty, all where absent.
    allow: Option<Vec<String>>,
    /// Patterns and groups of the tools that are taken away.
    deny: Vec<String>,
    /// True takes away all tools with effects.
    read_only: bool,
    /// True takes away all tools that reach the network.
    no_web: bool,
    /// The user to act for; needs the right `act_as`, and the key has the lesser of both.
    act_as: Option<String>,
    /// True where a person holds it, rather than an agent.
    person: bool,
    /// A line for people.
    label: String,
    /// Seconds until it ends by itself; a day where absent, and never later than the key that asks.
    expires_in: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HandReply {
    /// The key itself. It is not kept and cannot be shown again.
    key: String,
    /// Its id.
    id: String,
    /// The user it stands for.
    subject: String,
    /// When it ends.
    expires: Option<String>,
}

async fn delegate(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<HandBody>,
) -> Result<Reply<HandReply>, ApiError> {
    let now = doors.parts.clock.wall();
    let end = |s: u64| Wall(now.0.saturating_add(s.saturating_mul(1_000)));
    let hand = Hand {
        level: body.level,
        rights: body.rights,
        modules: body.modules,
        allow: body.allow,
        deny: body.deny,
        read_only: body.read_only,
        no_web: body.no_web,
        subject: body.act_as,
        person: body.person,
        label: body.label,
        expires: body.expires_in.map(end),
    };
    let (secret, record) = doors.parts.keys.delegate(&principal, hand, now).await?;
    let id = record.id.to_string();
    tracing::info!(key = %id, subject = record.subject, by = principal.key(), "key handed on");
    let expires = record.expires.map(|wall| wall.to_string());
    Ok(Reply(HandReply { key: secret.open().to_owned(), id, subject: record.subject, expires }))
}
