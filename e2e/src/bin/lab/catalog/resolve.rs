//! Measures how long it takes to find what is to be installed.

use super::mebibytes;
use anyhow::{Context, ensure};
use clap::Args;
use cvo::testing::resolution::{Namespace, Verdict};
use e2e::harness::process::memory as memory_of;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::process;
use std::time::Instant;

/// Of the packages that `lab catalog write` writes.
const DEFAULT_CHANNEL: &str = "stable";

#[derive(Args, Debug)]
pub(crate) struct ResolveArgs {
    /// Folders of catalogs.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Subscribe to so many packages of the first catalog, half of which depend on something.
    #[arg(long, default_value_t = 0, value_name = "N")]
    subscriptions: usize,
    /// Subscribe to this package of the first catalog.
    #[arg(long, value_name = "PACKAGE")]
    package: Vec<String>,
    /// Subscribe to all packages of the first catalog whose names begin so.
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// How often the answer is looked for.
    #[arg(long, default_value_t = 1, value_name = "N")]
    times: usize,
    /// Print figures for programs.
    #[arg(long, hide = true)]
    json: bool,
}

/// What looking for an answer costs a process that has read the catalogs.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Resolved {
    pub p50: f64,
    pub p99: f64,
    /// Memory at the peak beyond what the catalogs take.
    pub above_kib: u64,
    pub installs: usize,
    pub failures: usize,
    pub gave_up: usize,
    /// Bytes of the longest explanation.
    pub explained: usize,
}

pub(super) fn resolve(args: &ResolveArgs) -> anyhow::Result<()> {
    let temporary = std::env::temp_dir().join(format!("cvo-resolve-{}", process::id()));
    let resolved = measured(args, &temporary);
    let _gone = fs::remove_dir_all(&temporary);
    let (resolved, last) = resolved?;
    if args.json {
        println!("{}", serde_json::to_string(&resolved)?);
        return Ok(());
    }
    let Resolved { p50, p99, above_kib, .. } = resolved;
    for failure in &last.failures {
        println!("{failure}");
    }
    println!("{}", last.installs.join(" "));
    println!(
        "{} to be installed, {} parts without an answer, {} given up; p50 {p50:.4} s, p99 {p99:.4} s, {} above the index",
        resolved.installs,
        resolved.failures,
        resolved.gave_up,
        mebibytes(above_kib)
    );
    Ok(())
}

fn measured(args: &ResolveArgs, temporary: &std::path::Path) -> anyhow::Result<(Resolved, Verdict)> {
    let mut namespace = Namespace::default();
    for (number, dir) in args.dirs.iter().enumerate() {
        let data = temporary.join(number.to_string());
        fs::create_dir_all(&data).with_context(|| data.display().to_string())?;
        namespace.offer(&number.to_string(), dir, &data).map_err(anyhow::Error::msg)?;
    }
    for (package, channel) in chosen(args, &namespace)? {
        namespace.subscribe("0", &package, channel);
    }
    let own = i32::try_from(process::id())?;
    // What is the most from now on is the peak.
    fs::write("/proc/self/clear_refs", "5")?;
    let before = memory_of(own).1.context("the kernel does not say how much memory this process has")?;
    let (mut seconds, mut last) = (Vec::new(), None);
    for _ in 0..args.times.max(1) {
        let begun = Instant::now();
        let verdict = namespace.answer();
        seconds.push(begun.elapsed().as_secs_f64());
        ensure!(verdict.held.is_none(), "no answer is looked for: {}", verdict.held.unwrap_or_default());
        ensure!(last.as_ref().is_none_or(|last| *last == verdict), "the same question has two answers");
        last = Some(verdict);
    }
    let peak = memory_of(own).0.context("the kernel does not say how much memory this process has")?;
    seconds.sort_by(f64::total_cmp);
    let at = |share: usize| seconds.get((seconds.len() * share).div_ceil(100).saturating_sub(1)).copied();
    let last = last.context("no answer")?;
    let resolved = Resolved {
        p50: at(50).unwrap_or_default(),
        p99: at(99).unwrap_or_default(),
        above_kib: peak.saturating_sub(before),
        installs: last.installs.len(),
        failures: last.failures.len(),
        gave_up: last.gave_up,
        explained: last.failures.iter().map(String::len).max().unwrap_or_default(),
    };
    Ok((resolved, last))
}

/// Packages and channels.
fn chosen(args: &ResolveArgs, namespace: &Namespace) -> anyhow::Result<Vec<(String, &'static str)>> {
    let all = namespace.packages("0");
    let mut chosen: Vec<(String, &str)> = args.package.iter().map(|name| (name.clone(), "")).collect();
    if let Some(prefix) = &args.prefix {
        chosen.extend(all.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(name, _)| (name.clone(), "")));
    }
    let half = args.subscriptions / 2;
    for (depends, number) in [(true, half), (false, args.subscriptions - half)] {
        // Other channels may have heads that depend on nothing.
        let these = all.iter().filter(|it| it.1 == depends).map(|it| (it.0.clone(), DEFAULT_CHANNEL)).take(number);
        let these: Vec<(String, &str)> = these.collect();
        ensure!(these.len() == number, "only {} packages of the catalog have depends={depends}", these.len());
        chosen.extend(these);
    }
    ensure!(!chosen.is_empty(), "nothing is subscribed to: give --subscriptions, --package or --prefix");
    Ok(chosen)
}
