use super::*;
use crate::olm::api::catalog_source::Icon;
use crate::olm::api::cluster_service_version::*;
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

fn texts() -> Vec<String> {
    vec!["text".into()]
}

fn descriptors() -> Descriptors {
    let descriptor = Descriptor {
        path: "size".into(),
        display_name: "Size".into(),
        description: "How many".into(),
        x_descriptors: texts(),
        value: Some(json!("AAA=")),
    };
    Descriptors {
        resources: vec![ResourceReference { name: "pods".into(), kind: "Pod".into(), version: "v1".into() }],
        spec_descriptors: vec![descriptor.clone()],
        status_descriptors: vec![descriptor.clone()],
        action_descriptors: vec![descriptor],
    }
}

fn crd() -> CrdDescription {
    CrdDescription {
        name: "etcds.example.com".into(),
        version: "v1".into(),
        kind: "Etcd".into(),
        display_name: "etcd".into(),
        description: "A database".into(),
        descriptors: descriptors(),
    }
}

fn api_service() -> ApiServiceDescription {
    ApiServiceDescription {
        name: "etcds".into(),
        group: "example.com".into(),
        version: "v1".into(),
        kind: "Etcd".into(),
        deployment_name: "etcd".into(),
        container_port: Some(5443),
        display_name: "etcd".into(),
        description: "A database".into(),
        descriptors: descriptors(),
    }
}

fn permissions() -> StrategyPermissions {
    StrategyPermissions {
        service_account_name: "etcd".into(),
        rules: vec![PolicyRule {
            api_groups: Some(texts()),
            resources: Some(texts()),
            resource_names: Some(texts()),
            non_resource_urls: Some(texts()),
            verbs: texts(),
        }],
    }
}

fn webhook() -> WebhookDescription {
    WebhookDescription {
        generate_name: "check.example.com".into(),
        type_: WebhookType::Validating,
        deployment_name: "etcd".into(),
        container_port: Some(443),
        target_port: Some(IntOrString::Int(4343)),
        rules: vec![RuleWithOperations {
            api_groups: Some(texts()),
            api_versions: Some(texts()),
            operations: Some(texts()),
            resources: Some(texts()),
            scope: Some("*".into()),
        }],
        failure_policy: Some("Fail".into()),
        match_policy: Some("Exact".into()),
        object_selector: Some(selector()),
        side_effects: "None".into(),
        timeout_seconds: Some(5),
        admission_review_versions: texts(),
        reinvocation_policy: Some("Never".into()),
        webhook_path: Some("/check".into()),
        conversion_crds: texts(),
    }
}

fn install() -> InstallStrategy {
    let deployment = StrategyDeployment {
        name: "etcd".into(),
        label: labels(),
        spec: json!({"replicas": 1, "selector": {"matchLabels": {"app": "etcd"}},
            "template": {"metadata": {}, "spec": {"containers": []}}, "strategy": {}}),
    };
    let details = StrategyDetails {
        deployments: vec![deployment],
        permissions: vec![permissions()],
        cluster_permissions: vec![permissions()],
    };
    InstallStrategy { strategy: STRATEGY_DEPLOYMENT.into(), spec: Some(details) }
}

fn spec() -> ClusterServiceVersionSpec {
    let link = Link { name: "Home".into(), url: "https://example.com".into() };
    ClusterServiceVersionSpec {
        display_name: "etcd".into(),
        description: "A database".into(),
        keywords: texts(),
        maintainers: vec![Maintainer { name: "A".into(), email: "a@example.com".into() }],
        provider: link.clone(),
        links: vec![link],
        icon: vec![Icon { base64data: "AAA=".into(), mediatype: "image/png".into() }],
        labels: labels(),
        annotations: labels(),
        selector: Some(selector()),
        maturity: "alpha".into(),
        version: "1.0.0".into(),
        release: "2".into(),
        min_kube_version: "1.30.0".into(),
        replaces: "etcd.v0".into(),
        skips: texts(),
        install: install(),
        custom_resource_definitions: CustomResourceDefinitions { owned: vec![crd()], required: vec![crd()] },
        api_service_definitions: ApiServiceDefinitions { owned: vec![api_service()], required: vec![api_service()] },
        webhook_definitions: vec![webhook()],
        native_apis: vec![NativeApi { group: "g".into(), version: "v1".into(), kind: "K".into() }],
        install_modes: vec![InstallMode { type_: InstallModeType::AllNamespaces, supported: true }],
        related_images: vec![RelatedImage { name: "etcd".into(), image: "example.com/etcd".into() }],
        cleanup: Some(CleanupSpec { enabled: true }),
    }
}

fn status() -> ClusterServiceVersionStatus {
    let dependent = DependentStatus {
        group: "rbac.authorization.k8s.io".into(),
        version: "v1".into(),
        kind: "PolicyRule".into(),
        status: Requirement::NotSatisfied,
        message: "cluster rule".into(),
        uuid: "5d8f1f0a".into(),
    };
    ClusterServiceVersionStatus {
        phase: Phase::Pending,
        reason: reason::REQUIREMENTS_NOT_MET.into(),
        message: "something is missing".into(),
        last_update_time: Some(time()),
        last_transition_time: Some(time()),
        conditions: vec![ClusterServiceVersionCondition {
            phase: Phase::Pending,
            reason: reason::REQUIREMENTS_UNKNOWN.into(),
            message: "not yet checked".into(),
            last_update_time: Some(time()),
            last_transition_time: Some(time()),
        }],
        requirement_status: vec![RequirementStatus {
            group: String::new(),
            version: "v1".into(),
            kind: "ServiceAccount".into(),
            name: "etcd".into(),
            status: Requirement::PresentNotSatisfied,
            message: "rights are missing".into(),
            uuid: "5d8f1f0a".into(),
            dependents: vec![dependent],
        }],
        certs_last_updated: Some(time()),
        certs_rotate_at: Some(time()),
        cleanup: Some(Cleanup {
            pending_deletion: vec![PendingDeletion {
                group: "example.com".into(),
                kind: "Etcd".into(),
                instances: vec![Instance { namespace: "team".into(), name: "db".into() }],
            }],
        }),
    }
}

pub(in crate::olm::api::tests) fn full() -> Value {
    let mut object = ClusterServiceVersion::new("etcd.v1", spec());
    object.status = Some(status());
    json_of(&object)
}

/// The spec of a Deployment stays as it was written, and is therefore never empty.
pub(in crate::olm::api::tests) fn least() -> Value {
    let deployment =
        StrategyDeployment { spec: json!({"selector": {}, "template": {}}), ..StrategyDeployment::default() };
    let permissions = StrategyPermissions { rules: vec![PolicyRule::default()], ..StrategyPermissions::default() };
    let details =
        StrategyDetails { deployments: vec![deployment], permissions: vec![permissions], ..StrategyDetails::default() };
    let crd = CrdDescription {
        descriptors: Descriptors {
            resources: vec![ResourceReference::default()],
            spec_descriptors: vec![Descriptor::default()],
            ..Descriptors::default()
        },
        ..CrdDescription::default()
    };
    let spec = ClusterServiceVersionSpec {
        install: InstallStrategy { strategy: String::new(), spec: Some(details) },
        icon: vec![Icon::default()],
        custom_resource_definitions: CustomResourceDefinitions { owned: vec![crd], required: Vec::new() },
        api_service_definitions: ApiServiceDefinitions {
            owned: vec![ApiServiceDescription::default()],
            required: Vec::new(),
        },
        webhook_definitions: vec![WebhookDescription { type_: WebhookType::Mutating, ..WebhookDescription::default() }],
        native_apis: vec![NativeApi::default()],
        install_modes: vec![InstallMode::default()],
        related_images: vec![RelatedImage::default()],
        cleanup: Some(CleanupSpec::default()),
        ..ClusterServiceVersionSpec::default()
    };
    let mut object = ClusterServiceVersion::new("etcd.v1", spec);
    let pending = PendingDeletion { instances: vec![Instance::default()], ..PendingDeletion::default() };
    object.status = Some(ClusterServiceVersionStatus {
        conditions: vec![ClusterServiceVersionCondition::default()],
        requirement_status: vec![RequirementStatus {
            dependents: vec![DependentStatus::default()],
            ..RequirementStatus::default()
        }],
        cleanup: Some(Cleanup { pending_deletion: vec![pending] }),
        ..ClusterServiceVersionStatus::default()
    });
    json_of(&object)
}
