//! A catalog as large as the largest known one: `cargo test --profile fast -- --ignored --nocapture large_catalog`.

use super::*;
use futures::StreamExt;
use std::time::Instant;

/// 600 packages and 15,000 bundles, each in two or three channels, with seven APIs.
fn large() -> Content {
    let mut blobs = Vec::new();
    for number in 0..600 {
        let name = format!("package-{number}");
        blobs.push(package(&name, "stable"));
        let bundle_name = |at: usize| format!("{name}.v1.{at}.0");
        for (channel_name, first) in [("stable", 0), ("candidate", 0), ("fast", 15)] {
            let entry = |at: usize| match at.checked_sub(1).filter(|before| *before >= first) {
                Some(before) => {
                    json!({"name": bundle_name(at), "replaces": bundle_name(before), "skipRange": "<1.0.0"})
                }
                None => json!({"name": bundle_name(at)}),
            };
            blobs.push(channel(&name, channel_name, (first..25).map(entry).collect::<Value>()));
        }
        for at in 0..25 {
            let api = |kind: usize| {
                json!({"type": "olm.gvk", "value": {
                "group": format!("{name}.operators.example.com"), "kind": format!("Widget{kind}"), "version": "v1alpha1"}})
            };
            let more: Vec<Value> = (0..7).map(api).collect();
            blobs.push(bundle(&name, &bundle_name(at), &format!("1.{at}.0"), true, &more));
        }
    }
    content(&blobs)
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a while without optimisation"]
async fn large_catalog_is_listed_by_four_clients_at_once() {
    let running = start_with(Limits::default(), catalogs(vec![("one", "large", large())])).await;
    let before = resident();
    let list = async |number: usize| {
        let client = client_of(running.address, "large.one.svc").await;
        let (start, mut bytes, mut count) = (Instant::now(), 0, 0);
        let mut bundles = Box::pin(client.bundles());
        while let Some(bundle) = bundles.next().await {
            bytes += prost::Message::encoded_len(&bundle.unwrap());
            count += 1;
        }
        println!(
            "client {number}: {count} bundles, {bytes} bytes in {:?}, {} KiB more",
            start.elapsed(),
            resident() - before
        );
        count
    };
    let counts = tokio::join!(list(1), list(2), list(3), list(4));
    assert_eq!(counts, (36_000, 36_000, 36_000, 36_000));
}
