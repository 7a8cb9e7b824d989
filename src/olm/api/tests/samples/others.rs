use super::*;
use crate::olm::api::olm_config::{Features, OLMConfig, OLMConfigSpec, OLMConfigStatus};
use crate::olm::api::operator::{Component, Components, Operator, OperatorSpec, OperatorStatus};
use crate::olm::api::operator_condition::{
    OperatorCondition, OperatorConditionSpec, OperatorConditionStatus, Override, UPGRADEABLE,
};
use crate::olm::api::operator_group::{
    NamespaceSelector, OperatorGroup, OperatorGroupSpec, OperatorGroupStatus, UpgradeStrategy,
};
use crate::olm::api::operator_hub::{HubSource, HubSourceStatus, OperatorHub, OperatorHubSpec, OperatorHubStatus};

pub(in crate::olm::api::tests) fn olm_config() -> Value {
    let features = Features { disable_copied_csvs: Some(true), package_server_sync_interval: Some("12h".into()) };
    let mut object = OLMConfig::new("cluster", OLMConfigSpec { features: Some(features) });
    object.status = Some(OLMConfigStatus { conditions: vec![meta_condition()] });
    json_of(&object)
}

pub(in crate::olm::api::tests) fn least_olm_config() -> Value {
    let mut object = OLMConfig::new("cluster", OLMConfigSpec::default());
    object.status = Some(OLMConfigStatus::default());
    json_of(&object)
}

pub(in crate::olm::api::tests) fn operator_condition() -> Value {
    let spec = OperatorConditionSpec {
        service_accounts: vec!["etcd".into()],
        deployments: vec!["etcd".into()],
        overrides: vec![Override { observed_generation: Some(3), last_transition_time: Some(time()), ..override_() }],
        conditions: vec![meta_condition()],
    };
    let mut object = OperatorCondition::new("etcd.v1", spec);
    object.status = Some(OperatorConditionStatus { conditions: vec![meta_condition()] });
    json_of(&object)
}

fn override_() -> Override {
    Override {
        type_: UPGRADEABLE.into(),
        status: ConditionStatus::False,
        reason: "Tested".into(),
        message: "it works".into(),
        observed_generation: None,
        last_transition_time: None,
    }
}

pub(in crate::olm::api::tests) fn least_operator_condition() -> Value {
    let spec = OperatorConditionSpec { overrides: vec![override_()], ..OperatorConditionSpec::default() };
    let mut object = OperatorCondition::new("etcd.v1", spec);
    object.status = Some(OperatorConditionStatus::default());
    json_of(&object)
}

pub(in crate::olm::api::tests) fn operator_group() -> Value {
    let spec = OperatorGroupSpec {
        target_namespaces: vec!["a".into()],
        selector: Some(NamespaceSelector { selector: selector(), labels: BTreeMap::default() }),
        service_account_name: "installer".into(),
        service_account: Some(json!({"metadata": {"creationTimestamp": null}})),
        static_provided_apis: true,
        upgrade_strategy: UpgradeStrategy::TechPreviewUnsafeFailForward,
    };
    let mut object = OperatorGroup::new("group", spec);
    object.status = Some(OperatorGroupStatus {
        namespaces: vec!["a".into()],
        service_account_ref: Some(reference()),
        last_updated: time(),
        conditions: vec![meta_condition()],
    });
    json_of(&object)
}

pub(in crate::olm::api::tests) fn least_operator_group() -> Value {
    let mut object = OperatorGroup::new("group", OperatorGroupSpec::default());
    object.status = Some(OperatorGroupStatus {
        namespaces: Vec::new(),
        service_account_ref: None,
        last_updated: time(),
        conditions: Vec::new(),
    });
    json_of(&object)
}

pub(in crate::olm::api::tests) fn operator_hub() -> Value {
    let spec = OperatorHubSpec {
        disable_all_default_sources: true,
        sources: vec![HubSource { name: "community".into(), disabled: false }],
    };
    let mut object = OperatorHub::new("cluster", spec);
    object.status = Some(OperatorHubStatus {
        sources: vec![HubSourceStatus {
            name: "community".into(),
            disabled: false,
            status: "Success".into(),
            message: "as it should be".into(),
        }],
    });
    json_of(&object)
}

pub(in crate::olm::api::tests) fn least_operator_hub() -> Value {
    let mut object = OperatorHub::new("cluster", OperatorHubSpec::default());
    object.status = Some(OperatorHubStatus::default());
    json_of(&object)
}

pub(in crate::olm::api::tests) fn operator() -> Value {
    let mut object = Operator::new("etcd.team", OperatorSpec {});
    let component = Component { reference: reference(), conditions: vec![updated_condition()] };
    let components = Components { label_selector: selector(), refs: vec![component] };
    object.status = Some(OperatorStatus { components: Some(components) });
    json_of(&object)
}

pub(in crate::olm::api::tests) fn least_operator() -> Value {
    let mut object = Operator::new("etcd.team", OperatorSpec {});
    let components = Components { refs: vec![Component::default()], ..Components::default() };
    object.status = Some(OperatorStatus { components: Some(components) });
    json_of(&object)
}
