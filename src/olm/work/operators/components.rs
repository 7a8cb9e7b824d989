//! Operator objects, and the labels of their components: a controller beside that of ClusterServiceVersions, which knows all kinds of
//! components but two already. It looks at all of them at once, now and then while something changes: what is on its way from one phase
//! to the next is not worth a write.

mod look;
mod patience;
mod views;

use super::live::Live;
use crate::cluster::followed::Followed;
use crate::cluster::watcher::Selector;
use crate::cluster::writer::Writer;
use crate::cluster::{ApiError, Clients, Kind, Objects, task};
use crate::olm::api::keys::label;
use crate::olm::api::operator::{Operator, OperatorStatus};
use crate::olm::operator::object::{self, Id, Write, writes};
use crate::olm::work::follow::Follow;
use crate::olm::work::part::Part;
use crate::process::turns::due;
use look::{Look, kind};
use patience::Patience;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use views::{ConfigMapMembership, OperatorView, PlanMembership};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// So many writes side by side: what users write comes in between.
const AT_ONCE: usize = 24;

/// Told by the controller of operators that something has changed.
pub(super) struct Components(Arc<Notify>);

impl Components {
    /// They are looked after until `stop`, while the lease is held.
    pub(super) fn start(
        clients: &Clients,
        objects: Objects,
        leading: watch::Receiver<bool>,
        live: Live,
        stop: &CancellationToken,
    ) -> Components {
        let woken = Arc::new(Notify::new());
        let follow = Follow { clients, changed: &woken, stop };
        let managed = Selector::Labels(format!("{}=true", label::MANAGED));
        let more = More {
            operators: follow.start_each(operator_kind(), "", Selector::All),
            plans: follow.start_each(kind(object::Kind::InstallPlan), "", Selector::All),
            config_maps: follow.start_metadata(kind(object::Kind::ConfigMap), managed),
        };
        let writer = Writer::new(woken.clone());
        let keeper =
            Keeper { objects, leading, live, more, woken: woken.clone(), writer, patience: Patience::default() };
        let until = stop.clone();
        task::spawn("components of operators", stop, async move { keeper.run(&until).await });
        Components(woken)
    }

    pub(super) fn on_change(&self) {
        self.0.notify_one();
    }
}

fn operator_kind() -> Kind {
    Kind::of::<Operator>(false)
}

/// What is followed for components alone.
#[derive(Clone)]
struct More {
    operators: Arc<Followed<OperatorView>>,
    plans: Arc<Followed<Part<PlanMembership>>>,
    /// Those that were made here.
    config_maps: Arc<Followed<Part<ConfigMapMembership>>>,
}

/// What is written, one at a time for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Operator(String),
    Label(Id),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Operator(name) => write!(f, "Operator {name}"),
            Key::Label(Id { kind, namespace, name }) if namespace.is_empty() => write!(f, "{} {name}", kind.names().1),
            Key::Label(Id { kind, namespace, name }) => write!(f, "{} {namespace}/{name}", kind.names().1),
        }
    }
}

struct Keeper {
    objects: Objects,
    leading: watch::Receiver<bool>,
    live: Live,
    more: More,
    woken: Arc<Notify>,
    writer: Arc<Writer<Key>>,
    patience: Patience,
}

impl Keeper {
    async fn run(mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let deadline = if *self.leading.borrow_and_update() { self.turn(Instant::now()) } else { None };
            // What happens meanwhile is seen at the next look.
            let _ = stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
            tokio::select! {
                () = due(&self.woken, deadline, stop) => {}
                Ok(()) = self.leading.changed() => {}
            }
        }
        self.writer.end().await;
    }

    /// Does what is due, and returns when something is although nothing has changed.
    fn turn(&mut self, at: Instant) -> Option<Instant> {
        let operators = self.more.operators.all()?;
        // Before everything is known, something could be taken for gone.
        let look = Look::of(&self.live, &self.more)?;
        let (under_way, busy) = self.writer.busy();
        let mut room = Room { left: AT_ONCE.saturating_sub(under_way), busy, at };
        let known = operators.iter().map(|(name, view)| (name.clone(), view.live.clone())).collect();
        let writes = writes(&look.found, &look.subscribed, &known);
        self.patience.retain(&writes);
        let mut waits = Vec::new();
        for (name, write) in writes {
            match self.patience.until(&name, &write, at) {
                Some(until) => waits.push(until),
                None => self.write(name, write, &known, &mut room),
            }
        }
        self.label(look.lacking, &mut room);
        waits.into_iter().chain(self.writer.next()).min()
    }

    fn write(&self, name: String, write: Write, known: &BTreeMap<String, object::Live>, room: &mut Room) {
        let key = Key::Operator(name.clone());
        if room.take(&key) {
            let live = known.get(&name).cloned().unwrap_or_default();
            let write = perform((self.objects.clone(), self.more.clone()), name, write, live);
            self.writer.begin(key, room.at, Duration::ZERO, write);
        }
    }

    fn label(&self, lacking: BTreeMap<Id, BTreeSet<String>>, room: &mut Room) {
        for (id, keys) in lacking {
            let key = Key::Label(id.clone());
            if room.take(&key) {
                let labels: BTreeMap<String, &str> = keys.into_iter().map(|key| (key, "")).collect();
                let patch = json!({"metadata": {"labels": labels}});
                let parts = (self.objects.clone(), self.live.clone(), self.more.clone());
                self.writer.begin(key, room.at, Duration::ZERO, label(parts, id, patch));
            }
        }
    }
}

/// For how many more writes there is room. Whoever gets none is looked at again when one has ended.
struct Room {
    left: usize,
    /// What is being written, or has to wait.
    busy: BTreeSet<Key>,
    /// When the objects were looked at.
    at: Instant,
}

impl Room {
    fn take(&mut self, key: &Key) -> bool {
        let is_free = self.left > 0 && !self.busy.contains(key);
        self.left -= usize::from(is_free);
        is_free
    }
}

/// One that has been deleted meanwhile needs nothing.
async fn label((objects, live, more): (Objects, Live, More), id: Id, patch: Value) -> Result<(), ApiError> {
    match objects.merge_patch(&kind(id.kind), &id.namespace, &id.name, &patch).await {
        Err(error) if error.is_not_found() => {}
        answer => look::on_answer(&live, &more, id.kind, answer?),
    }
    Ok(())
}

async fn perform(
    (objects, more): (Objects, More),
    name: String,
    write: Write,
    live: object::Live,
) -> Result<(), ApiError> {
    let kind = operator_kind();
    let answer = match write {
        Write::Create => {
            match objects.create(&kind, "", &operator(&name, &json!({"labels": {label::MANAGED: "true"}}))).await {
                // The watch tells of it.
                Err(error) if error.is_already_exists() => return Ok(()),
                answer => answer?,
            }
        }
        Write::Status(status) => {
            match objects.replace_status(&kind, "", &name, &with_status(&name, &live, &status)).await {
                Err(error) if error.is_not_found() => return Ok(()),
                answer => answer?,
            }
        }
        Write::Delete => return objects.delete(&kind, "", &name, &live.uid).await.map(drop),
    };
    more.operators.on_answer(answer);
    Ok(())
}

fn operator(name: &str, metadata: &Value) -> Value {
    let mut object =
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": metadata, "spec": {}});
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), name.into());
    }
    object
}

/// Nothing but the status counts, and the version that it is based on.
fn with_status(name: &str, live: &object::Live, status: &OperatorStatus) -> Value {
    let mut object = operator(name, &json!({"resourceVersion": live.version, "uid": live.uid}));
    if let Some(object) = object.as_object_mut() {
        object.insert("status".to_owned(), json!(status));
    }
    object
}
