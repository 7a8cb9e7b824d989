//! Tables of APIs and webhooks that are published for other controllers. Where the answer is another one on purpose, the row names the
//! rule.

use super::*;

/// What has happened to a version that serves an API, since it was installed at minute 10.
type Change = fn(&mut Cluster);

struct Row {
    name: &'static str,
    change: Change,
    /// Phase and reason that it goes to at minute 20; empty where it stays.
    expected: &'static str,
    /// What others come to, and the rule by which it is another one here.
    otherwise: Option<(&'static str, &'static str)>,
}

const ISSUE: &str = "Failed/APIServiceResourceIssue";
const ROTATION: &str = "Pending/NeedsCertRotation";

/// The certificate and its authority end at this minute.
fn ends(cluster: &mut Cluster, minute: i64) {
    let Stored::Usable(usable) = &mut cluster.certificates.get_mut(SECRET).unwrap().stored else {
        panic!("one is there")
    };
    (usable.certificate_until, usable.authority_until) = (at(minute), at(minute));
}

fn hash_of_pods(cluster: &mut Cluster) {
    let live = Arc::make_mut(&mut cluster.deployments.get_mut("server").unwrap().object);
    live["spec"]["template"]["metadata"]["annotations"]["olmcahash"] = json!("bad");
}

fn hash_of_secret(cluster: &mut Cluster) {
    let metadata = Arc::make_mut(&mut cluster.certificates.get_mut(SECRET).unwrap().metadata);
    metadata["annotations"]["olmcahash"] = json!("bad");
}

fn authority_of_api(cluster: &mut Cluster) {
    let api = cluster.components.iter_mut().find(|it| it["kind"] == "APIService").unwrap();
    api["spec"]["caBundle"] = json!(STANDARD.encode("bad"));
}

fn unusable(cluster: &mut Cluster) {
    let stored = Stored::Unusable { cause: "tls.crt is none".to_owned(), version: "8".to_owned() };
    cluster.certificates.get_mut(SECRET).unwrap().stored = stored;
}

fn failed(cluster: &mut Cluster) {
    merge(&mut cluster.csv_mut("a")["status"], &json!({"phase": "Failed", "reason": "ComponentUnhealthy"}));
}

const ROWS: [Row; 8] = [
    Row { name: "its certificate ends soon", change: |it| ends(it, 30), expected: ROTATION, otherwise: None },
    Row {
        name: "its pods were made with another authority",
        change: hash_of_pods,
        expected: "InstallReady/InstallWaiting",
        otherwise: Some((ISSUE, "what its Deployment needs is there, so that it is written at once")),
    },
    Row {
        name: "the Secret says that it has another authority",
        change: hash_of_secret,
        expected: "",
        otherwise: Some((ISSUE, "the certificate counts, and not what an annotation says of it")),
    },
    Row {
        name: "its pods and the Secret say so",
        change: |it| {
            hash_of_pods(it);
            hash_of_secret(it);
        },
        expected: "InstallReady/InstallWaiting",
        otherwise: Some((ISSUE, "what its Deployment needs is there, so that it is written at once")),
    },
    Row { name: "the APIService has another authority", change: authority_of_api, expected: ISSUE, otherwise: None },
    Row { name: "its certificate cannot be used", change: unusable, expected: ISSUE, otherwise: None },
    Row { name: "its authority has ended", change: |it| ends(it, 15), expected: ROTATION, otherwise: None },
    Row {
        name: "it has failed, and its authority has ended",
        change: |it| {
            failed(it);
            ends(it, 15);
        },
        expected: ROTATION,
        otherwise: None,
    },
];

#[test]
fn transitions_of_a_version_that_serves_an_api_are_as_published() {
    for Row { name, change, expected, otherwise } in ROWS {
        let mut cluster = Cluster::served(with_api("a"));
        change(&mut cluster);
        let told = cluster.step("a", 20);
        assert_eq!(told.split(':').next().unwrap(), expected, "{name}: {told}");
        assert!(otherwise.is_none_or(|(published, rule)| published != expected && !rule.is_empty()), "{name}");
    }
}

#[test]
fn api_has_one_owner() {
    let mut cluster = Cluster::served(with_api("a"));
    cluster.csvs.push(with_api("b"));
    let cluster = cluster.marked();
    assert_eq!(cluster.step("a", 20), "");
    let told = cluster.step("b", 20);
    assert!(told.starts_with("Failed/OwnerConflict: unable to adopt APIService v1.gears.example.com: "), "{told}");
}

/// What is there, and whether a certificate is made. The status says when the next one is.
#[test]
fn certificates_are_made_and_kept_as_published() {
    for (name, is_served, is_gone, is_made) in [
        ("there is none", false, true, true),
        ("a pod is gone, and the certificate is good", true, false, false),
        ("the Secret is gone", true, true, true),
    ] {
        let mut cluster = if is_served { Cluster::served(with_api("a")) } else { Cluster::serving(with_api("a")) };
        cluster.csv_mut("a")["status"]["phase"] = json!("InstallReady");
        if is_gone {
            cluster.certificates.get_mut(SECRET).unwrap().stored = Stored::Absent;
        }
        let before: Option<Timestamp> = typed(cluster.csvs[0]["status"]["certsRotateAt"].clone());
        let lines = cluster.settle(&mut at(20));
        assert_eq!(lines.iter().any(|it| it.starts_with("make for")), is_made, "{name}: {lines:#?}");
        assert!(lines.contains(&"a: Installing/InstallSucceeded".to_owned()), "{name}: {lines:#?}");
        let Stored::Usable(usable) = &cluster.certificates[SECRET].stored else { panic!("{name}: one is there") };
        let rotation: Timestamp = typed(cluster.csvs[0]["status"]["certsRotateAt"].clone());
        assert_eq!(rotation, usable.certificate_until - SignedDuration::from_hours(24), "{name}");
        assert_eq!(before == Some(rotation), !is_made, "{name}: {before:?}");
    }
}

/// What leads the API server to the pods has the authority of their certificate, whatever was found there before.
#[test]
fn authorities_of_webhooks_are_as_published() {
    let mutating = || webhook("set.example.com", "MutatingAdmissionWebhook");
    for (name, kind, csv) in [
        ("validating", "ValidatingWebhookConfiguration", with_webhooks("a", json!([validating()]))),
        ("mutating", "MutatingWebhookConfiguration", with_webhooks("a", json!([mutating()]))),
        ("conversion", "", with_conversion("a")),
    ] {
        let mut cluster = Cluster::serving(csv);
        cluster.certificates.insert(SECRET.to_owned(), stored(&["given"], at(10) + SignedDuration::from_hours(1000)));
        if kind.is_empty() {
            // It converts, and has no authority.
            let client = json!({"service": {"name": "server-service", "namespace": "shop"}});
            let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": client}});
            cluster.definitions.get_mut("widgets.example.com").unwrap().conversion = conversion;
        }
        cluster.settle(&mut at(10));
        assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded", "{name}");
        let bundle = match kind {
            "" => &cluster.definitions["widgets.example.com"].conversion["webhook"]["clientConfig"]["caBundle"],
            kind => &cluster.object(kind, "")["webhooks"][0]["clientConfig"]["caBundle"],
        };
        assert_eq!(names(bundle), ["given"], "{name}");
    }
}
