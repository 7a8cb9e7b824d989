use super::*;
use crate::merge::tests::merge;
use crate::merge::{Outcome, desired};
use crate::object::manifest::Origin;
use crate::release::load;
use serde_json::json;
use std::sync::Arc;

/// The manifest of a file with this object.
fn manifest(object: &Value) -> Arc<Manifest> {
    let bytes = serde_json::to_vec(object).unwrap();
    load::manifests_of(Origin::Release, "0000_50_a_b.json", &bytes).unwrap().remove(0)
}

fn injected(object: &Value, configuration: &ClusterConfiguration) -> Result<Value, InjectError> {
    let mut object = object.clone();
    let manifest = manifest(&object);
    configuration.inject(&manifest, &mut object)?;
    let once = object.clone();
    configuration.inject(&manifest, &mut object)?;
    assert_eq!(object, once, "a second call changes nothing");
    Ok(object)
}

fn configuration(source: Source, object: Option<Value>) -> ClusterConfiguration {
    let mut configuration = ClusterConfiguration::default();
    configuration.update(source, object.as_ref());
    configuration
}

fn proxy(http: &str, https: &str, none: &str) -> ClusterConfiguration {
    let status = json!({"httpProxy": http, "httpsProxy": https, "noProxy": none});
    configuration(Source::Proxy, Some(json!({"spec": {"httpProxy": "not this"}, "status": status})))
}

/// An operator's workload with two containers and one init container.
fn workload(kind: &str, names: &str, environment: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": "a", "namespace": "b", "annotations": {"config.openshift.io/inject-proxy": names}},
        "spec": {"template": {"spec": {
            "initContainers": [{"name": "early"}],
            "containers": [{"name": "one", "env": environment}, {"name": "two"}]}}}})
}

fn environment<'a>(object: &'a Value, container: &str) -> Vec<(&'a str, &'a str)> {
    let list = |list: &str| object.pointer(&format!("/spec/template/spec/{list}")).and_then(Value::as_array);
    let mut all = ["containers", "initContainers"].into_iter().filter_map(list).flatten();
    let found = all.find(|value| value["name"] == container).unwrap();
    let variables = found.get("env").and_then(Value::as_array).into_iter().flatten();
    variables.map(|v| (v["name"].as_str().unwrap(), v["value"].as_str().unwrap_or("(none)"))).collect()
}

#[test]
fn proxy_is_injected_into_the_named_containers_only() {
    let present = json!([{"name": "NO_PROXY", "valueFrom": {"fieldRef": {}}}, {"name": "X", "value": "1"},
        {"name": "NO_PROXY", "value": "twice"}]);
    let some = proxy(" http://p:1 ", "", "a,b");
    let given = [("HTTP_PROXY", "http://p:1"), ("HTTPS_PROXY", ""), ("NO_PROXY", "a,b")];
    for kind in ["Deployment", "DaemonSet"] {
        let object = injected(&workload(kind, " one , early", present.clone()), &some).unwrap();
        // An existing variable keeps its position, and duplicates are removed.
        let one = [("NO_PROXY", "a,b"), ("X", "1"), ("HTTP_PROXY", "http://p:1"), ("HTTPS_PROXY", "")];
        assert_eq!(environment(&object, "one"), one);
        assert_eq!(environment(&object, "early"), given);
        assert_eq!(environment(&object, "two"), []);
    }
    // Nothing to inject: no object, no effective proxy, another kind, no annotation.
    let plain = workload("Deployment", "one", json!([]));
    for nothing in [configuration(Source::Proxy, None), proxy("", " ", "")] {
        assert_eq!(injected(&plain, &nothing).unwrap(), plain);
    }
    let other = workload("StatefulSet", "one", json!([]));
    assert_eq!(injected(&other, &some).unwrap(), other);
    let mut silent = plain.clone();
    silent["metadata"]["annotations"] = json!({});
    assert_eq!(injected(&silent, &some).unwrap(), silent);
}

#[test]
fn missing_container_is_an_error_only_if_there_is_a_proxy() {
    let object = workload("Deployment", "one,three", json!([]));
    assert_eq!(injected(&object, &ClusterConfiguration::default()).unwrap(), object);
    let error = injected(&object, &proxy("", "http://p", "")).unwrap_err().to_string();
    assert!(error.contains("deployment.apps \"b/a\"") && error.contains("\"three\""), "{error}");
    let error = desired(&manifest(&object), None, &proxy("", "", "x")).unwrap_err().to_string();
    assert!(error.contains("three"), "{error}");
}

#[test]
fn empty_setting_equals_an_absent_value() {
    let with_proxy =
        desired(&manifest(&workload("Deployment", "two", json!([]))), None, &proxy("", "http://p", "")).unwrap();
    let mut live = with_proxy.clone();
    let two = &mut live["spec"]["template"]["spec"]["containers"][1]["env"];
    assert_eq!(two[0], json!({"name": "HTTP_PROXY", "value": ""}));
    two[0].as_object_mut().unwrap().remove("value");
    assert_eq!(merge(&live, &with_proxy), Ok(Outcome::Same));
    // Without a proxy the variables are removed.
    let bare =
        desired(&manifest(&workload("Deployment", "two", json!([]))), None, &ClusterConfiguration::default()).unwrap();
    let Ok(Outcome::Changed { object, .. }) = merge(&live, &bare) else { panic!("nothing to do") };
    assert_eq!(environment(&object, "two"), []);
}

#[test]
fn own_deployment_gets_the_address_of_the_api_server() {
    assert_eq!(ADDRESSED, (crate::cluster_version::api::NAMESPACE, crate::cluster_version::api::OWN_DEPLOYMENT));
    let own = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "cluster-version-operator", "namespace": "openshift-cluster-version"},
        "spec": {"template": {"spec": {"containers": [
            {"name": "cluster-version-operator", "env": [
                {"name": "KUBERNETES_SERVICE_PORT", "value": "1"}, {"name": "X", "value": "1"}]},
            {"name": "beside"}]}}}});
    let table = [
        ("https://api-int.a.b:6443", Some(("api-int.a.b", "6443"))),
        ("https://api-int.a.b", Some(("api-int.a.b", "443"))),
        ("https://api-int.a.b/path", Some(("api-int.a.b", "443"))),
        ("https://10.0.0.1:6443/", Some(("10.0.0.1", "6443"))),
        ("https://[fd00::1]:6443", Some(("fd00::1", "6443"))),
        ("https://[fd00::1]", Some(("fd00::1", "443"))),
        ("https://:6443", None),
        ("https://", None),
        ("https://a:b", None),
        ("", None),
    ];
    for (uri, expected) in table {
        let object = json!({"status": {"apiServerInternalURI": uri}});
        let object = injected(&own, &configuration(Source::Infrastructure, Some(object))).unwrap();
        match expected {
            Some((host, port)) => {
                let given = [("KUBERNETES_SERVICE_PORT", port), ("X", "1"), ("KUBERNETES_SERVICE_HOST", host)];
                assert_eq!(environment(&object, "cluster-version-operator"), given, "{uri}");
                assert_eq!(environment(&object, "beside"), []);
            }
            None => assert_eq!(object, own, "{uri}"),
        }
    }
    for nothing in [None, Some(json!({})), Some(json!({"status": {}}))] {
        assert_eq!(injected(&own, &configuration(Source::Infrastructure, nothing)).unwrap(), own);
    }
    let mut other = own.clone();
    other["metadata"]["namespace"] = json!("elsewhere");
    let known = configuration(Source::Infrastructure, Some(json!({"status": {"apiServerInternalURI": "https://a"}})));
    assert_eq!(injected(&other, &known).unwrap(), other);
}

fn server(profile: Value) -> Tls {
    configuration(Source::ApiServer, Some(json!({"spec": {"tlsSecurityProfile": profile}}))).tls
}

#[test]
fn every_profile_gives_settings_that_go_implements() {
    let intermediate = Tls::default();
    assert_eq!((intermediate.min_version.as_str(), intermediate.ciphers.len()), ("VersionTLS12", 9));
    assert_eq!(intermediate.ciphers[3], "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    assert_eq!(configuration(Source::ApiServer, None).tls, intermediate);
    for profile in [
        json!(null),
        json!({}),
        json!({"type": "Intermediate"}),
        json!({"type": "Custom"}),
        json!({"type": "Custom", "custom": null}),
        json!({"type": "New"}),
    ] {
        assert_eq!(server(profile.clone()), intermediate, "{profile}");
    }
    let modern = server(json!({"type": "Modern", "modern": {}}));
    assert_eq!((modern.min_version.as_str(), modern.ciphers.len()), ("VersionTLS13", 3));
    let old = server(json!({"type": "Old"}));
    // Go does not implement three suites of the profile.
    assert_eq!((old.min_version.as_str(), old.ciphers.len()), ("VersionTLS10", 21));
    assert_eq!(old.ciphers.last().unwrap(), "TLS_RSA_WITH_3DES_EDE_CBC_SHA");
    let custom = json!({"minTLSVersion": "VersionTLS11", "ciphers": ["AES128-SHA", "DHE-RSA-AES128-GCM-SHA256", "NEW",
        "ECDHE-RSA-AES128-SHA"]});
    let custom = server(json!({"type": "Custom", "custom": custom}));
    let suites = ["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"];
    assert_eq!((custom.min_version.as_str(), custom.ciphers), ("VersionTLS11", suites.map(str::to_owned).to_vec()));
    let empty = server(json!({"type": "Custom", "custom": {}}));
    assert_eq!((empty.min_version, empty.ciphers), (String::new(), vec![]));
}

fn config_map(annotation: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "a", "namespace": "b", "annotations": {"config.openshift.io/inject-tls": annotation}}})
}

const HEAD: &str = "apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\n";

/// The text after two settings were injected.
fn edited(text: &str) -> String {
    let tls = Tls { min_version: "VersionTLS12".into(), ciphers: vec!["TLS_A".into(), "TLS_B_1".into()] };
    let configuration = ClusterConfiguration { tls, ..ClusterConfiguration::default() };
    let object =
        injected(&config_map("true", json!({"config.yaml": text, "note": "kind: [", "n": "1"})), &configuration);
    let object = object.unwrap();
    assert_eq!((&object["data"]["note"], &object["data"]["n"]), (&json!("kind: ["), &json!("1")));
    object["data"]["config.yaml"].as_str().unwrap().to_owned()
}

#[test]
fn settings_are_set_and_the_rest_of_the_text_stays() {
    let block = "  cipherSuites:\n  - TLS_A\n  - TLS_B_1\n  minTLSVersion: VersionTLS12\n";
    let flow = "cipherSuites: [TLS_A, TLS_B_1], minTLSVersion: VersionTLS12";
    let json = "\"cipherSuites\": [\"TLS_A\",\"TLS_B_1\"], \"minTLSVersion\": \"VersionTLS12\"";
    let suites = "  cipherSuites:\n  - TLS_A\n  - TLS_B_1\n";
    let table: Vec<(&str, String)> = vec![
        ("", format!("servingInfo:\n{block}")),
        ("z: 1 # last\n# end\n", format!("z: 1 # last\nservingInfo:\n{block}# end\n")),
        ("z: |\n  text\n  more\n", format!("z: |\n  text\n  more\nservingInfo:\n{block}")),
        ("z:\n- 1\n- a: é\n", format!("z:\n- 1\n- a: é\nservingInfo:\n{block}")),
        (
            "servingInfo:   # how\n  bindNetwork: \"tcp\"   # why\n  # of it\nz: 1\n",
            format!("servingInfo:   # how\n  bindNetwork: \"tcp\"   # why\n{block}  # of it\nz: 1\n"),
        ),
        (
            "servingInfo:\n    minTLSVersion: VersionTLS10 # old\n    bindAddress: ':1'\n",
            format!(
                "servingInfo:\n    minTLSVersion: VersionTLS12 # old\n    bindAddress: ':1'\n{}",
                suites.replace("  c", "    c").replace("  -", "    -")
            ),
        ),
        (
            "servingInfo:\n  cipherSuites:\n    - X # one\n    - Y\n  a: 1\n  minTLSVersion:\n",
            format!("servingInfo:\n{suites}  a: 1\n  minTLSVersion: VersionTLS12\n"),
        ),
        (
            "servingInfo:\n  cipherSuites: [X, Y] # them\n  minTLSVersion: ''\n",
            "servingInfo:\n  cipherSuites: [TLS_A, TLS_B_1] # them\n  minTLSVersion: VersionTLS12\n".into(),
        ),
        ("servingInfo:\nz: 1\n", format!("servingInfo:\n{block}z: 1\n")),
        ("servingInfo: null\n", format!("servingInfo:\n{block}")),
        ("servingInfo: {}\n", format!("servingInfo: {{{flow}}}\n")),
        ("servingInfo: {a: [1], b: \"x\" }\n", format!("servingInfo: {{a: [1], b: \"x\", {flow} }}\n")),
    ];
    for (rest, expected) in table {
        assert_eq!(edited(&format!("{HEAD}{rest}")), format!("{HEAD}{expected}"), "{rest:?}");
    }
    assert_eq!(edited(&format!("---\n{HEAD}")), format!("---\n{HEAD}servingInfo:\n{block}"));
    let text = "{\"apiVersion\":\"config.openshift.io/v1\",\"kind\":\"GenericControllerConfig\"}";
    let served = format!("{}, \"servingInfo\": {{{json}}}}}\n", text.trim_end_matches('}'));
    assert_eq!(edited(text), served);
    serde_json::from_str::<Value>(&served).unwrap();
}

/// What the original operator writes for the configurations of a release, so that an operator that watches its file is not
/// restarted when the cluster changes hands.
#[test]
fn settings_are_written_byte_by_byte_as_by_the_original() {
    const WRITTEN: &str = "  cipherSuites:\n  - TLS_A\n  - TLS_B_1\n  minTLSVersion: VersionTLS12\n";
    const KIND: &str = "apiVersion: config.openshift.io/v1\nkind: GenericControllerConfig\n";
    let complete = format!("{HEAD}servingInfo:\n{WRITTEN}");
    for (text, expected) in [
        (HEAD.to_owned(), complete.clone()),
        (HEAD.trim_end().to_owned(), complete.clone()),
        // A literal block with `|-` has no newline at its end.
        (
            format!("{KIND}servingInfo:\n  bindAddress: \":60000\""),
            format!("{KIND}servingInfo:\n  bindAddress: \":60000\"\n{WRITTEN}"),
        ),
        (
            format!("{HEAD}leaderElection:\n  namespace: a\nservingInfo:\n  bindNetwork: \"tcp\"\n"),
            format!("{HEAD}leaderElection:\n  namespace: a\nservingInfo:\n  bindNetwork: \"tcp\"\n{WRITTEN}"),
        ),
        // What is there keeps its place.
        (
            format!("{HEAD}servingInfo:\n  minTLSVersion: VersionTLS10\n  bindAddress: ':1'\n"),
            format!(
                "{HEAD}servingInfo:\n  minTLSVersion: VersionTLS12\n  bindAddress: ':1'\n  cipherSuites:\n  - TLS_A\n  - TLS_B_1\n"
            ),
        ),
        (
            format!("{HEAD}servingInfo: {{}}\n"),
            format!("{HEAD}servingInfo: {{cipherSuites: [TLS_A, TLS_B_1], minTLSVersion: VersionTLS12}}\n"),
        ),
        (
            format!("{HEAD}servingInfo:\n  cipherSuites: [X]\n  a: 1\n"),
            format!("{HEAD}servingInfo:\n  cipherSuites: [TLS_A, TLS_B_1]\n  a: 1\n  minTLSVersion: VersionTLS12\n"),
        ),
        (complete.trim_end().to_owned(), complete.clone()),
    ] {
        assert_eq!(edited(&text), expected);
        assert_eq!(edited(&expected), expected, "once more");
    }
}

#[test]
fn text_that_cannot_be_edited_is_rewritten_with_the_same_content() {
    let anchored = format!("{HEAD}base: &it {{bindNetwork: tcp}}\nservingInfo: *it\nz: {{<<: *it}}\n");
    let merged = format!("{HEAD}base: &it\n  cipherSuites: [X]\nservingInfo:\n  <<: *it\n  minTLSVersion: Y\n");
    let twice = format!("{HEAD}servingInfo: {{}}\nservingInfo: {{a: 1}}\n");
    for text in [anchored, merged, twice] {
        let read = |text: &str| {
            serde_json::to_value(&crate::object::yaml::documents(text.as_bytes()).unwrap()[0].value).unwrap()
        };
        let mut expected = read(&text);
        if !expected["servingInfo"].is_object() {
            expected["servingInfo"] = json!({});
        }
        expected["servingInfo"]["minTLSVersion"] = json!("VersionTLS12");
        expected["servingInfo"]["cipherSuites"] = json!(["TLS_A", "TLS_B_1"]);
        assert_eq!(read(&edited(&text)), expected, "{text}");
    }
}

#[test]
fn only_configurations_in_annotated_config_maps_are_changed() {
    let text = format!("{HEAD}a: 1\n");
    let table = [
        "kind: GenericOperatorConfig\napiVersion: operator.openshift.io/v1\n".to_owned(),
        "kind: GenericOperatorConfig\n".to_owned(),
        "just text".to_owned(),
        "[1, 2]".to_owned(),
        String::new(),
        "\ta: 1".to_owned(),
        format!("{text}---\n{text}"),
    ];
    for text in table {
        assert_eq!(edited(&text), text);
    }
    for annotation in ["false", "True", ""] {
        let map = config_map(annotation, json!({"a": text}));
        assert_eq!(injected(&map, &ClusterConfiguration::default()).unwrap(), map, "{annotation:?}");
    }
    let mut secret = config_map("true", json!({"a": text}));
    secret["kind"] = json!("Secret");
    assert_eq!(injected(&secret, &ClusterConfiguration::default()).unwrap(), secret);
    let empty = config_map("true", json!(null));
    assert_eq!(injected(&empty, &ClusterConfiguration::default()).unwrap(), empty);
}

#[test]
fn empty_settings_are_written_as_empty() {
    let tls = server(json!({"type": "Custom", "custom": {}}));
    let map = config_map("true", json!({"a": format!("{HEAD}servingInfo:\n  cipherSuites:\n  - X\n")}));
    let object = injected(&map, &ClusterConfiguration { tls, ..ClusterConfiguration::default() }).unwrap();
    assert_eq!(object["data"]["a"], format!("{HEAD}servingInfo:\n  cipherSuites: []\n  minTLSVersion: \"\"\n"));
}

#[test]
fn update_with_the_same_object_is_no_change() {
    let mut configuration = ClusterConfiguration::default();
    let object = json!({"status": {"httpProxy": "http://p"}});
    assert!(!configuration.update(Source::Proxy, None));
    assert!(configuration.update(Source::Proxy, Some(&object)));
    assert_eq!(configuration.differences(&ClusterConfiguration::default()), [Source::Proxy]);
    assert!(!configuration.update(Source::Proxy, Some(&object)));
    assert!(configuration.update(Source::Proxy, None));
    assert_eq!(configuration, ClusterConfiguration::default());
}

#[test]
fn configurations_of_a_real_release_keep_their_lines() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let folder = std::env::var_os("CVO_SHARED_DATA").map_or(folder, Into::into).join("payload-5.0");
    let Ok(files) = std::fs::read_dir(folder) else {
        println!("skipped: no payload beside the project; CVO_SHARED_DATA names the folder that holds payload-5.0");
        return;
    };
    let (mut configurations, mut addressed) = (0, 0);
    for file in files.flatten().filter(|file| file.path().extension().is_some_and(|e| e == "yaml")) {
        let name = file.file_name().into_string().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        // Templates cannot be decoded before they are evaluated.
        for manifest in load::manifests_of(Origin::Release, &name, &bytes).unwrap_or_default() {
            let before = manifest.object().unwrap();
            let mut object = before.clone();
            let all = proxy("http://p", "", "");
            all.inject(&manifest, &mut object).unwrap_or_else(|error| panic!("{name}: {error}"));
            match Source::of(&manifest).first() {
                None => assert_eq!(object, before, "{name}"),
                Some(Source::ApiServer) => {
                    let (text, before) = (&object["data"], &before["data"]);
                    let key = before.as_object().unwrap().keys().next().unwrap();
                    let (text, before) = (text[key].as_str().unwrap(), before[key].as_str().unwrap());
                    let mut lines = text.lines();
                    assert!(before.lines().all(|line| lines.any(|kept| kept == line)), "{name}: {text}");
                    assert_eq!(
                        text.lines().count() - before.lines().count(),
                        11 + usize::from(!before.contains("servingInfo"))
                    );
                    configurations += 1;
                }
                Some(_) => addressed += usize::from(object != before),
            }
        }
    }
    assert_eq!((configurations, addressed), (14, 12));
}
