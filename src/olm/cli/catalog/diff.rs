//! `cvo catalog diff`: what another content of a catalog changes, and for whom.

use super::{DiffArgs, Output, show};
use crate::cli::exit::Exit;
use crate::cli::layout::{self, Colour, Page, clean};
use crate::cli::output::{print, remark};
use crate::cli::reach;
use crate::cluster::{Clients, Kind, Objects};
use crate::olm::affected::{Affected, Effect, affected};
use crate::olm::api::GROUP;
use crate::olm::api::subscription::Subscription;
use crate::olm::catalog::diff::{Change, Difference, diff};
use crate::olm::cli::input;
use anyhow::Context;
use serde_json::json;
use std::collections::BTreeMap;

pub(super) async fn run(args: &DiffArgs) -> anyhow::Result<Exit> {
    let source = args.catalog_source.as_deref();
    let source = source.map(|it| it.split_once('/').context("--catalog-source must be NAMESPACE/NAME")).transpose()?;
    let old = input::catalog(&args.old, &args.source).await?;
    let new = input::catalog(&args.new, &args.source).await?;
    let (before, after) = (super::read(&old.folder)?, super::read(&new.folder)?);
    for (catalog, given) in [(&before, &args.old), (&after, &args.new)] {
        show::remark_of_sick(catalog, given).into_iter().for_each(|text| remark(&text));
    }
    let found = diff(&before.index, &after.index);
    let subscriptions = if args.cluster { Some(subscriptions(args).await?) } else { None };
    let affected = subscriptions.map(|all| affected(&before.index, &after.index, &all, source));
    match args.output {
        Output::Json => {
            print(&format!("{:#}\n", json!({"schema": 1, "differences": found, "affected": affected})))?;
        }
        Output::Text => print(&text(&found, affected.as_deref(), &layout::page()))?,
    }
    let loses = match &affected {
        Some(affected) => affected.iter().any(|it| it.effect.is_loss()),
        None => found.iter().any(|it| it.change.is_loss()),
    };
    Ok(if loses { Exit::Found } else { Exit::Success })
}

async fn subscriptions(args: &DiffArgs) -> anyhow::Result<Vec<Subscription>> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let kind = Kind::known(GROUP, "v1alpha1", "Subscription", "subscriptions", true);
    let all = Objects::reader(clients.call.clone()).all(&kind).await;
    let all = all.map_err(|error| reach::explain(&clients.server(), error))?;
    // One that another program wrote with another type in it is nobody who could be told.
    Ok(all.into_iter().filter_map(|it| serde_json::from_value(it).ok()).collect())
}

fn text(found: &[Difference<'_>], affected: Option<&[Affected]>, page: &Page) -> String {
    let mut out = String::new();
    let mut by_package: BTreeMap<&str, Vec<&Change<'_>>> = BTreeMap::new();
    for Difference { package, change } in found {
        by_package.entry(package).or_default().push(change);
    }
    for (package, changes) in by_package {
        layout::line(page, &mut out, &clean(package), Colour::Strong);
        for change in changes {
            let colour = if change.is_loss() { Colour::Bad } else { Colour::Plain };
            layout::paragraph(page, &mut out, "  ", &told(change), colour);
        }
    }
    if found.is_empty() {
        out.push_str("the catalogs offer the same\n");
    }
    if let Some(affected) = affected {
        out.push('\n');
        for it in affected {
            let colour = if it.effect.is_loss() { Colour::Bad } else { Colour::Plain };
            let installed = if it.installed.is_empty() { "nothing" } else { &it.installed };
            let text = format!("subscription {}: has {installed} of {}; {}", it.subscription, it.package, effect(it));
            layout::paragraph(page, &mut out, "", &text, colour);
        }
        if affected.is_empty() {
            out.push_str("no Subscription is affected\n");
        }
    }
    out
}

fn told(change: &Change<'_>) -> String {
    match change {
        Change::PackageGone => "the package is gone".to_owned(),
        Change::PackageAdded => "the package is new".to_owned(),
        Change::DefaultChannel { from, to } => format!("the default channel is {to}, and was {from}"),
        Change::ChannelGone { channel } => format!("channel {channel}: gone"),
        Change::ChannelAdded { channel, head } => format!("channel {channel}: new, with the head {head}"),
        Change::HeadMoved { channel, from, to } => format!("channel {channel}: the head is {to}, and was {from}"),
        Change::NoWay { channel, bundle } => format!("channel {channel}: nothing follows {bundle} any more"),
        Change::BundleGone { bundle } => format!("bundle {bundle}: gone"),
        Change::BundleAdded { bundle } => format!("bundle {bundle}: new"),
        Change::ImageChanged { bundle, from, to } => format!("bundle {bundle}: its image is {to}, and was {from}"),
        Change::Deprecated { what, message } => format!("{what}: deprecated: {message}"),
    }
}

fn effect(it: &Affected) -> String {
    let channel = if it.channel.is_empty() { "the default channel" } else { &it.channel };
    match &it.effect {
        Effect::PackageGone => "the package is gone, and it will not be updated any more".to_owned(),
        Effect::ChannelGone => {
            format!("its channel {channel} is gone, and it will not be updated any more: name another one")
        }
        Effect::NoWay => format!("nothing in {channel} follows that, and it will not be updated any more"),
        Effect::Update { to, manual: false } => format!("it will be updated to {to}"),
        Effect::Update { to, manual: true } => format!("it can be updated to {to} when somebody approves"),
        Effect::Install { to } => format!("it will install {to}"),
        Effect::NoUpdate { before } => format!("there was the update {before}, and there is none any more"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{catalog, exit};
    use super::*;
    use crate::olm::catalog::diff::tests::index;

    #[test]
    fn exit_code_says_whether_somebody_loses() {
        let (old, new) = (catalog(), catalog());
        let file = new.path().join("all.json");
        let path = new.path().to_str().unwrap();
        assert_eq!(exit(old.path(), &["diff", path]).unwrap(), Exit::Success);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("stable", "fast")).unwrap();
        for output in ["text", "json"] {
            assert_eq!(exit(old.path(), &["diff", path, "-o", output]).unwrap(), Exit::Found);
        }
        assert!(exit(old.path(), &["diff", "nowhere"]).is_err());
    }

    #[test]
    fn changes_are_told_by_package_and_then_who_is_affected() {
        let (old, new) = (index(&["a: s = a.v1 a.v2<a.v1"]), index(&["a: s = a.v2 a.v3<a.v2"]));
        let found = diff(&old, &new);
        let of = |installed: &str, effect: Effect| Affected {
            subscription: "n/x".to_owned(),
            package: "a".to_owned(),
            channel: "s".to_owned(),
            installed: installed.to_owned(),
            effect,
        };
        let affected = [of("a.v2", Effect::Update { to: "a.v3".to_owned(), manual: true }), of("a.v1", Effect::NoWay)];
        let page = Page { width: usize::MAX, colours: false, now: jiff::Timestamp::UNIX_EPOCH };
        let expected = "a\n  channel s: the head is a.v3, and was a.v2\n  channel s: nothing follows a.v1 any more\n  \
            bundle a.v1: gone\n  bundle a.v3: new\n\nsubscription n/x: has a.v2 of a; it can be updated to a.v3 when somebody \
            approves\nsubscription n/x: has a.v1 of a; nothing in s follows that, and it will not be updated any more\n";
        assert_eq!(super::text(&found, Some(&affected), &page), expected);
        assert_eq!(super::text(&[], Some(&[]), &page), "the catalogs offer the same\n\nno Subscription is affected\n");
    }
}
