use super::*;
use crate::olm::api::install_plan::*;
use crate::olm::api::subscription::Approval;

fn spec() -> InstallPlanSpec {
    InstallPlanSpec {
        cluster_service_version_names: vec!["etcd.v1".into()],
        approval: Approval::Manual,
        approved: true,
        generation: Some(2),
        source: "community".into(),
        source_namespace: "olm".into(),
    }
}

fn status() -> InstallPlanStatus {
    InstallPlanStatus {
        phase: InstallPlanPhase::RequiresApproval,
        conditions: vec![InstallPlanCondition {
            type_: condition::INSTALLED.into(),
            status: "False".into(),
            last_update_time: Some(time()),
            last_transition_time: Some(time()),
            reason: reason::INSTALL_COMPONENT_FAILED.into(),
            message: "refused".into(),
        }],
        catalog_sources: vec!["community".into()],
        plan: vec![Step {
            resolving: "etcd.v1".into(),
            resource: StepResource {
                source_name: "community".into(),
                source_namespace: "olm".into(),
                group: "operators.coreos.com".into(),
                version: "v1alpha1".into(),
                kind: "ClusterServiceVersion".into(),
                name: "etcd.v1".into(),
                manifest: "{}".into(),
            },
            optional: true,
            status: StepStatus::WaitingForApi,
        }],
        bundle_lookups: vec![BundleLookup {
            path: "example.com/etcd@sha256:0".into(),
            identifier: "etcd.v1".into(),
            replaces: "etcd.v0".into(),
            catalog_source_ref: reference(),
            conditions: vec![updated_condition()],
            properties: r#"{"properties":[]}"#.into(),
        }],
        attenuated_service_account_ref: Some(reference()),
        start_time: Some(time()),
        message: "waits".into(),
    }
}

pub(in crate::olm::api::tests) fn full() -> Value {
    let mut object = InstallPlan::new("install-abcde", spec());
    object.status = Some(status());
    json_of(&object)
}

pub(in crate::olm::api::tests) fn least() -> Value {
    let mut object = InstallPlan::new("install-abcde", InstallPlanSpec::default());
    object.status = Some(InstallPlanStatus {
        conditions: vec![InstallPlanCondition::default()],
        plan: vec![Step::default()],
        bundle_lookups: vec![BundleLookup::default()],
        ..InstallPlanStatus::default()
    });
    json_of(&object)
}
