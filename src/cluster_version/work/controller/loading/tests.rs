use super::*;
use crate::cluster_version::api::HistoryState;
use crate::release::Payload;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

#[test]
fn payloads_of_releases_that_were_replaced_before_they_were_applied_are_forgotten() {
    let image = |number: usize| format!("registry/release@sha256:{number:064}");
    let entry = |number| HistoryEntry {
        state: HistoryState::Completed,
        started_time: Time(Timestamp::UNIX_EPOCH),
        completion_time: None,
        version: String::new(),
        image: image(number),
        verified: true,
        accepted_risks: String::new(),
    };
    let history = [entry(7), entry(6), entry(5)];
    let mut payloads: BTreeMap<String, String> = (0..50).map(|n| (folder(&image(n)), n.to_string())).collect();
    retain_needed(&mut payloads, [&image(7), &image(49)], &history);
    let mut kept: Vec<&str> = payloads.values().map(String::as_str).collect();
    kept.sort_unstable();
    assert_eq!(kept, ["49", "6", "7"], "what runs, what is asked for, and what ran before");
}

/// A release that nothing speaks against and whose preflight has passed.
fn ready() -> Load {
    let payload = Payload {
        release: Release::default(),
        built: None,
        major: 1,
        images: BTreeMap::new(),
        versions: BTreeMap::new(),
        manifests: Vec::new(),
        excluded: Vec::new(),
        hash: String::new(),
        warnings: Vec::new(),
    };
    let tree = (String::new(), String::new());
    let loaded = Loaded { payload: Arc::new(payload), verified: true, accepted_risks: String::new(), tree };
    let (sender, steps) = watch::channel(LoadStatus::started(Release::default()));
    Load {
        target: Target::default(),
        accepted_by: retry::Terms::default(),
        begun_with: None,
        status: LoadStatus::started(Release::default()),
        loaded: Some(loaded),
        findings: Vec::new(),
        hindrances: Vec::new(),
        placement: None,
        loaded_at: Instant::now(),
        preflight: Preflight::Passed,
        task: None,
        steps,
        sender,
        cancel: CancellationToken::new(),
    }
}

#[test]
fn release_that_is_blocked_after_its_preflight_has_another_one_before_it_starts() {
    let finding = |blocks| Finding {
        precondition: "ClusterVersionUpgradeable",
        reason: "PoolBusy".to_owned(),
        message: "a pool updates".to_owned(),
        blocks,
        impossible: false,
    };
    let mut load = ready();
    load.judge(vec![finding(false)]);
    assert_eq!(load.stage(), Stage::Ready, "it is only recorded");
    load.judge(vec![finding(true)]);
    assert_eq!(load.stage(), Stage::Blocked);
    load.judge(Vec::new());
    assert_eq!(load.stage(), Stage::Admitted, "what was found before is of any time");
}
