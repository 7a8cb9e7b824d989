//! What becomes of each package and each bundle of real catalogs.

use anyhow::{Context, ensure};
use clap::Args;
use cvo::testing::resolution::Namespace;
use cvo::testing::walks::End;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Instant;

#[derive(Args, Debug)]
pub(crate) struct WalkArgs {
    /// Folders of catalogs, all of which are seen.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Print what holds those that do not come to the head of their channel.
    #[arg(long)]
    details: bool,
    /// Print each bundle with those that follow it, a line each, to compare with what others choose.
    #[arg(long)]
    paths: bool,
}

pub(super) fn walk(args: &WalkArgs) -> anyhow::Result<()> {
    let temporary = std::env::temp_dir().join(format!("cvo-walk-{}", process::id()));
    let walked = walked(args, &temporary);
    let _gone = fs::remove_dir_all(&temporary);
    walked
}

fn walked(args: &WalkArgs, temporary: &Path) -> anyhow::Result<()> {
    let mut namespace = Namespace::default();
    for (number, dir) in args.dirs.iter().enumerate() {
        let data = temporary.join(number.to_string());
        fs::create_dir_all(&data).with_context(|| data.display().to_string())?;
        namespace.offer(&number.to_string(), dir, &data).map_err(anyhow::Error::msg)?;
    }
    for (number, dir) in args.dirs.iter().enumerate() {
        println!("{}", dir.display());
        packages(args, &namespace, &number.to_string());
        bundles(args, &namespace, &number.to_string())?;
    }
    Ok(())
}

/// Subscribes to each package in a namespace with nothing in it.
fn packages(args: &WalkArgs, namespace: &Namespace, catalog: &str) {
    let (mut installed, mut refused) = (0, 0);
    let (mut seconds, mut most) = (0.0, 0.0_f64);
    for (package, _) in namespace.packages(catalog) {
        let mut namespace = namespace.clone();
        namespace.subscribe(catalog, &package, "");
        let begun = Instant::now();
        let verdict = namespace.answer();
        let took = begun.elapsed().as_secs_f64();
        (seconds, most) = (seconds + took, most.max(took));
        if verdict.failures.is_empty() && verdict.held.is_none() && verdict.gave_up == 0 {
            installed += 1;
            continue;
        }
        refused += 1;
        if args.details {
            println!("  {package}: refused\n{}", indented(&verdict.failures.join("\n")));
        }
    }
    println!("  {installed} packages are installed, {refused} refused, {seconds:.3} s in all, {most:.4} s at most");
}

/// Installs each bundle and follows its channel.
fn bundles(args: &WalkArgs, namespace: &Namespace, catalog: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    let walks = namespace.walks(catalog);
    let seconds = begun.elapsed().as_secs_f64();
    let (mut head, mut no_way, mut stuck, mut refused, mut steps) = (0, 0, 0, 0, 0);
    for walk in &walks {
        steps += walk.path.len().saturating_sub(1);
        let (count, word, why) = match &walk.end {
            End::Head => (&mut head, "", ""),
            End::NoWay => (&mut no_way, "nothing leads on", ""),
            End::Stuck(why) => (&mut stuck, "stuck", why.as_str()),
            End::Refused(why) => (&mut refused, "refused", why.as_str()),
        };
        *count += 1;
        if args.paths {
            println!("walk {} {} {}", walk.package, walk.channel, walk.path.join(" "));
        }
        if args.details && !word.is_empty() {
            println!("  {} {} {}: {word}\n{}", walk.package, walk.channel, walk.path.join(" → "), indented(why));
        }
    }
    println!(
        "  {} bundles in channels: {head} come to the head, from {no_way} nothing leads on, {stuck} are stuck, {refused} are refused; \
         {steps} steps in {seconds:.3} s",
        walks.len()
    );
    let wrong = namespace.wrong_steps(catalog, &walks);
    ensure!(wrong.is_empty(), "steps that no entry of a channel allows:\n{}", wrong.join("\n"));
    Ok(())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
