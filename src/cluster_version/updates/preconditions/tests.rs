//! Each precondition as a table.

use super::*;
use crate::diagnosis::trouble;
use crate::release::api::ConditionalUpdateRisk;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

fn release(version: &str) -> Release {
    Release { version: version.into(), image: image(version), ..Release::default() }
}

fn image(version: &str) -> String {
    format!("quay.io/release@sha256:{version}")
}

fn entry(state: HistoryState, version: &str) -> HistoryEntry {
    HistoryEntry {
        state,
        started_time: Time(Timestamp::UNIX_EPOCH),
        completion_time: None,
        version: version.into(),
        image: image(version),
        verified: false,
        accepted_risks: String::new(),
    }
}

/// A history newest first; `+` before a version that completed. The newest one is desired.
fn status(history: &[&str]) -> ClusterVersionStatus {
    let entry = |text: &&str| match text.strip_prefix('+') {
        Some(version) => entry(HistoryState::Completed, version),
        None => entry(HistoryState::Partial, text),
    };
    let history: Vec<HistoryEntry> = history.iter().map(entry).collect();
    let desired = history.first().map(|newest| release(&newest.version)).unwrap_or_default();
    ClusterVersionStatus { history, desired, ..ClusterVersionStatus::default() }
}

/// Findings by all but the update service: `!` before the reasons that block.
fn findings(status: &ClusterVersionStatus, target: &str, risks: Option<&[Risk]>, unmanaged: bool) -> Vec<String> {
    let (target, overrides) = (release(target), [ComponentOverride { unmanaged, ..ComponentOverride::default() }]);
    let available = [target.clone()];
    let advice = Advice { available: &available, conditional: &[], current: true };
    let situation = Situation {
        target: &target,
        status,
        overrides: &overrides,
        own_unmanaged: false,
        unplaced: &Read::Absent,
        channel: "fast",
        risks,
        advice,
    };
    let mark = |finding: Finding| format!("{}{}", if finding.blocks { "!" } else { "" }, finding.reason);
    check(&situation).into_iter().map(mark).collect()
}

#[test]
fn only_way_back_is_the_release_before_within_the_minor_version() {
    for (history, target, expected) in [
        (&["+4.2.3"][..], "4.2.3", ""),
        (&["+4.2.3"], "4.2.4", ""),
        (&["+4.2.3"], "4.2.2", "!LowDesiredVersion"),
        (&["+4.2.3", "+4.2.2"], "4.2.2", ""),
        (&["4.2.3", "+4.2.2"], "4.2.2", ""),
        (&["+4.2.3", "+4.2.1"], "4.2.2", "!LowDesiredVersion"),
        (&["+4.2.3", "+4.1.9"], "4.1.9", "!LowDesiredVersion"),
        (&["+5.0.0", "+4.9.9"], "4.9.9", "!LowDesiredVersion"),
        (&["+4.2.3", "4.2.2", "+4.2.1"], "4.2.1", ""),
        (&["+4.2.3", "4.2.2", "4.2.0", "+4.2.1"], "4.2.0", "!LowDesiredVersion"),
        (&["+4.2.3", "+4.2.2", "+4.2.1"], "4.2.1", "!LowDesiredVersion"),
        (&["+4.2.0", "+4.2.0-rc.1"], "4.2.0-rc.1", ""),
    ] {
        assert_eq!(findings(&status(history), target, Some(&[]), false).join(" "), expected, "{history:?} to {target}");
    }
}

#[test]
fn one_minor_version_at_a_time_and_from_4_to_5_0() {
    for (current, target, expected) in [
        ("4.1.0", "4.2.0", ""),
        ("4.1.0", "4.3.0", "!MultipleMinorVersionsUpdate"),
        ("4.1.0", "5.0.3", ""),
        ("4.1.0", "5.1.0", "!MajorVersionUpdate"),
        ("5.1.0", "6.0.0", "!MajorVersionUpdate"),
        ("1.0.0", "2.0.0", "!MajorVersionUpdate"),
        ("5.0.0", "5.2.0", "!MultipleMinorVersionsUpdate"),
        ("4.1.0-0.ci.test", "4.1.0-rc.1", ""),
    ] {
        let history = format!("+{current}");
        assert_eq!(
            findings(&status(&[&history]), target, Some(&[]), false).join(" "),
            expected,
            "{current} to {target}"
        );
    }
}

#[test]
fn version_that_cannot_be_compared() {
    assert_eq!(findings(&status(&["+4.1.0"]), "nonsense", Some(&[]), false), ["!InvalidDesiredVersion"]);
    assert_eq!(findings(&status(&["+nonsense"]), "4.1.0", Some(&[]), false), ["InvalidCurrentVersion"]);
    assert_eq!(findings(&status(&[]), "4.1.0", Some(&[]), false), ["InvalidCurrentVersion"]);
}

#[test]
fn risks_block_later_minor_versions_and_let_patches_pass() {
    let risk = |name: &str| Risk { name: name.into(), message: format!("{name} it is"), url: String::new() };
    let (one, two) = ([risk("ClusterOperatorUpgradeable-machine-config")], [risk("a"), risk("b")]);
    let (done, patch) = (status(&["+4.1.0"]), "4.1.1");
    for (status, target, risks, unmanaged, expected) in [
        (&done, "4.2.0", Some(&one[..]), false, "!ClusterOperatorUpgradeableMachineConfig"),
        (&done, "5.0.0", Some(&one), false, "!ClusterOperatorUpgradeableMachineConfig"),
        (&done, "4.2.0", Some(&two), false, "!MultipleReasons"),
        (&done, "4.2.0", Some(&[]), false, ""),
        (&done, "4.2.0", None, false, "!UnknownError"),
        (&done, patch, Some(&two), false, ""),
        (&done, patch, None, false, ""),
        (&done, patch, Some(&two), true, "ClusterVersionOverridesSet"),
        (&status(&["4.2.0", "+4.1.0"]), "4.2.1", Some(&one), false, "MinorVersionClusterUpdateInProgress"),
        (&status(&["5.0.0", "+4.9.0"]), "5.0.1", Some(&one), false, "MajorVersionClusterUpdateInProgress"),
        (&status(&["4.1.1", "+4.1.0"]), "4.1.2", Some(&one), false, ""),
        (&status(&["4.2.0", "+4.1.0"]), "4.3.0", Some(&one), false, "!ClusterOperatorUpgradeableMachineConfig"),
    ] {
        let found = findings(status, target, risks, unmanaged).join(" ");
        assert_eq!(found, expected, "{} to {target}, {risks:?}", status.desired.version);
    }
}

fn conditional(version: &str, recommended: Option<(&str, &str)>) -> ConditionalUpdate {
    let risk = ConditionalUpdateRisk {
        url: "https://example.com".into(),
        name: "Broken".into(),
        message: "it breaks".into(),
        matching_rules: Vec::new(),
        conditions: Vec::new(),
    };
    let condition = recommended.map(|(status, reason)| MetaCondition {
        type_: "Recommended".into(),
        status: status.into(),
        reason: reason.into(),
        message: "it breaks https://example.com".into(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    });
    ConditionalUpdate {
        release: release(version),
        risks: vec![risk],
        conditions: condition.into_iter().collect(),
        risk_names: Vec::new(),
    }
}

#[test]
fn update_that_is_not_recommended_is_refused_and_one_that_is_unknown_is_recorded() {
    let other_image = Release { image: image("other"), ..release("4.1.1") };
    let mirrored = Release { image: "mirror.example.com/a@sha256:4.1.1".into(), ..release("4.1.1") };
    let exposed = Some(("False", "Broken"));
    let accepted = Some(("True", "AllExposedRisksAccepted"));
    for (available, conditional, channel, current, expected) in [
        (vec![release("4.1.1")], vec![], "fast", true, ""),
        (vec![mirrored], vec![], "fast", true, ""),
        (vec![other_image], vec![], "fast", true, "UnknownUpdate"),
        (vec![], vec![conditional("4.1.1", exposed)], "fast", true, "!Broken"),
        (vec![release("4.1.1")], vec![conditional("4.1.1", exposed)], "fast", true, ""),
        (vec![], vec![conditional("4.1.1", Some(("True", "NotExposedToRisks")))], "fast", true, ""),
        (vec![release("4.1.1")], vec![conditional("4.1.1", accepted)], "fast", true, "AllExposedRisksAccepted"),
        (vec![], vec![conditional("4.1.1", Some(("Unknown", "EvaluationFailed")))], "fast", true, "!EvaluationFailed"),
        (vec![], vec![conditional("4.1.1", None)], "fast", true, "!UnknownConditionType"),
        (vec![], vec![conditional("4.1.2", exposed)], "fast", true, "UnknownUpdate"),
        (vec![], vec![], "fast", false, "UnknownUpdate"),
        (vec![], vec![], "", true, "NoChannel"),
    ] {
        let (target, status) = (release("4.1.1"), status(&["+4.1.0"]));
        let advice = Advice { available: &available, conditional: &conditional, current };
        let situation = Situation { channel, advice, ..situation(&target, &status) };
        let mark = |finding: Finding| {
            const WAY_OUT: &str = ". spec.desiredUpdate.force overrides that, and the check of the signature with it";
            let names_way_out = finding.message.ends_with(WAY_OUT);
            assert_eq!(names_way_out, finding.blocks, "{finding:?}");
            format!("{}{}", if finding.blocks { "!" } else { "" }, finding.reason)
        };
        let found: Vec<String> = check(&situation).into_iter().map(mark).collect();
        assert_eq!(found.join(" "), expected, "{available:?} {conditional:?}");
    }
}

#[test]
fn risks_that_can_be_accepted_are_named() {
    let condition = |status: &str| MetaCondition {
        type_: "Applies".into(),
        status: status.into(),
        reason: "Match".into(),
        message: String::new(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    };
    for (gate, applies, way_out) in [
        (true, ["True", "False"], "acceptRisks with Broken makes it recommended; spec.desiredUpdate.force"),
        (true, ["True", "True"], "acceptRisks with Broken, Other makes it recommended; spec.desiredUpdate.force"),
        (true, ["True", "Unknown"], "example.com. spec.desiredUpdate.force"),
        (false, ["True", "False"], "example.com. spec.desiredUpdate.force"),
    ] {
        let mut update = conditional("4.1.1", Some(("False", "Broken")));
        update.risks.push(ConditionalUpdateRisk { name: "Other".into(), ..update.risks[0].clone() });
        for (risk, status) in update.risks.iter_mut().zip(applies) {
            risk.conditions = vec![condition(status)];
        }
        update.risk_names = if gate { vec!["Broken".into(), "Other".into()] } else { Vec::new() };
        let (target, status) = (release("4.1.1"), status(&["+4.1.0"]));
        let advice = Advice { available: &[], conditional: &[update], current: true };
        let found = check(&Situation { advice, ..situation(&target, &status) });
        assert!(found[0].blocks && found[0].message.contains(way_out), "{gate} {applies:?}: {found:?}");
    }
}

#[test]
fn summary_names_each_finding_and_says_only_of_blocking_ones_that_they_are_forced() {
    let found =
        [blocks(ROLLBACK, "LowDesiredVersion", "older".into()), warns(RECOMMENDED, "NoChannel", "who knows".into())];
    let [one, two] = [
        "Precondition ClusterVersionRollback (LowDesiredVersion): older",
        "Precondition ClusterVersionRecommendedUpdate (NoChannel): who knows",
    ];
    assert_eq!(summary(&found, false), format!("\n* {one}\n* {two}"));
    assert_eq!(summary(&found, true), format!("Forced in spite of what blocks the update: \n* {one}\n* {two}"));
    assert_eq!(summary(&found[1..], true), two);
    assert_eq!(summary(&[], true), "");
}

#[test]
fn hindrances_are_recorded_and_stop_nothing() {
    let one = trouble("node n1".to_owned(), "somebody has cordoned it", "kubectl uncordon");
    let findings = of_hindrances(&vec![one; 30]);
    assert_eq!((findings.len(), is_blocked(&findings, false)), (HINDRANCES, false));
    let text = "Precondition ClusterHealth (Hindrance): node n1: somebody has cordoned it. kubectl uncordon";
    assert_eq!(findings[0].text(), text);
}

#[test]
fn update_without_a_successor_cannot_be_forced() {
    let (target, status) = (release("4.1.1"), status(&["+4.1.0"]));
    let available = [target.clone()];
    let advice = Advice { available: &available, conditional: &[], current: true };
    let possible = Situation { advice, ..situation(&target, &status) };
    assert_eq!(check(&possible), []);
    let found = check(&Situation { own_unmanaged: true, ..possible });
    assert_eq!(found.iter().map(|finding| finding.reason.as_str()).collect::<Vec<_>>(), ["OwnDeploymentUnmanaged"]);
    assert!(is_blocked(&found, false) && is_blocked(&found, true));
    assert!(!summary(&found, true).contains("Forced"));
    // All others can.
    let older = release("4.0.0");
    let found = check(&Situation { advice, ..situation(&older, &status) });
    assert!(is_blocked(&found, false) && !is_blocked(&found, true), "{found:?}");
}

#[test]
fn update_to_a_daemon_that_no_node_can_run_waits_for_a_node() {
    let (target, status) = (release("4.1.1"), status(&["+4.1.0"]));
    let available = [target.clone()];
    let advice = Advice { available: &available, conditional: &[], current: true };
    let found = |unplaced: &Read<String>| check(&Situation { advice, unplaced, ..situation(&target, &status) });
    assert_eq!(found(&Read::Absent), []);
    let unmet = found(&Read::Value("none of the 3 nodes can run its pod".to_owned()));
    assert_eq!(
        unmet[0].text(),
        "Precondition ClusterVersionSuccessor (NoNodeForDaemon): the daemon of the release could not take over: none of the 3 nodes \
         can run its pod"
    );
    assert!(is_blocked(&unmet, false) && !is_blocked(&unmet, true));
    let unknown = found(&Read::Failed("forbidden".to_owned()));
    assert!(!is_blocked(&unknown, false) && unknown[0].message.ends_with("is not known: forbidden"), "{unknown:?}");
}

/// Nothing speaks against it but that nobody knows the release.
fn situation<'a>(target: &'a Release, status: &'a ClusterVersionStatus) -> Situation<'a> {
    let advice = Advice { available: &[], conditional: &[], current: true };
    Situation {
        target,
        status,
        overrides: &[],
        own_unmanaged: false,
        unplaced: &Read::Absent,
        channel: "fast",
        risks: Some(&[]),
        advice,
    }
}
