//! Rollouts of random releases on a simulated cluster, in simulated time: attempts take a while, gates open after a while, and
//! meanwhile webhooks, kinds and namespaces come and go, others change and delete objects, objects are exempted, the
//! ClusterVersion is made anew, and clocks are set. Whatever happens, what stands says so, and once it is over the release is
//! applied and nothing is told any more.

use super::*;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

const KINDS: [&str; 6] = ["config", "deployment", "operator", "definition", "job", "widget"];
/// All times are in milliseconds.
const SECOND: i64 = 1_000;
/// Troubles are over by then.
const TROUBLED: i64 = 600 * SECOND;
/// What stands says so after this time: the longest pause of an object that others keep changing.
const TOLD: i64 = 330 * SECOND;
/// What is over is not told any more after this time: that pause, and what comes after it.
const OVER: i64 = 500 * SECOND;
/// No conflict is remembered any more.
const FORGOTTEN: i64 = 1_500 * SECOND;

/// Something that goes wrong from one moment to another; of some the end does not matter.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    kind: What,
    from: i64,
    to: i64,
}

/// Numbers are of objects, in load order, or of kinds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// Writes of a kind fail.
    WebhookAway {
        of: usize,
    },
    /// The webhook that is asked about a kind runs in the pods of a Deployment of the release.
    WebhookOfRelease {
        of: usize,
    },
    /// Another client changes an object each time that it has been brought back.
    Contested {
        object: usize,
    },
    Deleted {
        object: usize,
    },
    /// Somebody deletes the definitions of the widgets; where the release has none, they are not served for this time.
    KindVanishes,
    NamespaceMissing,
    Terminating {
        object: usize,
    },
    Refused {
        object: usize,
    },
    /// The API server does not answer.
    ServerAway,
    /// By `spec.overrides`, which starts the rollout anew.
    Exempted {
        object: usize,
    },
    /// The rollout begins anew.
    Anew,
    /// The clock is set, by minutes.
    ClockSet {
        by: i64,
    },
}

/// What the cluster has of one manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct InCluster {
    exists: bool,
    as_desired: bool,
    /// Since when it exists.
    since: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// The pause before a command is over.
    Begins(u64),
    Ends(u64),
    Starts(usize),
    Stops(usize),
    /// Another client changes an object again.
    Changes(usize),
    /// Time after which its gate may be open.
    Settled(usize),
}

struct UnderWay {
    command: Command,
    begun: bool,
}

struct World {
    seed: u64,
    now: i64,
    /// What the wall clock is ahead.
    ahead: i64,
    manifests: Vec<Arc<Manifest>>,
    objects: Vec<InCluster>,
    troubles: Vec<Trouble>,
    /// By object: when others have changed it.
    meddled: BTreeMap<usize, Vec<i64>>,
    agenda: BinaryHeap<Reverse<(i64, u64, Happening)>>,
    count: u64,
    mode: Mode,
    rollout: Rollout,
    /// By position in the present rollout: the object.
    included: Vec<usize>,
    under_way: BTreeMap<u64, UnderWay>,
    /// Positions that were applied in the present rollout.
    written: BTreeSet<usize>,
    /// When the present rollout went on last.
    moved: (i64, usize),
}

impl World {
    fn new(manifests: Vec<Arc<Manifest>>, mode: Mode, troubles: Vec<Trouble>, seed: u64) -> World {
        let (rollout, commands) = Rollout::start(plan(manifests.clone(), mode), Clocks::default(), at(0));
        let in_cluster =
            InCluster { exists: mode != Mode::Install, as_desired: mode == Mode::Reconcile, since: -TROUBLED };
        let mut world = World {
            seed,
            now: 0,
            ahead: 0,
            objects: vec![in_cluster; manifests.len()],
            included: (0..manifests.len()).collect(),
            manifests,
            meddled: BTreeMap::new(),
            agenda: BinaryHeap::new(),
            count: 0,
            mode,
            rollout,
            under_way: BTreeMap::new(),
            written: BTreeSet::new(),
            moved: (0, 0),
            troubles,
        };
        for (index, trouble) in world.troubles.clone().into_iter().enumerate() {
            world.at(trouble.from, Happening::Starts(index));
            world.at(trouble.to, Happening::Stops(index));
        }
        world.begin(commands);
        world
    }

    fn at(&mut self, time: i64, happening: Happening) {
        self.count += 1;
        self.agenda.push(Reverse((time, self.count, happening)));
    }

    /// Up to this many milliseconds, the same in each run.
    fn up_to(&self, limit: u64, of: u64) -> i64 {
        let mut mixed = (self.seed ^ of.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x2545_f491_4f6c_dd1d);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        i64::try_from((mixed ^ (mixed >> 27)) % limit).unwrap()
    }

    fn wall_clock(&self) -> Timestamp {
        Timestamp::from_millisecond(1_000_000_000 + self.now + self.ahead).unwrap()
    }

    fn is(&self, what: impl Fn(&What) -> bool) -> bool {
        let active = |trouble: &&Trouble| trouble.from <= self.now && self.now < trouble.to;
        self.troubles.iter().filter(active).any(|trouble| what(&trouble.kind))
    }

    fn kind(&self, object: usize) -> usize {
        let kind = self.manifests[object].id.kind.as_str();
        let kinds = ["ConfigMap", "Deployment", "ClusterOperator", "CustomResourceDefinition", "Job", "Widget"];
        kinds.iter().position(|it| *it == kind).unwrap()
    }

    /// How long the work of an object takes.
    fn takes(&self, object: usize) -> i64 {
        match KINDS[self.kind(object)] {
            "deployment" | "job" => 500 + self.up_to(3_000, object as u64),
            "definition" => SECOND,
            _ => 0,
        }
    }

    fn component(&self, object: usize) -> &str {
        self.manifests[object].file.split('_').nth(2).unwrap()
    }

    fn is_ready(&self, object: usize) -> bool {
        let InCluster { exists, since, .. } = self.objects[object];
        let works = exists && self.now >= since + self.takes(object);
        if KINDS[self.kind(object)] != "operator" {
            return works;
        }
        // It reports what its workloads do, as far as they are applied before it.
        let same = |other: &usize| {
            self.manifests[*other].file.split('_').nth(1) == self.manifests[object].file.split('_').nth(1)
                && self.component(*other) == self.component(object)
                && KINDS[self.kind(*other)] == "deployment"
        };
        works && (0..object).filter(same).all(|other| self.is_ready(other))
    }

    fn definitions(&self) -> Vec<usize> {
        (0..self.manifests.len()).filter(|object| KINDS[self.kind(*object)] == "definition").collect()
    }

    fn is_served(&self) -> bool {
        let definitions = self.definitions();
        if definitions.is_empty() {
            return !self.is(|what| *what == What::KindVanishes);
        }
        definitions.into_iter().any(|definition| self.is_ready(definition))
    }

    /// Whether nobody answers who has to be asked before an object is written; with the namespace.
    fn is_webhook_away(&self, object: usize) -> Option<Option<String>> {
        let kind = self.kind(object);
        if self.is(|what| *what == What::WebhookAway { of: kind }) {
            return Some(Some("elsewhere".to_owned()));
        }
        let behind = self.brings_webhook(object)?;
        let asked = self.troubles.iter().any(|trouble| trouble.kind == What::WebhookOfRelease { of: kind });
        (asked && !self.is_ready(behind)).then(|| Some("ns".to_owned()))
    }

    /// A Deployment behind the object, in the same node, of another kind than the object.
    fn brings_webhook(&self, object: usize) -> Option<usize> {
        let prefix = |object: usize| self.manifests[object].file.rsplit_once('_').unwrap().0;
        let behind = (object + 1..self.manifests.len()).take_while(|other| prefix(*other) == prefix(object));
        // Nothing is behind a Job before it is complete.
        let mut behind = behind.take_while(|other| ![*other, object].iter().any(|it| KINDS[self.kind(*it)] == "job"));
        behind.find(|other| KINDS[self.kind(*other)] == "deployment" && self.kind(object) != self.kind(*other))
    }

    fn begin(&mut self, commands: Vec<Command>) {
        for command in commands {
            if let Command::Reconcile(request) = &command {
                self.assert_in_order(request);
            }
            self.count += 1;
            let id = self.count;
            let pause = match &command {
                Command::Reconcile(request) => i64::try_from(request.delay.pause.as_millis()).unwrap(),
                Command::HandOverTimer { .. } | Command::ServeKinds(_) => continue,
                _ => 0,
            };
            self.under_way.insert(id, UnderWay { command, begun: false });
            self.at(self.now + pause, Happening::Begins(id));
        }
    }

    /// Nothing has its turn before what is in front of it in its node is applied.
    fn assert_in_order(&self, request: &Reconcile) {
        if let Purpose::Apply { node } | Purpose::Gate { node } = request.purpose {
            let in_front = self.rollout.plan.graph.nodes()[node].manifests.iter();
            let missing = in_front.take_while(|p| **p != request.position).find(|p| !self.written.contains(p));
            assert_eq!(missing, None, "{} has its turn before it", request.position);
        }
    }

    fn tell(&mut self, event: Event) {
        let (before, now) = (self.rollout.is_completed(), self.wall_clock());
        let commands = self.rollout.on(event, now);
        if self.rollout.is_completed() && !before {
            self.assert_in_place();
        }
        self.begin(commands);
    }

    fn assert_in_place(&self) {
        for object in &self.included {
            let InCluster { exists, as_desired, .. } = self.objects[*object];
            let times = self.meddled.get(object).map(Vec::as_slice).unwrap_or_default();
            let contested = times.iter().filter(|at| **at > self.now - 700 * SECOND).count() > 1;
            let in_place = exists && as_desired && self.is_ready(*object);
            assert!(in_place || contested, "completed without {}", self.manifests[*object].id);
        }
    }

    /// Ends the pauses that end with this.
    fn wake(&mut self, is: impl Fn(&Reconcile) -> bool) {
        let woken = |(id, it): (&u64, &UnderWay)| match &it.command {
            Command::Reconcile(request) if !it.begun && is(request) => Some(*id),
            _ => None,
        };
        let woken: Vec<u64> = self.under_way.iter().filter_map(woken).collect();
        woken.into_iter().for_each(|id| self.at(self.now, Happening::Begins(id)));
    }

    fn position(&self, object: usize) -> Option<usize> {
        self.included.iter().position(|included| *included == object)
    }

    /// The watch tells of it.
    fn changed(&mut self, object: usize, content: bool) {
        let Some(position) = self.position(object) else { return };
        let exists = self.objects[object].exists;
        self.wake(|request| match &request.delay.until {
            Wake::ObjectChanged => request.position == position,
            Wake::ObjectDeleted => request.position == position && !exists,
            Wake::AnyChanged(positions) => positions.contains(&position),
            _ => false,
        });
        self.tell(Event::Changed { position, content });
        if KINDS[self.kind(object)] == "definition" {
            let served = self.is_served();
            self.wake(|request| served && matches!(request.delay.until, Wake::KindServed { .. }));
        }
        // Those that report what it does.
        if KINDS[self.kind(object)] == "deployment" {
            for operator in object + 1..self.manifests.len() {
                if KINDS[self.kind(operator)] == "operator" {
                    self.changed(operator, false);
                }
            }
        }
    }

    fn meddle(&mut self, object: usize, deleted: bool) {
        if !self.objects[object].exists {
            return;
        }
        self.meddled.entry(object).or_default().push(self.now);
        self.objects[object].as_desired = false;
        self.objects[object].exists &= !deleted;
        self.changed(object, true);
    }

    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::Begins(id) => {
                let Some(it) = self.under_way.get_mut(&id).filter(|it| !it.begun) else { return };
                it.begun = true;
                let takes = 5 + self.up_to(400, id);
                self.at(self.now + takes, Happening::Ends(id));
            }
            Happening::Ends(id) => {
                if let Some(it) = self.under_way.remove(&id) {
                    self.perform(it.command);
                }
            }
            Happening::Settled(object) => self.changed(object, false),
            Happening::Changes(object) => {
                if self.is(|what| *what == What::Contested { object }) && self.objects[object].as_desired {
                    self.meddle(object, false);
                }
            }
            Happening::Starts(index) => self.starts(self.troubles[index].kind),
            Happening::Stops(index) => self.stops(self.troubles[index].kind),
        }
    }

    fn starts(&mut self, what: What) {
        match what {
            What::Contested { object } => self.meddle(object, false),
            What::Deleted { object } => self.meddle(object, true),
            What::KindVanishes => {
                self.definitions().into_iter().for_each(|definition| self.meddle(definition, true));
                let is_widget = |object: &usize| KINDS[self.kind(*object)] == "widget";
                let widgets: Vec<usize> = (0..self.manifests.len()).filter(is_widget).collect();
                widgets.into_iter().for_each(|widget| self.meddle(widget, true));
            }
            What::Exempted { .. } | What::Anew => self.restart(),
            What::ClockSet { by } => self.ahead += by * 60 * SECOND,
            _ => {}
        }
    }

    fn stops(&mut self, what: What) {
        match what {
            What::Exempted { .. } => self.restart(),
            What::NamespaceMissing => self.wake(|it| matches!(it.delay.until, Wake::NamespaceChanged(_))),
            What::ServerAway => self.wake(|it| it.delay.until == Wake::ServerReady),
            What::Terminating { object } => self.changed(object, true),
            What::Deleted { object } if KINDS[self.kind(object)] == "definition" => self.bring_back(object),
            What::KindVanishes => {
                self.definitions().into_iter().for_each(|definition| self.bring_back(definition));
                let served = self.is_served();
                self.wake(|it| served && matches!(it.delay.until, Wake::KindServed { .. }));
            }
            _ => {}
        }
    }

    /// A definition whose turn is still to come, and that objects before it need, is brought back by whoever has deleted it.
    fn bring_back(&mut self, definition: usize) {
        if !self.objects[definition].exists && self.mode != Mode::Install {
            self.objects[definition] = InCluster { exists: true, as_desired: false, since: self.now };
            self.at(self.now + self.takes(definition), Happening::Settled(definition));
            self.changed(definition, true);
        }
    }

    /// What is under way ends before another rollout begins, as the daemon sees to it.
    fn restart(&mut self) {
        self.rollout.cancel();
        for it in std::mem::take(&mut self.under_way).into_values().filter(|it| it.begun) {
            self.perform(it.command);
        }
        assert!(self.under_way.is_empty(), "a rollout that is cancelled starts nothing");
        if self.rollout.is_completed() {
            self.mode = Mode::Reconcile;
        }
        let exempted = |world: &World, object: usize| world.is(|what| *what == What::Exempted { object });
        self.included = (0..self.manifests.len()).filter(|object| !exempted(self, *object)).collect();
        let manifests = self.included.iter().map(|object| self.manifests[*object].clone()).collect();
        let (rollout, commands) = Rollout::start(plan(manifests, self.mode), Clocks::default(), self.wall_clock());
        self.rollout = rollout;
        self.written.clear();
        self.moved = (self.now, 0);
        self.begin(commands);
    }

    fn perform(&mut self, command: Command) {
        match command {
            Command::CreatePrerequisite(position) => {
                let applied = self.write(self.included[position]).ok();
                self.tell(Event::PrerequisiteDone { position, applied });
            }
            Command::Precreate { node, position } => {
                drop(self.write(self.included[position]));
                self.tell(Event::Precreated { node });
            }
            Command::Reconcile(request) => {
                let outcome = self.attempt(&request);
                if outcome.failure.is_none() {
                    self.written.insert(request.position);
                }
                self.tell(Event::Reconciled(request, Box::new(outcome)));
            }
            Command::ServeKinds(_) | Command::HandOverTimer { .. } => {}
        }
    }

    fn attempt(&mut self, request: &Reconcile) -> Outcome {
        let object = self.included[request.position];
        let judged = |world: &World| {
            let unready = if world.is_ready(object) { None } else { waiting() };
            request.gate.map(|_| Judged { unready, as_desired: true })
        };
        let before = judged(self);
        match self.write(object) {
            Err(cause) => failed(cause),
            Ok(applied) => {
                let judged = if request.contested && applied != Applied::Unchanged { before } else { judged(self) };
                Outcome { applied: Some(applied), judged, ..Outcome::default() }
            }
        }
    }

    fn write(&mut self, object: usize) -> Result<Applied, Cause> {
        let before = self.objects[object];
        if self.is(|what| *what == What::ServerAway) {
            return Err(Cause::NoAnswer);
        }
        if KINDS[self.kind(object)] == "widget" && !self.is_served() {
            return Err(if self.count.is_multiple_of(2) { Cause::KindNotServed } else { Cause::KindGone });
        }
        if before.as_desired {
            return Ok(Applied::Unchanged);
        }
        if !before.exists && self.is(|what| *what == What::NamespaceMissing) {
            return Err(Cause::NamespaceMissing("ns".to_owned()));
        }
        if self.is(|what| *what == What::Terminating { object }) {
            return Err(Cause::Terminating);
        }
        if let Some(namespace) = self.is_webhook_away(object) {
            return Err(Cause::WebhookAway(namespace));
        }
        if self.is(|what| *what == What::Refused { object }) {
            return Err(Cause::Other);
        }
        let since = if before.exists { before.since } else { self.now };
        self.objects[object] = InCluster { exists: true, as_desired: true, since };
        self.at((since + self.takes(object)).max(self.now), Happening::Settled(object));
        if self.is(|what| *what == What::Contested { object }) {
            let pause = 50 + self.up_to(5_000, self.count);
            self.at(self.now + pause, Happening::Changes(object));
        }
        if !before.exists {
            return Ok(Applied::Created);
        }
        Ok(Applied::Updated { fields: vec!["data".to_owned()], by: Some("other".to_owned()) })
    }

    /// Until this time. Checks at every moment that what stands says so.
    fn run_until(&mut self, end: i64) {
        while let Some(Reverse((time, _, happening))) = self.agenda.peek().copied() {
            if time > end {
                break;
            }
            self.agenda.pop();
            self.assert_told_by(time);
            self.now = time;
            self.happens(happening);
            // As the executor does.
            let now = self.wall_clock();
            let view = self.rollout.view(now);
            if view.done != self.moved.1 {
                self.moved = (self.now, view.done);
            }
        }
        self.assert_told_by(end);
        self.now = end;
    }

    fn assert_told_by(&self, time: i64) {
        let told = self.rollout.failure().is_some() || !self.rollout.awaited().is_empty();
        let stands = !self.rollout.is_completed() && !self.included.is_empty() && time > self.moved.0 + TOLD;
        assert!(told || !stands, "nothing is told since {}: {:?}", self.moved.0, self.rollout.nodes);
    }
}

/// Level, component and kind of each manifest.
fn any_release() -> impl Strategy<Value = Vec<(u8, u8, usize)>> {
    prop::collection::vec((0..3u8, 0..3u8, 0..KINDS.len()), 1..14)
}

fn manifests(mut release: Vec<(u8, u8, usize)>) -> Vec<Arc<Manifest>> {
    // A release brings its definitions before what needs them, and before its Jobs.
    for (level, component, _) in release.iter_mut().filter(|(.., kind)| KINDS[*kind] == "definition") {
        (*level, *component) = (0, 0);
    }
    release.sort_by_key(|(level, component, kind)| (*level, *component, KINDS[*kind] != "definition"));
    let manifest = |(index, (level, component, kind)): (usize, &(u8, u8, usize))| {
        let file = format!("0000_{level}0_c{component}_{index:02}.json");
        let name = match KINDS[*kind] {
            "definition" => format!("widgets{index}.example.com"),
            _ => format!("object-{index}"),
        };
        object(&file, KINDS[*kind], &name)
    };
    release.iter().enumerate().map(manifest).collect()
}

fn any_what() -> impl Strategy<Value = What> {
    let object = || any::<prop::sample::Index>().prop_map(|index| index.index(14));
    let kind = || 0..KINDS.len();
    prop_oneof![
        kind().prop_map(|of| What::WebhookAway { of }),
        kind().prop_map(|of| What::WebhookOfRelease { of }),
        object().prop_map(|object| What::Contested { object }),
        object().prop_map(|object| What::Deleted { object }),
        Just(What::KindVanishes),
        Just(What::NamespaceMissing),
        object().prop_map(|object| What::Terminating { object }),
        object().prop_map(|object| What::Refused { object }),
        Just(What::ServerAway),
        object().prop_map(|object| What::Exempted { object }),
        Just(What::Anew),
        (-360..360i64).prop_map(|by| What::ClockSet { by }),
    ]
}

fn any_trouble() -> impl Strategy<Value = Trouble> {
    let times = (0..TROUBLED / 2, 1..TROUBLED / 2);
    (any_what(), times).prop_map(|(kind, (from, takes))| Trouble { kind, from, to: from + takes })
}

/// Of objects that there are.
fn of_release(troubles: Vec<Trouble>, count: usize) -> Vec<Trouble> {
    let there = |object: &mut usize| *object %= count;
    let mut troubles = troubles;
    for trouble in &mut troubles {
        match &mut trouble.kind {
            What::Contested { object }
            | What::Deleted { object }
            | What::Terminating { object }
            | What::Refused { object }
            | What::Exempted { object } => there(object),
            _ => {}
        }
    }
    troubles
}

proptest! {
    // A failure prints its smallest input; nothing is left in the tree.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rollout_says_what_it_waits_for_and_ends_when_the_causes_are_gone(
        release in any_release(),
        mode in any_mode(),
        troubles in prop::collection::vec(any_trouble(), 0..7),
        seed in any::<u64>(),
    ) {
        let manifests = manifests(release);
        let troubles = of_release(troubles, manifests.len());
        let mut world = World::new(manifests, mode, troubles, seed);
        world.run_until(TROUBLED + OVER);
        prop_assert!(world.rollout.is_completed(), "no end: {:?}", world.rollout.nodes);
        prop_assert_eq!(world.rollout.failure(), None, "told although it is over");
        prop_assert_eq!(world.rollout.awaited(), vec![]);
        prop_assert!(world.rollout.nodes.iter().all(|node| node.state == NodeState::Done && node.waiting.is_empty()));
        prop_assert!(world.objects.iter().all(|object| object.exists && object.as_desired));
        world.run_until(TROUBLED + FORGOTTEN);
        let now = world.wall_clock();
        prop_assert_eq!(world.rollout.conflicts(now), vec![]);
        prop_assert!(world.under_way.is_empty(), "something is still under way");
    }
}
