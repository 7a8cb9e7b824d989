use super::*;
use crate::olm::api::subscription::*;

fn config() -> SubscriptionConfig {
    SubscriptionConfig {
        selector: Some(selector()),
        node_selector: Some(labels()),
        tolerations: vec![toleration()],
        resources: Some(
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": 1}, "claims": [{"name": "n", "request": "r"}]}),
        ),
        env_from: vec![json!({"configMapRef": {"name": "m"}})],
        env: vec![json!({"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})],
        volumes: vec![json!({"name": "v", "emptyDir": {}})],
        volume_mounts: vec![json!({"name": "v", "mountPath": "/v", "readOnly": true})],
        affinity: Some(affinity()),
        annotations: labels(),
    }
}

fn spec() -> SubscriptionSpec {
    SubscriptionSpec {
        source: "community".into(),
        source_namespace: "olm".into(),
        name: "etcd".into(),
        channel: "alpha".into(),
        starting_csv: "etcd.v1".into(),
        install_plan_approval: Some(Approval::Manual),
        config: Some(config()),
    }
}

fn status() -> SubscriptionStatus {
    SubscriptionStatus {
        current_csv: "etcd.v2".into(),
        installed_csv: "etcd.v1".into(),
        installplan: Some(InstallPlanReference {
            api_version: "operators.coreos.com/v1alpha1".into(),
            kind: "InstallPlan".into(),
            name: "install-abcde".into(),
            uuid: "5d8f1f0a".into(),
        }),
        install_plan_ref: Some(reference()),
        install_plan_generation: Some(2),
        state: State::UpgradePending,
        reason: "waits".into(),
        last_updated: time(),
        catalog_health: vec![CatalogHealth { catalog_source_ref: reference(), last_updated: time(), healthy: true }],
        conditions: vec![SubscriptionCondition {
            type_: condition::RESOLUTION_FAILED.into(),
            status: ConditionStatus::True,
            reason: reason::CONSTRAINTS_NOT_SATISFIABLE.into(),
            message: "nobody provides it".into(),
            last_heartbeat_time: Some(time()),
            last_transition_time: Some(time()),
        }],
    }
}

pub(in crate::olm::api::tests) fn full() -> Value {
    let mut object = Subscription::new("etcd", spec());
    object.status = Some(status());
    json_of(&object)
}

pub(in crate::olm::api::tests) fn least() -> Value {
    let mut object = Subscription::new("etcd", SubscriptionSpec::default());
    object.spec.config = Some(SubscriptionConfig::default());
    object.status = Some(SubscriptionStatus {
        current_csv: String::new(),
        installed_csv: String::new(),
        installplan: Some(InstallPlanReference::default()),
        install_plan_ref: None,
        install_plan_generation: None,
        state: State::None,
        reason: String::new(),
        last_updated: time(),
        catalog_health: Vec::new(),
        conditions: Vec::new(),
    });
    json_of(&object)
}
