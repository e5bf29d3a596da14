//! Long-lived tasks of a server. Each task has a name, and an owner that is notified of its end.
//!
//! A server that has lost one of these tasks seems alive but does not do all of its work. So the
//! server ends with an error that names the task, and the supervisor of the process can restart it.

use std::future::Future;

use tokio::task::{AbortHandle, JoinError, JoinSet};

/// Tasks that run until they are stopped. Dropping the value aborts them.
#[derive(Debug, Default)]
pub struct Tasks {
    running: JoinSet<()>,
    named: Vec<(AbortHandle, &'static str)>,
}

/// The end of a task.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// The task's name.
    pub name: &'static str,
    /// Why the task ended.
    pub cause: String,
}

impl Tasks {
    /// Starts a task.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.running.spawn(task);
        self.named.push((handle, name));
    }

    /// Waits for the next task to end. Never resolves if there are no tasks.
    pub async fn ended(&mut self) -> Ended {
        let Some((name, result)) = self.next().await else { return std::future::pending().await };
        let cause = result.map_or_else(|error| error.to_string(), |()| "it ended".to_owned());
        Ended { name, cause }
    }

    /// Waits until all tasks have ended. The caller has signalled them to stop before.
    pub async fn join(&mut self) {
        while let Some((name, result)) = self.next().await {
            if let Err(error) = result {
                tracing::error!(%error, name, "a task of the server failed while it stopped");
            }
        }
    }

    async fn next(&mut self) -> Option<(&'static str, Result<(), JoinError>)> {
        let (id, result) = match self.running.join_next_with_id().await? {
            Ok((id, ())) => (id, Ok(())),
            Err(error) => (error.id(), Err(error)),
        };
        let name = self.named.iter().find(|(handle, _)| handle.id() == id).map_or("a task", |(_, name)| name);
        Some((name, result))
    }

    /// Aborts all tasks and waits until they have ended.
    pub async fn shutdown(&mut self) {
        self.running.shutdown().await;
    }

    /// Ends a task as a panic in the task would.
    #[cfg(test)]
    pub fn kill(&self, name: &str) {
        let killed = self.named.iter().find(|(_, known)| *known == name);
        killed.unwrap_or_else(|| panic!("no task is called {name}: {:?}", self.named)).0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_owner_receives_name_and_cause_of_a_task_that_ended() {
        let mut tasks = Tasks::default();
        tasks.spawn("the first", std::future::pending());
        tasks.spawn("the second", async { panic!("on purpose") });
        let Ended { name, cause } = tasks.ended().await;
        assert!(name == "the second" && cause.contains("on purpose"), "{name}: {cause}");
        tasks.spawn("the third", async {});
        assert_eq!(tasks.ended().await, Ended { name: "the third", cause: "it ended".to_owned() });
        tasks.kill("the first");
        assert_eq!(tasks.ended().await.name, "the first");
    }
}
