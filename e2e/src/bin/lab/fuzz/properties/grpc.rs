//! The server of catalogs and the client of others, in one process without a network.

use super::{Verdict, property};
use crate::fuzz::fixture::Fixture;
use crate::fuzz::wire::{self, Group};
use cvo::testing::catalog::{self, Catalog, Entry};
use cvo::testing::registry::{self, Answer, Client, NotTold, Received, Server};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, yield_now};

/// Bytes that are on their way.
const BUFFER: usize = 64 << 10;
/// Bytes of headers with which a server may answer.
const MAX_HEADERS: usize = 16 << 10;
/// By this address the catalog is served.
pub(in crate::fuzz) const ADDRESS: &str = "widgets.one.svc:50051";
const LIMIT: Duration = Duration::from_secs(10);

/// What is kept from one input to the next.
struct World {
    runtime: Runtime,
    server: Arc<Server>,
    /// A connection, as long as it lasts.
    client: Option<Client>,
    folder: PathBuf,
}

impl World {
    fn new(fixture: &Fixture) -> Result<World, String> {
        // One thread that blocks, so that whoever waits for it waits for all before.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = base.join(format!("cvo-fuzz-grpc-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&folder);
        let served = folder.join("served");
        std::fs::create_dir_all(&served).map_err(|e| e.to_string())?;
        std::fs::write(served.join("catalog.json"), &fixture.operators.served).map_err(|e| e.to_string())?;
        let server = Arc::new(Server::new(&served, "one", "widgets")?);
        Ok(World { runtime: runtime.map_err(|e| e.to_string())?, server, client: None, folder })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn with<T>(fixture: &Fixture, run: impl FnOnce(&mut World) -> Result<T, String>) -> Result<T, String> {
    WORLD.with(|world| {
        let mut world = world.borrow_mut();
        if world.is_none() {
            *world = Some(World::new(fixture)?);
        }
        run(world.as_mut().ok_or("no world")?)
    })
}

/// Waits until nothing is done any more that is not waiting for somebody else.
async fn settle() {
    for _ in 0..4 {
        let _done = tokio::task::spawn_blocking(|| ()).await;
        for _ in 0..16 {
            yield_now().await;
        }
    }
}

fn serve(server: &Arc<Server>) -> (DuplexStream, tokio::task::JoinHandle<Result<(), String>>) {
    let (ours, theirs) = duplex(BUFFER);
    let server = server.clone();
    (ours, tokio::spawn(async move { server.serve(theirs).await }))
}

/// A request, whatever it is, has an answer that clients understand, the same each time, and leaves nothing behind.
pub(in crate::fuzz) fn call(fixture: &Fixture, input: &[u8]) -> Verdict {
    let asked: Value = serde_json::from_slice(input).unwrap_or_default();
    let text = |key: &str, default: &str| asked.get(key).and_then(Value::as_str).unwrap_or(default).to_owned();
    let (method, path, authority) =
        (text("method", "POST"), text("path", "/api.Registry/ListBundles"), text("authority", ADDRESS));
    let body = match asked.get("messages") {
        Some(messages) => wire::messages(messages),
        None => input.to_vec(),
    };
    let headers =
        [("content-type".to_owned(), "application/grpc".to_owned()), ("te".to_owned(), "trailers".to_owned())];
    let headers = headers.into_iter().chain(wire::headers(asked.get("headers"))).collect();
    let sent = Answer { body, headers, trailers: wire::headers(asked.get("trailers")), is_endless: false };
    let uri = format!("http://{authority}{path}");
    with(fixture, |world| {
        let World { runtime, server, client, .. } = world;
        let (one, other) = runtime.block_on(async {
            let one = ask(server, client, (&method, &uri, &sent)).await;
            let other = ask(server, client, (&method, &uri, &sent)).await;
            settle().await;
            (one, other)
        });
        property(server.is_idle(), "something of a call is left")?;
        property(one == other, &format!("the same request has another answer: {one:?} and {other:?}"))?;
        one.map_or(Ok(false), |answer| understood(&answer))
    })
}

async fn ask(
    server: &Arc<Server>,
    client: &mut Option<Client>,
    (method, uri, sent): (&str, &str, &Answer),
) -> Result<Received, String> {
    if client.is_none() {
        *client = Some(Client::new(serve(server).0).await?);
    }
    let connected = client.as_mut().ok_or("no client")?;
    let answer = tokio::time::timeout(LIMIT, connected.ask(method, uri, sent.clone())).await;
    let mut answer = answer.unwrap_or_else(|_| Err("there is no answer".to_owned()));
    // It is another one a second later.
    answer.iter_mut().for_each(|answer| answer.headers.retain(|(name, _)| name != "date"));
    if answer.is_err() {
        // The next request begins anew.
        *client = None;
    }
    answer
}

/// Whether the answer is a good one.
fn understood(answer: &Received) -> Verdict {
    let size: usize = answer.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    property(size < MAX_HEADERS, "an answer has more headers than clients take")?;
    let status = answer.headers.iter().rev().find(|(name, _)| name == "grpc-status");
    let status = status.and_then(|(_, value)| value.parse::<u32>().ok());
    // What is no gRPC at all is refused by HTTP.
    property(status.is_some_and(|status| status <= 16) || answer.status >= 400, "an answer has no status")?;
    let messages = wire::unframed(&answer.body).ok_or("an answer is not made of messages")?;
    let said = answer.headers.iter().find(|(name, _)| name == "grpc-message").map_or("", |(_, message)| message);
    property(!said.contains("index%20of%20the%20catalog"), "an answer says that the server has a fault")?;
    Ok(status == Some(0) && !messages.is_empty())
}

/// Whatever a client sends on a connection, the connection ends with it, and nothing of it is left.
pub(in crate::fuzz) fn client_frames(fixture: &Fixture, input: &[u8]) -> Verdict {
    let groups = wire::groups(input);
    with(fixture, |world| {
        let World { runtime, server, .. } = world;
        let (ended, sent) = runtime.block_on(async {
            let (stream, serving) = serve(server);
            let preface: Group = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            let sent = play(stream, std::iter::once(preface).chain(groups)).await;
            (tokio::time::timeout(LIMIT, serving).await, sent)
        });
        let ended = ended.map_err(|_| "the connection does not end when its client closes it")?;
        let ended = ended.map_err(|e| format!("the connection ends with {e}"))?;
        runtime.block_on(settle());
        property(server.is_idle(), "something of a call is left")?;
        let frames = wire::frames(&sent).ok_or("the server sends what is no frame")?;
        let answered = frames.iter().any(|(kind, _)| *kind == wire::DATA);
        property(ended.is_ok() || !answered || frames.len() < 1000, "a broken connection is answered at length")?;
        Ok(answered)
    })
}

/// Sends one group after the other, each when the other side does nothing more, and returns what that has sent.
async fn play(stream: DuplexStream, groups: impl Iterator<Item = Group>) -> Vec<u8> {
    let (mut from, mut to) = tokio::io::split(stream);
    let reading = tokio::spawn(async move {
        let mut all = Vec::new();
        let _ended = from.read_to_end(&mut all).await;
        all
    });
    for group in groups {
        if to.write_all(&group).await.is_err() {
            break;
        }
        settle().await;
    }
    let _closed = to.shutdown().await;
    drop(to);
    let read = tokio::time::timeout(LIMIT, reading).await;
    read.ok().and_then(Result::ok).unwrap_or_default()
}

/// The answers of a server by the paths of methods; the last one of a method is given again and again.
type Answers = HashMap<String, Vec<Answer>>;

fn answers(input: &[u8]) -> Answers {
    let told: Value = serde_json::from_slice(input).unwrap_or_default();
    let answer = |value: &Value| {
        let status = value.get("status").and_then(Value::as_str).unwrap_or("0").to_owned();
        let ok = [("content-type".to_owned(), "application/grpc".to_owned())];
        let headers = ok.into_iter().chain(wire::headers(value.get("headers"))).collect();
        let trailers = [("grpc-status".to_owned(), status)].into_iter().chain(wire::headers(value.get("trailers")));
        Answer {
            body: value.get("messages").map(wire::messages).unwrap_or_default(),
            headers,
            trailers: trailers.collect(),
            is_endless: false,
        }
    };
    let Value::Object(methods) = told else {
        // The bytes are the bundles as they are sent.
        let raw = Answer { body: input.to_vec(), ..answer(&Value::Null) };
        return HashMap::from([("/api.Registry/ListBundles".to_owned(), vec![raw])]);
    };
    let list = |value: &Value| match value {
        Value::Array(all) => all.iter().map(answer).collect(),
        one => vec![answer(one)],
    };
    methods.iter().map(|(path, value)| (path.clone(), list(value))).collect()
}

/// Whatever a server tells becomes a catalog that is judged as others are, or an error that names it. The same is told with the same
/// digest; and what we serve of a catalog without faults is read again as the same one.
pub(in crate::fuzz) fn answer(fixture: &Fixture, input: &[u8]) -> Verdict {
    let answers = answers(input);
    with(fixture, |world| {
        let (first, again) = (world.folder.join("first"), world.folder.join("again"));
        let told = world.runtime.block_on(tell(&answers, &first));
        property(told == world.runtime.block_on(tell(&answers, &again)), "the same is told differently")?;
        if let Err(NotTold { cause, is_late }) = told {
            property(!is_late, &format!("it is waited for what does not come: {cause}"))?;
            property(cause.contains(ADDRESS), &format!("an error does not name the server: {cause}"))?;
            return Ok(false);
        }
        let read = read(&first)?;
        let placed = read.faults.iter().all(|fault| fault.line > 0 && fault.file == "catalog.json");
        property(placed, &format!("a fault without a place: {:?}", read.faults))?;
        if read.fault_count > 0 {
            return Ok(false);
        }
        let served = Arc::new(Server::new(&first, "one", "widgets")?);
        let _gone = std::fs::remove_dir_all(&again);
        let told = world.runtime.block_on(async { registry::told(serve(&served).0, ADDRESS, &again).await });
        told.map_err(|error| error.cause)?;
        property(shape(&self::read(&again)?) == shape(&read), "what we serve of a catalog is another one")?;
        Ok(read.index.counts().packages > 0)
    })
}

async fn tell(answers: &Answers, folder: &PathBuf) -> Result<String, NotTold> {
    let _gone = std::fs::remove_dir_all(folder);
    let (ours, theirs) = duplex(BUFFER);
    let (answers, mut asked) = (answers.clone(), HashMap::<String, usize>::new());
    let answering = registry::answer(theirs, move |path| {
        let number = asked.entry(path.to_owned()).or_default();
        let all = answers.get(path).map(Vec::as_slice).unwrap_or_default();
        let answer = all.get(*number).or(all.last()).cloned();
        *number += 1;
        answer.unwrap_or_else(|| Answer { trailers: vec![("grpc-status".into(), "12".into())], ..Answer::default() })
    });
    let _answering = Aborted(tokio::spawn(answering).abort_handle());
    registry::told(ours, ADDRESS, folder).await
}

/// A task that ends with this.
struct Aborted(AbortHandle);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn read(folder: &std::path::Path) -> Result<Catalog<Vec<u8>>, String> {
    catalog::read(folder, Vec::new()).map_err(|e| format!("what was told is no catalog: {e}"))
}

/// Packages, channels and bundles.
type Shape = BTreeMap<String, (Vec<(String, Vec<String>)>, Vec<(String, String, usize)>)>;

fn shape(catalog: &Catalog<Vec<u8>>) -> Shape {
    let entry = |entry: Entry<'_>| {
        let skips: Vec<&str> = entry.skips().collect();
        format!("{} {:?} {skips:?} {:?}", entry.name(), entry.replaces(), entry.skip_range())
    };
    let package = |package: catalog::Package<'_>| {
        let channels =
            package.channels().map(|channel| (channel.name().to_owned(), channel.entries().map(entry).collect()));
        let bundles = package
            .bundles()
            .map(|bundle| (bundle.name().to_owned(), bundle.version().to_owned(), bundle.properties().count()));
        (package.name().to_owned(), (channels.collect(), bundles.collect()))
    };
    catalog.index.packages().map(package).collect()
}

/// Whatever a server sends on a connection, it is a catalog or an error.
pub(in crate::fuzz) fn server_frames(fixture: &Fixture, input: &[u8]) -> Verdict {
    let groups = wire::groups(input);
    with(fixture, |world| {
        let folder = world.folder.join("frames");
        let _gone = std::fs::remove_dir_all(&folder);
        let told = world.runtime.block_on(async {
            let (ours, theirs) = duplex(BUFFER);
            let playing = tokio::spawn(play(theirs, groups.into_iter()));
            let told = registry::told(ours, ADDRESS, &folder).await;
            let sent = tokio::time::timeout(LIMIT, playing).await;
            (told, sent.is_ok_and(|sent| sent.is_ok_and(|sent| wire::frames_of_client(&sent).is_some())))
        });
        let (told, is_http) = told;
        property(is_http, "the client sends what is no frame")?;
        match told {
            Ok(digest) => property(digest.starts_with("sha256:"), "no digest").map(|()| true),
            Err(NotTold { cause, is_late }) => {
                property(!cause.is_empty(), "an error without a cause")?;
                property(!is_late, &format!("it is waited for what does not come: {cause}"))?;
                Ok(false)
            }
        }
    })
}
