//! Questions that a process answers which does nothing else.

use crate::bench::figures::Measured;
use crate::catalog::{BUNDLES, Format, PACKAGES, Resolved, WriteArgs, hostile, write};
use anyhow::ensure;
use e2e::harness::{process, programs};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tokio::process::Command;

pub(super) const P50: &str = "20 Subscriptions, p50, seconds";
pub(super) const P99: &str = "20 Subscriptions, p99, seconds";
pub(super) const ABOVE: &str = "20 Subscriptions, MiB above the index";
pub(super) const NO_ANSWER: &str = "no answer, p99, seconds";
pub(super) const PIGEONS: &str = "12 pigeons, seconds";
pub(super) const RIVALS: &str = "300 rivals, seconds";
pub(super) const RULES: &str = "500 rules in CEL, seconds";
pub(super) const HOSTILE_MEMORY: &str = "hostile, MiB above the index, most";

/// Subscriptions, half of which depend on something.
const SUBSCRIPTIONS: &str = "20";
/// What names of packages begin with that cannot be installed.
const UNMET: &str = "unmet-";
/// How often the question is asked.
const TIMES: &str = "200";

/// Catalogs in folders, removed with this.
pub(super) struct Worlds(PathBuf);

impl Drop for Worlds {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

impl Worlds {
    pub(super) fn write() -> anyhow::Result<Worlds> {
        let worlds = Worlds(std::env::temp_dir().join(format!("cvo-bench-worlds-{}", std::process::id())));
        let (packages, bundles) = (PACKAGES, BUNDLES);
        let large =
            WriteArgs { packages, bundles, seed: 1, format: Format::Json, one_file: false, out: worlds.large() };
        println!("{}", write(&large)?);
        worlds.add("needed", &needed())?;
        worlds.add("unmet", &unmet())?;
        worlds.add("pigeons", &hostile::pigeonhole(12))?;
        worlds.add("rivals", &hostile::rivals(300))?;
        worlds.add("rules", &hostile::rules(500))?;
        rustix::fs::sync();
        Ok(worlds)
    }

    /// 600 packages.
    pub(super) fn large(&self) -> PathBuf {
        self.0.join("large")
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn add(&self, name: &str, blobs: &[Value]) -> anyhow::Result<()> {
        fs::create_dir_all(self.folder(name))?;
        fs::write(self.folder(name).join("catalog.json"), text(blobs))?;
        Ok(())
    }

    pub(super) async fn measure(&self, measured: &mut Measured) -> anyhow::Result<()> {
        let both = [self.large(), self.folder("needed")];
        let found = resolve(&both, &["--subscriptions", SUBSCRIPTIONS, "--times", TIMES]).await?;
        ensure!(found.installs > 20 && found.failures == 0, "another answer than expected: {found:?}");
        measured.add(P50, found.p50);
        measured.add(P99, found.p99);
        measured.add(ABOVE, found.above_kib as f64 / 1024.0);
        let unmet = [self.folder("unmet"), self.large()];
        let found = resolve(&unmet, &["--prefix", UNMET, "--times", "50"]).await?;
        ensure!(found.failures > 0 && found.explained > 0, "there is an answer: {found:?}");
        measured.add(NO_ANSWER, found.p99);
        measured.add("no answer, bytes of the explanation", found.explained as f64);
        let mut most: f64 = 0.0;
        for (figure, folder, whose, answers) in [
            (PIGEONS, "pigeons", ["--prefix", hostile::PIGEON], false),
            (RIVALS, "rivals", ["--package", hostile::WANTED], false),
            (RULES, "rules", ["--package", hostile::WANTED], true),
        ] {
            let found = resolve(&[self.folder(folder)], &whose).await?;
            let ended = if answers { found.installs > 0 } else { found.failures + found.gave_up > 0 };
            ensure!(ended, "{figure}: another answer than expected: {found:?}");
            measured.add(figure, found.p99);
            if found.gave_up > 0 {
                println!("{figure}: gave up");
            }
            most = most.max(found.above_kib as f64 / 1024.0);
        }
        measured.add(HOSTILE_MEMORY, most);
        Ok(())
    }
}

/// A catalog as its file has it.
pub(super) fn text(blobs: &[Value]) -> String {
    blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// What bundles of the large catalog depend on.
fn needed() -> Vec<Value> {
    let (package, name) = ("cert-manager", "cert-manager.v1.5.0");
    let api = json!({"type": "olm.gvk", "value": {"group": "cert-manager.io", "version": "v1", "kind": "Certificate"}});
    let identity = json!({"type": "olm.package", "value": {"packageName": package, "version": "1.5.0"}});
    vec![
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": name}]}),
        json!({"schema": "olm.bundle", "package": package, "name": name, "image": "registry.invalid/needed:1",
            "properties": [identity, api]}),
    ]
}

/// 20 packages with 25 versions each. All versions need what the next package provides, and those of the last one what nobody does.
fn unmet() -> Vec<Value> {
    let api = |number: usize| json!({"group": "unmet.example.com", "version": "v1", "kind": format!("Kind{number}")});
    let mut blobs = Vec::new();
    for number in 0..20_usize {
        let package = format!("{UNMET}{number:02}");
        let name = |version: usize| format!("{package}.v1.{version}.0");
        let entries: Vec<Value> = (0..25)
            .map(|version| match version {
                0 => json!({"name": name(0)}),
                _ => json!({"name": name(version), "replaces": name(version - 1)}),
            })
            .collect();
        blobs.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        blobs.push(json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}));
        blobs.extend((0..25).map(|version| {
            let properties = json!([
                {"type": "olm.package", "value": {"packageName": package, "version": format!("1.{version}.0")}},
                {"type": "olm.gvk", "value": api(number)},
                {"type": "olm.gvk.required", "value": api(number + 1)},
            ]);
            json!({"schema": "olm.bundle", "package": package, "name": name(version), "image": "registry.invalid/unmet:1",
                "properties": properties})
        }));
    }
    blobs
}

async fn resolve(folders: &[PathBuf], arguments: &[&str]) -> anyhow::Result<Resolved> {
    let mut command = Command::new(programs::lab()?);
    command.args(["catalog", "resolve", "--json"]).args(arguments);
    command.args(folders.iter().map(PathBuf::as_path).map(Path::as_os_str)).kill_on_drop(true);
    Ok(serde_json::from_str(&process::output("lab catalog resolve", command).await?)?)
}
