//! One task at its server: asked for, answered, and given up where nobody waits for it any more.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::RpcError;
use ::mcp::task;
use tokio::time::timeout;
use tool::Json;
use tool::executor::ClientCan;

use crate::link::{Link, Unanswered};
use crate::question::relayed;
use crate::request::Outgoing;

/// How long an answer on a task may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long giving a task up may take.
const CANCELLING: Duration = Duration::from_secs(5);

/// A task at its server. Dropped before its end, it is given up there.
pub(super) struct Remote {
    pub(super) link: Arc<Link>,
    pub(super) id: String,
    /// The params that name it.
    pub(super) params: Json,
    can: Json,
    /// Whether its server is to be told where nobody waits for it any more.
    pub(super) owed: bool,
}

impl Remote {
    pub(super) fn new(link: &Arc<Link>, id: &str, client: &ClientCan) -> Self {
        let params = Json::fields([("taskId", &Json::of(id))]);
        let can = relayed(client).with("extensions", &task::extensions());
        Self { link: Arc::clone(link), id: id.to_owned(), params, can, owed: true }
    }

    fn request<'a>(&self, method: &'a str, params: &'a Json) -> Outgoing<'a> {
        Outgoing { can: self.can.clone(), ..Outgoing::own(method, params) }
    }

    pub(super) async fn ask(
        &self,
        method: &str,
        params: &Json,
    ) -> Result<Result<Json, RpcError>, Unanswered> {
        let request = self.request(method, params);
        timeout(ANSWER, self.link.ask_for(&request)).await.unwrap_or(Err(Unanswered::Lost))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let cancels = self.link.greeted().can.tasks.is_some_and(|tasks| tasks.cancel);
        let running = tokio::runtime::Handle::try_current().is_ok();
        if !self.owed || !cancels || self.link.is_over() || !running {
            return;
        }
        let (link, params, can) = (Arc::clone(&self.link), self.params.clone(), self.can.clone());
        drop(self.link.shared.tasks.spawn(async move {
            let request = Outgoing { can, ..Outgoing::own("tasks/cancel", &params) };
            let told = timeout(CANCELLING, link.ask_for(&request)).await;
            tracing::debug!(told = told.is_ok(), "gave a task up at its server");
        }));
    }
}
