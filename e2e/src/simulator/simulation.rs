//! The simulation of operators and, where no controllers run, of workloads: it watches, and writes their status.
//!
//! An operator reports the newest release that its Deployments carry, as soon as they are rolled out, unless a test
//! holds it back.

use super::daemon::said;
use super::objects::{Key, Refused, Write, key};
use super::releases::{Expectations, Release};
use super::status;
use super::watches::{self, Event};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Before a write that the API server refused is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Who gives workloads their status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workloads {
    /// kwok and the real controllers.
    Kwok,
    /// The simulation, which also creates what an installer and operators create: namespaces and cluster configuration.
    Simulated,
}

/// A report of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub operator: String,
    pub version: String,
    /// Just before it was sent with success: nothing that waits for it can have happened earlier.
    pub at: Timestamp,
}

#[derive(Debug, Default)]
struct Control {
    held: Mutex<BTreeSet<String>>,
    reports: Mutex<Vec<Report>>,
    released: Notify,
    /// What the API server will never accept.
    refusal: watch::Sender<Option<String>>,
}

/// Runs from `start` until it is dropped.
#[derive(Debug, Default)]
pub struct Simulation {
    control: Arc<Control>,
    task: Option<AbortOnDropHandle<()>>,
}

impl Simulation {
    /// Begins to watch. Each operator reports `delay` after its Deployments carry a release.
    pub fn start(
        &mut self,
        client: Client,
        releases: &[Release],
        workloads: Workloads,
        delay: Duration,
    ) -> anyhow::Result<()> {
        let mut state = State {
            client,
            expectations: Expectations::read(releases)?,
            workloads,
            delay,
            control: self.control.clone(),
            established: HashSet::new(),
            operators: BTreeMap::new(),
            carried: BTreeMap::new(),
            due: HashMap::new(),
            writes: JoinSet::new(),
        };
        if workloads == Workloads::Simulated {
            for namespace in state.expectations.namespaces.clone() {
                state.write(status::namespace(&namespace), Duration::ZERO);
            }
        }
        self.task = Some(AbortOnDropHandle::new(tokio::spawn(state.run())));
        Ok(())
    }

    /// From now on the operator does not report.
    pub fn hold(&self, operator: &str) {
        lock(&self.control.held).insert(operator.to_owned());
    }

    /// The operator reports again, at once.
    pub fn release(&self, operator: &str) {
        lock(&self.control.held).remove(operator);
        self.control.released.notify_one();
    }

    /// Returns once the API server has refused a status for good, and says why.
    pub async fn refused(&self) -> String {
        said(self.control.refusal.subscribe()).await
    }

    /// All reports so far, in order.
    pub fn reports(&self) -> Vec<Report> {
        lock(&self.control.reports).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct State {
    client: Client,
    expectations: Expectations,
    workloads: Workloads,
    delay: Duration,
    control: Arc<Control>,
    /// Names of established CustomResourceDefinitions.
    established: HashSet<String>,
    operators: BTreeMap<String, Value>,
    /// Which releases each Deployment carries.
    carried: BTreeMap<Key, BTreeSet<usize>>,
    /// By ClusterOperator: the version that it will report, and when.
    due: HashMap<String, (String, Instant)>,
    writes: JoinSet<Result<(), (Refused, Write)>>,
}

impl State {
    async fn run(mut self) {
        let mut events = SelectAll::new();
        let kinds = [("apps", "Deployment"), ("apps", "DaemonSet"), ("batch", "Job")];
        for (group, kind) in kinds.into_iter().chain([("apiextensions.k8s.io", "CustomResourceDefinition")]) {
            events.push(watches::watch(&self.client, group, kind));
        }
        loop {
            let next = self.due.values().map(|(_, due)| *due).min();
            tokio::select! {
                Some(event) = events.next() => self.on_event(event, &mut events),
                () = self.control.released.notified() => self.schedule(self.expectations.operators(None)),
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => self.report(),
                Some(written) = self.writes.join_next() => {
                    match written {
                        Ok(Err((refused, _))) if refused.is_final => {
                            self.control.refusal.send_replace(Some(refused.cause));
                        }
                        Ok(Err((refused, write))) => {
                            eprintln!("will be tried again: {}", refused.cause);
                            self.write(write, RETRY);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    fn on_event(&mut self, event: Event, events: &mut SelectAll<BoxStream<'static, Event>>) {
        match event {
            Event::Established(definition) => {
                if !self.established.insert(definition.clone()) {
                    return;
                }
                if definition == "clusteroperators.config.openshift.io" {
                    events.push(watches::watch(&self.client, "config.openshift.io", "ClusterOperator"));
                }
                if self.workloads == Workloads::Simulated
                    && let Some(write) = status::cluster_config(&definition, &self.expectations.versions())
                {
                    self.write(write, Duration::ZERO);
                }
            }
            Event::Workload(object) => self.on_workload(&object),
            Event::Operator(name, object) => {
                match object {
                    Some(object) => self.operators.insert(name.clone(), object),
                    None => self.operators.remove(&name),
                };
                self.schedule(vec![name]);
            }
        }
    }

    fn on_workload(&mut self, object: &Value) {
        let simulated = self.workloads == Workloads::Simulated;
        if simulated && let Some(write) = status::workload_status(object) {
            self.write(write, Duration::ZERO);
        }
        let key = key(object);
        // A simulated rollout is complete as soon as it begins.
        let complete = simulated || status::rolled_out("Deployment", object);
        let carried = if complete { self.expectations.carried(&key, object) } else { BTreeSet::new() };
        let operators = self.expectations.operators(Some(&key));
        if self.carried.insert(key, carried.clone()) != Some(carried) {
            self.schedule(operators);
        }
    }

    /// The version that the operator has to report and does not report yet, and the `status.versions` for it.
    fn to_report(&self, operator: &str) -> Option<(String, Value)> {
        let live = self.operators.get(operator).filter(|_| !lock(&self.control.held).contains(operator))?;
        let (version, versions) = self.expectations.reached(operator, &self.carried)?;
        (!status::reports(live, versions)).then(|| (version.to_owned(), versions.clone()))
    }

    /// Notes when operators will report what their Deployments carry, unless they report it already.
    fn schedule(&mut self, operators: Vec<String>) {
        for operator in operators {
            let Some((version, _)) = self.to_report(&operator) else {
                self.due.remove(&operator);
                continue;
            };
            let due = Instant::now() + self.delay;
            match self.due.get(&operator) {
                Some((noted, _)) if *noted == version => {}
                _ => _ = self.due.insert(operator, (version, due)),
            }
        }
    }

    /// Writes all reports that are due.
    fn report(&mut self) {
        let now = Instant::now();
        let due: Vec<String> =
            self.due.iter().filter(|(_, (_, due))| *due <= now).map(|(operator, _)| operator.clone()).collect();
        for operator in due {
            self.due.remove(&operator);
            let Some((version, versions)) = self.to_report(&operator) else { continue };
            let mut write = status::operator_status(&operator, &versions, Timestamp::now());
            write.reports = Some((operator, version));
            self.write(write, Duration::ZERO);
        }
    }

    fn write(&mut self, write: Write, after: Duration) {
        let (client, control) = (self.client.clone(), self.control.clone());
        self.writes.spawn(async move {
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            let at = Timestamp::now();
            if let Err(refused) = write.send(&client).await {
                return Err((refused, write));
            }
            if let Some((operator, version)) = write.reports {
                lock(&control.reports).push(Report { operator, version, at });
            }
            Ok(())
        });
    }
}
