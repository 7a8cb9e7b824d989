//! One rollout enforces what the release owns and changes nothing else, whatever other clients did to the object and
//! however incomplete its manifest is; a second one writes nothing. Writes of rollouts are dry runs, so that each begins
//! with the state that the other client left.
//!
//! `CVO_SEED` repeats a run, `CVO_ROLLOUTS` is the number of rollouts.

use super::{ATTEMPTS, Server, values};
use cvo::testing::merge::{self, MANAGER, MergeError, Outcome};
use e2e::manifests::ownership::{self, Sides};
use e2e::manifests::{Kind, variants};
use e2e::random::SeededRandom;
use futures::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects that are tested concurrently.
const CONCURRENT: usize = 12;
/// Objects of each kind.
const OBJECTS: usize = 3;
/// Of a hundred rollouts, those of objects of a release.
const OF_RELEASE: usize = 20;

/// The result for one object, or for all of a kind.
#[derive(Debug, Default)]
struct Tally {
    rollouts: usize,
    written: usize,
    replaced: usize,
    /// An administrator has to delete the object.
    immutable: usize,
    /// The server accepts no such manifest.
    refused: usize,
    /// Why, for one of them.
    why: Option<String>,
    problems: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.rollouts += other.rollouts;
        self.written += other.written;
        self.replaced += other.replaced;
        self.immutable += other.immutable;
        self.refused += other.refused;
        self.why = self.why.take().or(other.why);
    }
}

/// One object that the rollouts begin with.
struct Object<'a> {
    server: &'a Server,
    kind: &'a Kind,
    number: usize,
    path: String,
    /// The manifest that created it.
    first: Value,
    live: Value,
}

fn with_name(mut object: Value, name: &str) -> Value {
    object["metadata"]["name"] = json!(name);
    object
}

/// Without the identity of an existing object.
fn fresh(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(key);
        }
    }
    object
}

impl<'a> Object<'a> {
    /// Creates it from the first manifest that the server accepts.
    async fn create(server: &'a Server, kind: &'a Kind, number: usize) -> Option<Self> {
        for turn in 0..ATTEMPTS {
            let first = server.desired(kind, number, turn);
            if let Ok(live) = server.call(Method::POST, &kind.list(), Some(&merge::initial(first.clone()))).await {
                let path = format!("{}/{}", kind.list(), kind.name(number));
                return Some(Object { server, kind, number, path, first, live });
            }
        }
        None
    }

    fn name(&self) -> String {
        self.kind.name(self.number)
    }

    fn random(&self, turn: u64) -> SeededRandom {
        let object = self.path.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(257).wrapping_add(byte.into()));
        SeededRandom::new(self.server.seed, object, turn)
    }

    /// A new object of this manifest, or this one with nothing but the manifest where the name is given.
    async fn created(&self, desired: &Value) -> Result<Value, String> {
        let new = merge::initial(with_name(desired.clone(), &format!("{}-new", self.name())));
        let list = format!("{}?dryRun=All", self.kind.list());
        let post = self.server.call(Method::POST, &list, Some(&new)).await;
        // The name of some is a part of them.
        let named =
            !self.kind.is_made() || ["CustomResourceDefinition", "APIService"].contains(&self.kind.kind.as_str());
        if post.is_ok() || !named {
            return post.map_err(|refusal| refusal.message);
        }
        let mut only = merge::initial(desired.clone());
        only["metadata"]["resourceVersion"] = self.live["metadata"]["resourceVersion"].clone();
        let put = self.server.call(Method::PUT, &format!("{}?dryRun=All", self.path), Some(&only)).await;
        put.map_err(|refusal| refusal.message)
    }

    async fn read(&mut self) {
        self.live = self.server.call(Method::GET, &self.path, None).await.unwrap();
    }

    /// Lets another client change the object.
    async fn drift(&mut self, d: &SeededRandom, turn: u64, desired: &Value) {
        for attempt in 0..ATTEMPTS {
            let other = self.kind.manifest(self.server.seed, self.number, (turn + 1) * 1000 + attempt);
            let body = merge::initial(variants::changed(d, self.kind, &self.live, desired, &other));
            match self.server.call(Method::PUT, &self.path, Some(&body)).await {
                Ok(live) => {
                    self.live = live;
                    return;
                }
                // A controller has changed it as well.
                Err(refusal) if refusal.code == 409 => self.read().await,
                Err(_) => {}
            }
        }
    }

    /// The one write of a rollout: the object before and afterwards. Of an object that is recreated only the metadata is
    /// there before. `None` if controllers write all the time.
    async fn write(&mut self, desired: &Value, tally: &mut Tally) -> Result<Option<(Value, Value)>, String> {
        for _ in 0..20 {
            let (object, fields) = match merge::merge(&self.live, desired, MANAGER) {
                Err(MergeError::Immutable { .. }) => {
                    tally.immutable += 1;
                    return Ok(None);
                }
                Err(error) => return Err(format!("cannot be merged: {error}")),
                Ok(Outcome::Same) => return Ok(Some((self.live.clone(), self.live.clone()))),
                Ok(Outcome::Changed { object, fields }) => (object, fields),
                Ok(Outcome::Replace { object, .. }) => {
                    tally.replaced += 1;
                    return self.replace(object).await.map(Some);
                }
            };
            match self.server.call(Method::PUT, &format!("{}?dryRun=All", self.path), Some(&object)).await {
                Ok(result) => {
                    tally.written += 1;
                    return Ok(Some((self.live.clone(), result)));
                }
                Err(refusal) if refusal.code == 409 => self.read().await,
                Err(refusal) => {
                    let values = values(&fields, &self.live, desired);
                    return Err(format!("the merged object is refused: {}{values}", refusal.message));
                }
            }
        }
        Ok(None)
    }

    async fn replace(&self, object: Value) -> Result<(Value, Value), String> {
        let new = fresh(with_name(object, &format!("{}-new", self.name())));
        let list = format!("{}?dryRun=All", self.kind.list());
        let result = self.server.call(Method::POST, &list, Some(&new)).await;
        let result = result.map_err(|refusal| format!("the replacement is refused: {}", refusal.message))?;
        let mut metadata = self.live["metadata"].clone();
        metadata["finalizers"] = Value::Null;
        Ok((json!({"metadata": metadata}), with_name(result, &self.name())))
    }

    async fn rollout(&mut self, turn: u64, tally: &mut Tally) -> Result<(), String> {
        let d = self.random(turn);
        self.read().await;
        // Otherwise an object of some kinds is always replaced.
        let same = d.chance(50);
        let mut accepted = None;
        for attempt in 0..ATTEMPTS {
            let manifest = self.kind.manifest(self.server.seed, self.number, turn * 1000 + attempt);
            let mut manifest = variants::incomplete(&d, self.kind, manifest);
            if same {
                variants::keep_fixed(self.kind, &mut manifest, &self.first);
            }
            let desired = merge::prepare(manifest, Some(&self.server.owner), false);
            match self.created(&desired).await {
                Ok(created) => {
                    accepted = Some((desired, created));
                    break;
                }
                Err(why) => tally.why = Some(why),
            }
        }
        let Some((desired, created)) = accepted else {
            tally.refused += 1;
            return Ok(());
        };
        self.drift(&d, turn, &desired).await;
        tally.rollouts += 1;
        let Some((before, result)) = self.write(&desired, tally).await? else { return Ok(()) };
        let problems = ownership::problems(
            self.kind,
            Sides { manifest: &desired, created: &created, live: &before, result: &result },
        );
        if !problems.is_empty() {
            return Err(problems.join("\n    "));
        }
        match merge::merge(&result, &desired, MANAGER) {
            Ok(Outcome::Same) => Ok(()),
            Ok(Outcome::Changed { fields, .. } | Outcome::Replace { fields, .. }) => {
                Err(format!("a second rollout writes:{}", values(&fields, &result, &desired)))
            }
            Err(error) => Err(format!("cannot be merged again: {error}")),
        }
    }
}

/// Rollouts over one object, the next one after the other.
async fn rollouts(server: &Server, kind: &Kind, number: usize, turns: usize) -> Tally {
    let mut tally = Tally::default();
    let Some(mut object) = Object::create(server, kind, number).await else {
        tally.refused = turns;
        return tally;
    };
    for turn in 1..=turns as u64 {
        if let Err(what) = object.rollout(turn, &mut tally).await {
            tally.problems.push(format!("{} {} turn {turn}: {what}", kind.kind, kind.name(number)));
        }
    }
    tally
}

/// The objects, and how many rollouts there are over each.
fn cases(kinds: &[Kind], count: usize) -> Vec<(Kind, usize, usize)> {
    let (made, of_release): (Vec<&Kind>, Vec<&Kind>) = kinds.iter().partition(|kind| kind.is_made());
    let mut objects: Vec<(&Kind, usize, usize)> =
        (0..OBJECTS).flat_map(|number| made.iter().map(move |kind| (*kind, number, 0))).collect();
    let split = objects.len();
    objects.extend(of_release.iter().map(|kind| (*kind, 0, 0)));
    let (first, second) = objects.split_at_mut(split);
    let later = if second.is_empty() { 0 } else { count * OF_RELEASE / 100 };
    let turns = |part: &mut [(&Kind, usize, usize)], count: usize| {
        let all = part.len();
        (0..count).for_each(|index| part[index % all].2 += 1);
    };
    turns(first, count - later);
    turns(second, later);
    let some = objects.into_iter().filter(|(.., turns)| *turns > 0);
    some.map(|(kind, number, turns)| (kind.clone(), number, turns)).collect()
}

/// The problems.
pub(super) async fn random_rollouts(server: Arc<Server>, kinds: Vec<Kind>) -> Vec<String> {
    let count = std::env::var("CVO_ROLLOUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(500);
    let begun = std::time::Instant::now();
    let tested = stream::iter(cases(&kinds, count)).map(|(kind, number, turns)| {
        let server = server.clone();
        async move { (kind.kind.clone(), rollouts(&server, &kind, number, turns).await) }
    });
    let tested: Vec<(String, Tally)> = tested.buffer_unordered(CONCURRENT).collect().await;
    println!("{count} rollouts in {:.0} s", begun.elapsed().as_secs_f64());

    let (mut by_kind, mut problems) = (BTreeMap::<String, Tally>::new(), Vec::new());
    for (kind, mut tally) in tested {
        problems.append(&mut tally.problems);
        by_kind.entry(kind).or_default().add(tally);
    }
    let mut few = Vec::new();
    for (kind, tally) in &by_kind {
        let Tally { rollouts, written, replaced, immutable, refused, why, .. } = tally;
        print!(
            "{kind}: {rollouts} rollouts, {written} written, {replaced} replaced, {immutable} immutable, {refused} refused"
        );
        println!("{}", why.as_ref().map(|why| format!(", such as {why}")).unwrap_or_default());
        if kinds.iter().any(|k| k.kind == *kind && k.is_made()) && (*rollouts <= refused / 2 || written + replaced == 0)
        {
            few.push(kind);
        }
    }
    if !few.is_empty() {
        problems.push(format!("too few rollouts to prove anything, or none wrote: {few:?}"));
    }
    problems
}
