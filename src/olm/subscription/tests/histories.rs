//! Random histories of a namespace: catalogs that change, people who subscribe, approve and delete, plans and operators that fail, and a
//! process that is killed between two writes. What is decided is carried out by the functions of the other controllers.

use super::*;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::{InstallPlan, StepStatus};
use crate::olm::plan::group::{Account, Group as TargetGroup};
use crate::olm::plan::{self, Decision as OfPlan, Outcome as OfAttempt, Trouble};
use crate::olm::solve::tests::cases;
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const PACKAGES: [&str; 4] = ["a", "b", "c", "d"];
/// Of a package.
const VERSIONS: u8 = 4;
/// Turns until nothing changes any more.
const TURNS: usize = 60;

/// What happens, and two numbers that say to whom.
type Event = (u8, u8, u8);
/// For each version of each package: the package whose API it requires, if there is one, and which of its versions.
type Requirements = Vec<Option<(u8, u8)>>;

/// The API of a package in its version 1, which its first two versions provide, or 2, which its second and all later ones do.
fn api(package: u8, number: u8) -> Value {
    json!({"group": "g", "version": format!("v{number}"), "kind": PACKAGES[usize::from(package)].to_uppercase()})
}

fn provided(package: u8, version: u8) -> Vec<Value> {
    let of = [(1, version <= 2), (2, version >= 2)];
    of.into_iter().filter(|(_, provides)| *provides).map(|(number, _)| api(package, number)).collect()
}

struct World {
    case: Case,
    requirements: Requirements,
    plans: Vec<InstallPlan>,
    /// uids of plans that somebody has approved.
    approved: BTreeSet<String>,
    /// uids of plans that were made when nobody asked for an approval.
    automatic: BTreeSet<String>,
    carried_out: BTreeSet<String>,
    /// How often something that was to be installed required an API.
    needed: usize,
    count: usize,
}

impl World {
    fn new(requirements: Requirements) -> World {
        let mut world = World {
            case: Case::of(&[]),
            requirements,
            plans: Vec::new(),
            approved: BTreeSet::new(),
            automatic: BTreeSet::new(),
            carried_out: BTreeSet::new(),
            needed: 0,
            count: 0,
        };
        world.offer(0b0001_0001);
        world
    }

    fn requires(&self, package: u8, version: u8) -> Option<Value> {
        let at = usize::from(package * VERSIONS + version - 1);
        let (of, number) = (*self.requirements.get(at)?)?;
        (of != package).then(|| api(of, number))
    }

    /// A catalog with all packages, each up to a version that `bits` says.
    fn offer(&mut self, bits: u8) {
        let mut blobs = Vec::new();
        for (package, name) in (0..).zip(PACKAGES) {
            let last = 1 + (bits >> (2 * package)) % VERSIONS;
            let entry = |version: u8| match version {
                1 => json!({"name": format!("{name}.v1")}),
                _ => json!({"name": format!("{name}.v{version}"), "replaces": format!("{name}.v{}", version - 1)}),
            };
            let entries: Vec<Value> = (1..=last).map(entry).collect();
            blobs.push(json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}));
            blobs.push(json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}));
            for version in 1..=last {
                let identity = json!({"type": "olm.package",
                    "value": {"packageName": name, "version": format!("{version}.0.0")}});
                let owned = provided(package, version).into_iter().map(|it| json!({"type": "olm.gvk", "value": it}));
                let required = self.requires(package, version);
                let required = required.map(|it| json!({"type": "olm.gvk.required", "value": it}));
                let properties: Vec<Value> = std::iter::once(identity).chain(owned).chain(required).collect();
                blobs.push(json!({"schema": "olm.bundle", "name": format!("{name}.v{version}"), "package": name,
                    "image": format!("quay.io/test/{name}@sha256:{}", version.to_string().repeat(64)),
                    "properties": properties}));
            }
        }
        let content = Some(Arc::new(content(&blobs).0));
        let visible = Visible { uid: "c".to_owned(), health: Some(Ok(())), content, ..Visible::default() };
        self.case.catalogs.insert(id("ns", "main"), visible);
    }

    fn unique(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}-{}", self.count)
    }

    /// Whether an element that `at` chooses is there.
    fn choose<T>(all: &[T], at: u8) -> Option<usize> {
        usize::from(at).checked_rem(all.len())
    }

    fn happen(&mut self, (what, first, second): Event) {
        let case = &mut self.case;
        match what % 16 {
            0 | 1 => self.offer(first),
            2 | 3 => {
                let package = PACKAGES[usize::from(first) % PACKAGES.len()];
                let mut new = subscription(package);
                new.metadata.uid = Some(self.unique("subscription"));
                new.spec.install_plan_approval = second.is_multiple_of(2).then_some(Approval::Manual);
                self.subscribe(new);
            }
            4 => {
                if let Some(at) = Self::choose(&case.subscriptions, first) {
                    case.subscriptions.remove(at);
                }
            }
            5 => {
                if let Some(at) = Self::choose(&case.csvs, first) {
                    case.csvs.remove(at);
                }
            }
            6 => {
                if let Some(at) = Self::choose(&self.plans, first) {
                    self.plans.remove(at);
                }
            }
            7..9 => {
                if let Some(at) = Self::choose(&self.plans, first) {
                    self.plans[at].spec.approved = true;
                    self.approved.insert(self.plans[at].metadata.uid.clone().unwrap());
                }
            }
            // The process is killed after so many writes.
            9..12 => self.turn(Some(usize::from(second % 3))),
            12 => self.carry_out(first, second.is_multiple_of(2)),
            13 => self.carry_out(first, true),
            _ => self.run(first, !second.is_multiple_of(4)),
        }
    }

    fn subscribe(&mut self, new: Subscription) {
        if self.case.subscriptions.iter().all(|it| it.metadata.name != new.metadata.name) {
            self.case.subscriptions.push(Arc::new(new));
        }
    }

    /// A ClusterServiceVersion that is being installed comes to an end.
    fn run(&mut self, which: u8, succeeds: bool) {
        let going: Vec<usize> =
            (0..self.case.csvs.len()).filter(|at| self.case.csvs[*at].phase == Phase::None).collect();
        let Some(at) = Self::choose(&going, which).map(|at| going[at]) else { return };
        let csv = Arc::make_mut(&mut self.case.csvs[at]);
        csv.phase = if succeeds { Phase::Succeeded } else { Phase::Failed };
        let replaced = csv.replaces.clone();
        if succeeds {
            self.case.csvs.retain(|it| it.name != replaced);
        }
    }

    /// Does what the controller of plans decides.
    fn carry_out(&mut self, which: u8, succeeds: bool) {
        let Some(at) = Self::choose(&self.plans, which) else { return };
        let groups = [TargetGroup::default()];
        for _ in 0..3 {
            let plan = &self.plans[at];
            let facts = plan::Facts { plan, groups: &groups, account: Account::None, is_judged: &|_| true };
            match plan::decide(&facts, now()) {
                OfPlan::Nothing => return,
                OfPlan::Write(status) => self.plans[at].status = Some(*status),
                OfPlan::CarryOut => self.attempt(at, succeeds),
            }
        }
    }

    fn attempt(&mut self, at: usize, succeeds: bool) {
        let plan = self.plans[at].clone();
        let (uid, status) = (plan.metadata.uid.unwrap(), plan.status.unwrap());
        assert!(self.approved.contains(&uid) || self.automatic.contains(&uid), "nobody has approved {uid}");
        let mut outcome = OfAttempt::default();
        if succeeds {
            self.carried_out.insert(uid);
            for step in &status.plan {
                self.create(&step.resource.kind, &step.resource.manifest);
            }
            outcome.steps = (0..status.plan.len()).map(|at| (at, StepStatus::Created)).collect();
        } else {
            outcome.trouble = Some(Trouble { text: "refused".to_owned(), is_forbidden: false });
        }
        self.plans[at].status = Some(plan::after(&status, outcome, SignedDuration::ZERO, now()).0);
    }

    fn create(&mut self, kind: &str, manifest: &str) {
        match kind {
            "ClusterServiceVersion" => {
                let csv = Csv::of(&serde_json::from_str::<ClusterServiceVersion>(manifest).unwrap());
                for other in &mut self.case.csvs {
                    if other.name == csv.replaces {
                        Arc::make_mut(other).phase = Phase::Replacing;
                    }
                }
                if self.case.csvs.iter().all(|it| it.name != csv.name) {
                    self.case.csvs.push(Arc::new(csv));
                }
            }
            "Subscription" => {
                let mut new: Subscription = serde_json::from_str(manifest).unwrap();
                new.metadata.namespace = Some("ns".to_owned());
                new.metadata.uid = Some(self.unique("subscription"));
                self.subscribe(new);
            }
            _ => {}
        }
    }

    /// Decides and writes; only so many writes, if there is a limit. Whether there was anything to write.
    fn step(&mut self, most: Option<usize>) -> bool {
        self.case.plans = self.plans.iter().map(|plan| Arc::new(Plan::of(plan))).collect();
        let facts = self.case.facts();
        let gate = facts.gate();
        let found = match &gate {
            Gate::Open(inputs) => Some(inputs.answer(&ClusterVersions::default(), &Limits::default())),
            Gate::Closed(_) | Gate::Waiting => None,
        };
        let decision = facts.decide(&gate, found.as_ref(), &|new| Unpacked::Done(bundle(&new.name)), now());
        let is_any = !decision.statuses.is_empty() || !decision.create.is_empty() || !decision.superseded.is_empty();
        let mut left = most.unwrap_or(usize::MAX);
        let mut writes = || {
            let may = left > 0;
            left = left.saturating_sub(1);
            may
        };
        for plan in &decision.superseded {
            if writes() {
                self.plans.retain(|it| it.metadata.uid.as_deref() != Some(&plan.uid));
            }
        }
        for new in &decision.create {
            self.assert_has_what_it_needs(new);
            let (mut plan, status) = new.object(&BTreeMap::new()).unwrap();
            if new.begun.is_none() && writes() {
                let generation = plan.spec.generation;
                assert!(self.plans.iter().all(|it| it.spec.generation < generation), "a generation is doubled");
                let uid = self.unique("plan");
                if new.approved {
                    let is_manual = |it: &&Arc<Subscription>| it.spec.install_plan_approval == Some(Approval::Manual);
                    assert!(!new.owners.iter().any(|it| is_manual(&it)), "it asks for an approval");
                    self.automatic.insert(uid.clone());
                }
                plan.metadata.uid = Some(uid);
                self.plans.push(plan);
            }
            if writes()
                && let Some(plan) = self.plans.iter_mut().find(|it| it.metadata.name == Some(new.name()))
            {
                plan.status = Some(status);
            }
        }
        for (at, status) in decision.statuses {
            if writes() {
                Arc::make_mut(&mut self.case.subscriptions[at]).status = Some(status);
            }
        }
        let open = self.plans.iter().map(Plan::of).filter(|plan| plan.is_open() && !plan.is_empty);
        assert!(open.count() <= 1, "two plans wait for an approval");
        is_any
    }

    fn turn(&mut self, most: Option<usize>) {
        let _any = self.step(most);
    }

    /// APIs by what provides or requires them: what counts as installed, without what goes, and what is new.
    fn apis(&self, new: &NewPlan, property: &str) -> Vec<(String, Value)> {
        let gone: BTreeSet<&str> = new.bundles.iter().map(|(it, _)| it.replaces.as_str()).collect();
        let counting = installed::counting("ns", &self.case.csvs, false).unwrap();
        let stays = |it: &&&Arc<Csv>| !gone.contains(it.name.as_str()) && !new.csvs().any(|name| name == it.name);
        let mut all = Vec::new();
        for csv in counting.iter().filter(stays) {
            let properties = crate::olm::steps::properties(csv.properties.as_deref().unwrap_or_default()).unwrap();
            all.extend(properties.into_iter().map(|it| (csv.name.clone(), it)));
        }
        for (it, _) in &new.bundles {
            all.extend(it.properties.iter().map(|property| (it.name.clone(), property.clone())));
        }
        all.into_iter().filter(|(_, (kind, _))| kind == property).map(|(name, (_, value))| (name, value)).collect()
    }

    /// All that is new has what it requires, and nothing that is installed loses what it has.
    fn assert_has_what_it_needs(&mut self, new: &NewPlan) {
        let provided = |new: &NewPlan| self.apis(new, "olm.gvk").into_iter().map(|(_, api)| api).collect::<Vec<_>>();
        let nothing = NewPlan { bundles: Vec::new(), ..new.clone() };
        let (before, after) = (provided(&nothing), provided(new));
        for (name, api) in self.apis(new, "olm.gvk.required") {
            let is_new = new.csvs().any(|it| it == name);
            self.needed += usize::from(is_new);
            assert!(after.contains(&api) || !is_new && !before.contains(&api), "{name} lacks {api} after {new:?}");
        }
        for (at, (name, api)) in self.apis(new, "olm.gvk").iter().enumerate() {
            let mut others = self.apis(new, "olm.gvk").into_iter().enumerate();
            let twice = others.any(|(other, (of, it))| other != at && it == *api && of != *name);
            assert!(!twice, "{api} has two providers");
        }
    }

    /// Everybody does what is left, and approves. It comes to an end, after which nothing is written.
    fn come_to_rest(&mut self) {
        for _ in 0..TURNS {
            let mut is_any = self.step(None);
            for at in 0..self.plans.len() {
                if !self.plans[at].spec.approved && !Plan::of(&self.plans[at]).is_empty {
                    self.plans[at].spec.approved = true;
                    self.approved.insert(self.plans[at].metadata.uid.clone().unwrap());
                    is_any = true;
                }
                let before = self.plans[at].status.clone();
                self.carry_out(at as u8, true);
                is_any |= before != self.plans[at].status;
            }
            while self.case.csvs.iter().any(|csv| csv.phase == Phase::None) {
                self.run(0, true);
                is_any = true;
            }
            if !is_any {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.plans);
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(any::<Event>(), 1..40)
}

fn requirements() -> impl Strategy<Value = Requirements> {
    let one = prop::option::weighted(0.35, (0..PACKAGES.len() as u8, 1..3_u8));
    prop::collection::vec(one, PACKAGES.len() * usize::from(VERSIONS))
}

#[test]
fn no_required_api_is_missing_and_nothing_is_installed_without_an_approval() {
    let mut runner = TestRunner::deterministic();
    let (mut approved, mut automatic, mut needed) = (0, 0, 0);
    for _ in 0..cases(300) {
        let (requirements, events) = (requirements(), events()).new_tree(&mut runner).unwrap().current();
        // Shown if it fails.
        println!("{requirements:?} {events:?}");
        let mut world = World::new(requirements);
        for event in events {
            world.happen(event);
        }
        world.come_to_rest();
        approved += world.carried_out.intersection(&world.approved).count();
        automatic += world.carried_out.difference(&world.approved).count();
        needed += world.needed;
    }
    let all = cases(300) as usize;
    println!("carried out: {approved} approved, {automatic} automatic; {needed} APIs were needed");
    assert!(approved > all / 4 && automatic > all / 4 && needed > all / 4, "{approved} {automatic} {needed}");
}
