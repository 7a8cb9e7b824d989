use super::*;
use crate::olm::api::cluster_service_version::StrategyDeployment;
use crate::olm::operator::serving::pod::with_certificate;

/// The pod of a Deployment with this one, and a certificate.
fn pod(pod: Value) -> Value {
    let entry: StrategyDeployment = typed(json!({"name": "server", "spec": {"template": {"spec": pod}}}));
    let mut spec = with_certificate(&entry, "s", "h").spec;
    assert_eq!(spec["template"]["metadata"]["annotations"]["olmcahash"], "h");
    spec["template"]["spec"].take()
}

fn volume(name: &str, files: [&str; 2]) -> Value {
    let items = json!([{"key": "tls.crt", "path": files[0]}, {"key": "tls.key", "path": files[1]}]);
    json!({"name": name, "secret": {"secretName": "s", "items": items}})
}

fn volumes() -> [Value; 2] {
    [volume("apiservice-cert", ["apiserver.crt", "apiserver.key"]), volume("webhook-cert", ["tls.crt", "tls.key"])]
}

const OF_API: &str = "/apiserver.local.config/certificates";
const OF_WEBHOOK: &str = "/tmp/k8s-webhook-server/serving-certs";

fn mounts() -> [Value; 2] {
    [json!({"name": "apiservice-cert", "mountPath": OF_API}), json!({"name": "webhook-cert", "mountPath": OF_WEBHOOK})]
}

#[test]
fn each_container_gets_the_certificate_at_both_places() {
    let found =
        pod(json!({"containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}],
        "volumes": [{"name": "x"}], "initContainers": [{"name": "i"}]}));
    let [of_api, of_webhook] = volumes();
    assert_eq!(found["volumes"], json!([{"name": "x"}, of_api, of_webhook]));
    let [api, webhook] = mounts();
    assert_eq!(found["containers"][0]["volumeMounts"], json!([api, webhook]));
    assert_eq!(found["containers"][1]["volumeMounts"], json!([{"name": "x", "mountPath": "/x"}, api, webhook]));
    assert_eq!(found["initContainers"], json!([{"name": "i"}]));
}

/// As the usual frameworks generate it.
#[test]
fn certificate_takes_the_place_of_what_is_mounted_there() {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    for path in [OF_WEBHOOK, "/tmp/k8s-webhook-server/serving-certs/"] {
        let found = pod(json!({"containers": [{"name": "manager", "volumeMounts": [mount("cert", path)]}],
            "volumes": [{"name": "cert", "secret": {"secretName": "webhook-server-cert", "defaultMode": 420}}]}));
        assert_eq!(
            found["containers"][0]["volumeMounts"],
            json!([{"name": "webhook-cert", "mountPath": path}, mounts()[0]])
        );
        // Nobody makes the Secret that it names, and pods would wait for it.
        assert_eq!(found["volumes"], json!(volumes()));
    }
}

#[test]
fn volume_that_somebody_else_mounts_stays() {
    let mount = json!({"name": "cert", "mountPath": OF_WEBHOOK});
    for elsewhere in ["containers", "initContainers"] {
        let mut before =
            json!({"containers": [{"name": "manager", "volumeMounts": [mount]}], "volumes": [{"name": "cert"}]});
        let other = json!({"name": "other", "volumeMounts": [{"name": "cert", "mountPath": "/elsewhere"}]});
        match before.get_mut(elsewhere) {
            Some(containers) => containers.as_array_mut().unwrap().push(other),
            None => before[elsewhere] = json!([other]),
        }
        assert_eq!(pod(before)["volumes"][0], json!({"name": "cert"}), "{elsewhere}");
    }
}

#[test]
fn volume_of_the_same_name_is_replaced_and_its_mounts_stay() {
    let mount = json!({"name": "webhook-cert", "mountPath": "/own", "readOnly": true});
    let found = pod(json!({"containers": [{"name": "manager", "volumeMounts": [mount]}],
        "volumes": [{"name": "webhook-cert", "emptyDir": {}}]}));
    let [of_api, of_webhook] = volumes();
    assert_eq!(found["volumes"], json!([of_webhook, of_api]));
    assert_eq!(found["containers"][0]["volumeMounts"], json!([mount, mounts()[0]]));
}

/// Whoever writes a version may write anything there.
#[test]
fn pods_of_any_form_are_no_panic() {
    for nonsense in [
        json!(null),
        json!(7),
        json!({"containers": 7}),
        json!({"containers": [7, {"volumeMounts": 7}], "volumes": {}}),
    ] {
        assert_eq!(pod(nonsense)["volumes"], json!(volumes()));
    }
}
