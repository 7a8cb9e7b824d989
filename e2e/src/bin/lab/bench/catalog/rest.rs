//! Several catalogs at rest, served by two replicas: what these ask the API server for and how much memory the first one holds while
//! nothing happens but polls of the registry that find nothing new.

use super::folder::{Folders, SMALLER};
use super::process::Olm;
use crate::bench::cluster::AUDIT_LAG;
use crate::bench::figures::Measured;
use crate::bench::machine;
use crate::bench::memory::most_resident;
use anyhow::Context;
use e2e::harness::audit::{self, Request};
use e2e::olm::USER;
use jiff::Timestamp;
use std::fs;
use std::time::Duration;

pub(super) const RATE: &str = "at rest, requests / s";
pub(super) const LEASE: &str = "at rest, lease requests / s";
pub(super) const RESIDENT: &str = "at rest, resident, MiB";
pub(super) const ASKED: &str = "at rest, registry requests / poll";
pub(super) const WRITTEN: &str = "at rest, status writes / poll";

/// How often the registry is asked.
const INTERVAL: &str = "1m30s";

pub(super) async fn measure(
    olm: &Olm,
    folders: &Folders,
    window: Duration,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let name = |number: usize| format!("catalog-{number}");
    for number in 0..SMALLER {
        let image = olm.push(&name(number), &folders.smaller(number)).await?;
        olm.create(&name(number), &image, INTERVAL).await?;
    }
    for number in 0..SMALLER {
        olm.until_served(&name(number)).await?;
    }
    olm.add_replica().await?;
    machine::quiet().await;
    let (begun, polls) = (Timestamp::now(), Polls::of(olm)?);
    let resident = most_resident(window, || olm.memory()).await?;
    let (ended, polled) = (Timestamp::now(), Polls::of(olm)?);
    tokio::time::sleep(AUDIT_LAG).await;
    let log = olm.cluster.audit_log();
    let requests = tokio::task::spawn_blocking(move || audit::requests(&log, USER)).await?;
    let requests = audit::within(&requests.context("cannot read the audit log")?, begun..ended);
    let (lease, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(|request| request.resource == "leases");
    let (written, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_of_a_poll);
    let seconds = ended.duration_since(begun).as_secs_f64();
    measured.add(RATE, others.len() as f64 / seconds);
    measured.add(LEASE, lease.len() as f64 / seconds);
    measured.add(RESIDENT, resident);
    let heads = (polled.heads - polls.heads) as f64;
    if heads > 0.0 {
        measured.add(ASKED, (polled.all - polls.all) as f64 / heads);
        measured.add(WRITTEN, written.len() as f64 / heads);
    } else {
        println!("note: no poll within {seconds:.0} s");
        measured.skip([ASKED, WRITTEN]);
    }
    measured.add("at rest, polls", heads);
    measured.add("at rest, seconds", seconds);
    measured.add_requests(&others);
    Ok(())
}

fn is_of_a_poll(request: &Request) -> bool {
    request.resource == "catalogsources" && request.subresource == "status" && request.is_write()
}

/// What the registry was asked for so far.
#[derive(Clone, Copy, Debug)]
struct Polls {
    heads: usize,
    all: usize,
}

impl Polls {
    /// By its log, which has a line for each request.
    fn of(olm: &Olm) -> anyhow::Result<Polls> {
        let log = fs::read_to_string(olm.cluster.log("registry"))?;
        let asked = |verb: &str| log.matches(&format!("\"{verb} /v2/")).count();
        let heads = asked("HEAD");
        Ok(Polls { heads, all: heads + asked("GET") })
    }
}
