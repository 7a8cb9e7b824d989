//! The version of the API server, which templates of images follow. It is asked when everything is read for the first time, and
//! again whenever a watch has ended: a server is not replaced without that.

use crate::cluster::{Clients, jittered, task};
use crate::olm::source::template::KubeVersion;
use kube::Client;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A server that has not answered by then is asked again.
const ANSWER: Duration = Duration::from_secs(10);
/// The first and the longest pause between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

type Known = Option<Result<KubeVersion, String>>;

pub(super) struct ServerVersion {
    /// That of watches, so that the server is asked whose watches they are.
    client: Client,
    known: Arc<Mutex<Known>>,
    changed: Arc<Notify>,
    stop: CancellationToken,
    /// In which round of the watch it was asked.
    round: u64,
    asking: Option<AbortOnDropHandle<()>>,
}

impl ServerVersion {
    pub(super) fn new(clients: &Clients, changed: Arc<Notify>, stop: CancellationToken) -> ServerVersion {
        let client = clients.for_watch().unwrap_or_else(|_| clients.call.clone());
        ServerVersion { client, known: Arc::default(), changed, stop, round: 0, asking: None }
    }

    /// What the server says, or why it cannot be read; `None` before it has answered.
    pub(super) fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks again if a watch has begun anew.
    pub(super) fn on_round(&mut self, round: u64) {
        if round == self.round {
            return;
        }
        self.round = round;
        let (client, known, changed) = (self.client.clone(), self.known.clone(), self.changed.clone());
        let asking = async move {
            let mut failures = 0;
            loop {
                let answer = ask(&client).await;
                let (answer, done) = match answer {
                    Ok(version) => (Some(Ok(version)), true),
                    // Nobody but an administrator changes that.
                    Err(Refusal::Answered(cause)) => (Some(Err(cause)), true),
                    Err(Refusal::Silent) => (None, false),
                };
                if let Some(answer) = answer
                    && tell(&known, answer)
                {
                    changed.notify_one();
                }
                if done {
                    return;
                }
                failures += 1;
                tokio::time::sleep(jittered(PAUSES.0, failures, PAUSES.1)).await;
            }
        };
        let asking = tokio::spawn(task::guarded("version of the API server", &self.stop, asking));
        self.asking = Some(AbortOnDropHandle::new(asking));
    }
}

fn tell(known: &Mutex<Known>, answer: Result<KubeVersion, String>) -> bool {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    // What was known is better than why it cannot be read now.
    let is_new = known.as_ref() != Some(&answer) && (answer.is_ok() || !matches!(*known, Some(Ok(_))));
    if is_new {
        *known = Some(answer);
    }
    is_new
}

enum Refusal {
    /// The server says something else than its version.
    Answered(String),
    Silent,
}

async fn ask(client: &Client) -> Result<KubeVersion, Refusal> {
    match tokio::time::timeout(ANSWER, client.apiserver_version()).await {
        Ok(Ok(info)) => KubeVersion::of(&info.major, &info.minor, &info.git_version)
            .ok_or_else(|| Refusal::Answered(format!("it calls its version {:?}, which is none", info.git_version))),
        Ok(Err(kube::Error::Api(status))) if status.code < 429 => Err(Refusal::Answered(status.message.clone())),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the version of the API server is not known; asking again");
            Err(Refusal::Silent)
        }
        Err(_) => Err(Refusal::Silent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_that_was_known_outlasts_an_answer_that_says_none() {
        let (known, version) = (Mutex::new(None), |minor: &str| Ok(KubeVersion::of("1", minor, "").unwrap()));
        assert!(tell(&known, Err("it refuses".to_owned())), "why there is none is said");
        assert!(!tell(&known, Err("it refuses".to_owned())));
        assert!(tell(&known, version("35")) && !tell(&known, version("35")));
        assert!(!tell(&known, Err("it refuses".to_owned())));
        assert_eq!(*known.lock().unwrap(), Some(version("35")));
        assert!(tell(&known, version("36")));
    }
}
