//! The one way to wait. [`until`] says for what and how long; then comes where it is seen: the object itself, the events of a
//! stream, a value that somebody sends, or, where nothing tells of it, the answers to a question that is asked again and
//! again. A wait in vain says what was seen last.

use std::fmt::{self, Debug, Display};
use std::pin::pin;
use std::time::Duration;

use futures::future::{BoxFuture, pending, select_all};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How often something is asked for that nothing tells of: often at first.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// For one answer: a server that is starting may accept a connection and never answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Before a watch that has failed begins anew: the API server is restarted, or the kind is not served yet.
const WATCH_AGAIN: Duration = Duration::from_millis(100);
/// For looking around after a wait in vain.
const LOOK: Duration = Duration::from_secs(30);
/// Characters of what was seen last that are told.
const TOLD: usize = 4000;

/// Something was waited for in vain.
#[derive(thiserror::Error)]
#[error("waited for {what}, but {why}. Last seen: {seen}\n{state}")]
pub struct InVain {
    what: String,
    why: String,
    seen: String,
    state: String,
}

/// The same as the message: `unwrap` in a test prints this, and the logs in it should keep their line breaks.
impl Debug for InVain {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, to)
    }
}

/// Short form.
pub type Result<T> = std::result::Result<T, InVain>;

/// Something that is waited for.
#[must_use = "it says only what is waited for, not where it is seen"]
pub struct Until<'a> {
    what: String,
    limit: Duration,
    hopeless: Vec<BoxFuture<'a, String>>,
    look: Option<BoxFuture<'a, String>>,
}

/// Waits at most so long. `what` follows "waited for" in the error: "the node to be Ready".
pub fn until<'a>(what: impl Into<String>, limit: Duration) -> Until<'a> {
    Until { what: what.into(), limit, hopeless: Vec::new(), look: None }
}

impl<'a> Until<'a> {
    /// Another limit.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// It cannot come any more once this ends, which says why.
    pub fn unless(mut self, hopeless: impl Future<Output = String> + Send + 'a) -> Self {
        self.hopeless.push(Box::pin(hopeless));
        self
    }

    /// What a person would look at when it does not come, which the error ends with. It is asked only then.
    pub fn look(mut self, state: impl Future<Output = String> + Send + 'a) -> Self {
        self.look = Some(Box::pin(state));
        self
    }

    /// The object of that name as soon as it is so; `None`: it does not exist.
    pub async fn object<K>(self, api: Api<K>, name: &str, mut ok: impl FnMut(Option<&K>) -> bool) -> Result<Option<K>>
    where
        K: Resource + Clone + Debug + Send + Serialize + DeserializeOwned + 'static,
    {
        let (mut last, mut trouble) = (None, None);
        let found = self.wait(async {
            let mut states = pin!(watcher::watch_object(api, name));
            while let Some(state) = states.next().await {
                match state {
                    Ok(state) if ok(state.as_ref()) => return Ok(state),
                    Ok(state) => (last, trouble) = (Some(state), None),
                    Err(error) => {
                        trouble = Some(error);
                        sleep(WATCH_AGAIN).await;
                    }
                }
            }
            Err("the watch has ended".to_owned())
        });
        found.await.map_err(|vain| {
            let trouble = trouble.map(|error| format!(", then: {error}")).unwrap_or_default();
            vain.seen(format!("{}{trouble}", last.as_ref().map_or("nothing".to_owned(), told)))
        })
    }

    /// The object of that name as soon as it exists and is so.
    pub async fn existing<K>(self, api: Api<K>, name: &str, mut ok: impl FnMut(&K) -> bool) -> Result<K>
    where
        K: Resource + Clone + Debug + Send + Serialize + DeserializeOwned + 'static,
    {
        let found = self.object(api, name, |object| object.is_some_and(&mut ok)).await?;
        found.ok_or_else(|| InVain::of("an object that exists", "it does not"))
    }

    /// What `found` makes of the first event that it makes something of.
    pub async fn event<E: Serialize, T>(
        self,
        events: impl Stream<Item = E>,
        mut found: impl FnMut(&E) -> Option<T>,
    ) -> Result<T> {
        let mut last = None;
        let result = self.wait(async {
            let mut events = pin!(events);
            while let Some(event) = events.next().await {
                match found(&event) {
                    Some(found) => return Ok(found),
                    None => last = Some(event),
                }
            }
            Err("there are no more events".to_owned())
        });
        result.await.map_err(|vain| vain.seen(last.as_ref().map_or("nothing".to_owned(), told)))
    }

    /// The value as soon as it is so.
    pub async fn value<T: Clone + Debug>(
        self,
        mut values: watch::Receiver<T>,
        ok: impl FnMut(&T) -> bool,
    ) -> Result<T> {
        let last = values.clone();
        let found = self.wait(async {
            let found = values.wait_for(ok).await.map(|value| value.clone());
            found.map_err(|_| "nobody tells of it any more".to_owned())
        });
        found.await.map_err(|vain| vain.seen(format!("{:?}", *last.borrow())))
    }

    /// The first answer. Nothing tells when there is one: it is asked for again and again, and an error is what was seen instead.
    pub async fn answer<T, E: Display>(self, mut ask: impl AsyncFnMut() -> std::result::Result<T, E>) -> Result<T> {
        let mut last = "nothing".to_owned();
        let answer = self.wait(async {
            let mut pause = FIRST_PAUSE;
            loop {
                match timeout(ANSWER, ask()).await {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(instead)) => last = format!("{instead:#}"),
                    Err(_) => last = format!("no answer within {} s", ANSWER.as_secs()),
                }
                sleep(pause).await;
                pause = (pause * 5 / 4).min(LONGEST_PAUSE);
            }
        });
        answer.await.map_err(|vain| vain.seen(last))
    }

    /// Whether something is so, of which nothing tells: see [`Until::answer`].
    pub async fn holds(self, mut is_so: impl AsyncFnMut() -> bool) -> Result<()> {
        self.answer(async || if is_so().await { Ok(()) } else { Err("it is not so") }).await
    }

    /// What something ends with that takes its time.
    pub async fn end_of<T>(self, future: impl Future<Output = T>) -> Result<T> {
        self.wait(async { Ok(future.await) }).await
    }

    /// The one place where time passes: lets `attempt` go on until it has found something, or says why it never will.
    async fn wait<T>(self, attempt: impl Future<Output = std::result::Result<T, String>>) -> Result<T> {
        let (limit, hopeless) = (self.limit, self.hopeless);
        let hopeless = async { if hopeless.is_empty() { pending().await } else { select_all(hopeless).await.0 } };
        let why = tokio::select! {
            biased;
            found = attempt => match found {
                Ok(found) => return Ok(found),
                Err(why) => why,
            },
            why = hopeless => why,
            () = sleep(limit) => format!("it did not come within {} s", limit.as_secs_f64()),
        };
        let mut vain = InVain::of(&self.what, &why);
        if let Some(look) = self.look {
            vain.state = timeout(LOOK, look).await.unwrap_or_else(|_| "looking around took too long".to_owned());
        }
        Err(vain)
    }
}

impl InVain {
    fn of(what: &str, why: &str) -> Self {
        Self { what: what.to_owned(), why: why.to_owned(), seen: "nothing".to_owned(), state: String::new() }
    }

    fn seen(mut self, seen: String) -> Self {
        self.seen = seen.chars().take(TOLD).collect();
        self
    }
}

/// Every state of the objects, beginning with those that exist. Deletions are not told.
pub fn changes<K>(api: Api<K>, config: watcher::Config) -> BoxStream<'static, K>
where
    K: Resource + Clone + Debug + Send + DeserializeOwned + 'static,
{
    let states = watcher(api, config).default_backoff().applied_objects();
    states.filter_map(|state| std::future::ready(state.ok())).boxed()
}

/// As JSON, without what nobody reads.
fn told(object: &impl Serialize) -> String {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use serde_json::json;

    const SOON: Duration = Duration::from_millis(50);

    async fn in_vain<T: Debug>(wait: impl Future<Output = Result<T>>) -> String {
        wait.await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn event_is_found_and_the_last_one_is_told_where_there_is_none() {
        let events = || stream::iter([json!({"metadata": {"managedFields": [1], "name": "a"}}), json!(2)]);
        let number = |event: &Value| event.as_i64();
        assert_eq!(until("a number", SOON).event(events(), number).await.unwrap(), 2);
        let said = in_vain(until("a text", SOON).event(events().take(1), |event| event.as_str().map(drop))).await;
        assert_eq!(
            said,
            "waited for a text, but there are no more events. Last seen: {\"metadata\":{\"name\":\"a\"}}\n"
        );
        let silent = events().chain(stream::pending());
        let said = in_vain(until("a text", SOON).event(silent, |event| event.as_str().map(drop))).await;
        assert_eq!(said, "waited for a text, but it did not come within 0.05 s. Last seen: 2\n");
    }

    #[tokio::test]
    async fn value_is_found_when_it_is_sent_and_the_last_one_is_told() {
        let (sender, receiver) = watch::channel(1);
        let (found, ()) = tokio::join!(until("two", LOOK).value(receiver.clone(), |value| *value == 2), async {
            sender.send_replace(2);
        });
        assert_eq!(found.unwrap(), 2);
        let said = in_vain(until("three", SOON).value(receiver.clone(), |value| *value == 3)).await;
        assert_eq!(said, "waited for three, but it did not come within 0.05 s. Last seen: 2\n");
        drop(sender);
        let said = in_vain(until("three", LOOK).value(receiver, |value| *value == 3)).await;
        assert_eq!(said, "waited for three, but nobody tells of it any more. Last seen: 2\n");
    }

    #[tokio::test]
    async fn answer_is_asked_for_until_there_is_one() {
        let mut asked = 0;
        let answer = until("the fifth answer", LOOK).answer(async || {
            asked += 1;
            if asked < 5 { Err(asked) } else { Ok(asked) }
        });
        assert_eq!(answer.await.unwrap(), 5);
        let never = async || Err::<(), _>("it is too early");
        let said = in_vain(until("any answer", SOON).answer(never)).await;
        assert_eq!(said, "waited for any answer, but it did not come within 0.05 s. Last seen: it is too early\n");
    }

    #[tokio::test]
    async fn wait_ends_when_it_is_hopeless_and_looks_around_only_then() {
        let ended = async { "the server has ended".to_owned() };
        let never = pending::<String>();
        let wait = until("it to serve", LOOK).unless(never).unless(ended).look(async { "its log".to_owned() });
        let said = in_vain(wait.holds(async || false)).await;
        assert_eq!(said, "waited for it to serve, but the server has ended. Last seen: it is not so\nits log");
        let unlooked = until("it to serve", LOOK).look(async { panic!("nobody needs to look") });
        unlooked.holds(async || true).await.unwrap();
        assert!(until("an end", SOON).end_of(pending::<()>()).await.is_err());
        assert_eq!(until("an end", SOON).end_of(async { 1 }).await.unwrap(), 1);
    }
}
