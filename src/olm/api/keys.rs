//! Labels, annotations and finalizers that objects of operator lifecycle carry, by the kind of key. Consoles, scripts and operators
//! read them, so their text is part of the API.

/// Labels. Their values are up to 63 characters long.
pub mod label {
    /// On everything that is created here, with the value `true`: watches are filtered by it. ConfigMaps that hold a catalog have
    /// the value `false`.
    pub const MANAGED: &str = "olm.managed";
    /// Name of the owner, on objects that cannot name it in `ownerReferences`.
    pub const OWNER: &str = "olm.owner";
    pub const OWNER_NAMESPACE: &str = "olm.owner.namespace";
    /// `ClusterServiceVersion` or `OperatorGroup`.
    pub const OWNER_KIND: &str = "olm.owner.kind";
    /// On copies of ClusterServiceVersions, Roles and RoleBindings: the namespace of the original.
    pub const COPIED_FROM: &str = "olm.copiedFrom";
    /// On Roles that a plan has given an operator with the rights of this process: `true` where the operator gets the same in the other
    /// namespaces that its OperatorGroup selects. Who may not give any right may not write such a Role.
    pub const FOR_TARGETS: &str = "olm.operatorframework.io/for-targets";
    /// On target namespaces of an OperatorGroup, followed by its uid; the value is empty. Webhooks select by it.
    pub const OPERATOR_GROUP_UID: &str = "olm.operatorgroup.uid/";
    /// On ClusterServiceVersions, followed by the hash of `<Kind>.<version>.<group>`: `provided` or `required`.
    pub const API: &str = "olm.api.";
    /// On ClusterRoles of an API, followed by its hash, `-` and `admin`, `edit` or `view`: `true`.
    pub const AGGREGATE_TO: &str = "olm.opgroup.permissions/aggregate-to-";
    /// On what serves a catalog: its name, or nothing while a new pod is not in use yet.
    pub const CATALOG_SOURCE: &str = "olm.catalogSource";
    /// On a pod with the next content of a catalog: the name of the catalog.
    pub const CATALOG_UPDATE: &str = "catalogsource.operators.coreos.com/update";
    /// Hashes of what generated objects were generated as.
    pub const POD_SPEC_HASH: &str = "olm.pod-spec-hash";
    pub const SERVICE_SPEC_HASH: &str = "olm.service-spec-hash";
    pub const DEPLOYMENT_SPEC_HASH: &str = "olm.deployment-spec-hash";
    /// On generated roles and bindings: the hash of the permissions that they were made from.
    pub const PERMISSIONS_HASH: &str = "olm.permissions.hash";
    /// On the pod of a catalog in a ConfigMap: the resourceVersion of that ConfigMap.
    pub const CONFIG_MAP_RESOURCE_VERSION: &str = "olm.configMapResourceVersion";
    /// On the webhook configurations of a ClusterServiceVersion.
    pub const WEBHOOK_GENERATE_NAME: &str = "olm.webhook-description-generate-name";
    pub const WEBHOOK_HASH: &str = "olm.webhook-description-hash";
    /// On Jobs and pods that unpack a bundle: which one.
    pub const BUNDLE_UNPACK_REF: &str = "operatorframework.io/bundle-unpack-ref";
    /// On components of an Operator, followed by `<package>.<namespace>`; the value is empty.
    pub const COMPONENT_OF: &str = "operators.coreos.com/";
    /// On a ClusterServiceVersion whose state a ClusterOperator reports: the name of that ClusterOperator.
    pub const CLUSTER_OPERATOR: &str = "olm.clusteroperator.name";
    /// On PackageManifests: name and namespace of their catalog.
    pub const CATALOG: &str = "catalog";
    pub const CATALOG_NAMESPACE: &str = "catalog-namespace";
    /// On PackageManifests: name and address of who provides the package.
    pub const PROVIDER: &str = "provider";
    pub const PROVIDER_URL: &str = "provider-url";
    /// On PackageManifests, followed by the name of an operating system or architecture: `supported`.
    pub const OPERATING_SYSTEM: &str = "operatorframework.io/os.";
    pub const ARCHITECTURE: &str = "operatorframework.io/arch.";
}

/// Annotations.
pub mod annotation {
    /// On ClusterServiceVersions and their copies: name and namespace of the OperatorGroup.
    pub const OPERATOR_GROUP: &str = "olm.operatorGroup";
    pub const OPERATOR_NAMESPACE: &str = "olm.operatorNamespace";
    /// On ClusterServiceVersions, not on copies: the target namespaces, sorted, with commas; empty means all of them.
    pub const TARGET_NAMESPACES: &str = "olm.targetNamespaces";
    /// On copies of ClusterServiceVersions: the hash of what was copied.
    pub const COPIED_CONTENT: &str = "olm.operatorframework.io/copied-content";
    /// On an OperatorGroup: the APIs of its members as `<Kind>.<version>.<group>`, sorted, with commas.
    pub const PROVIDED_APIS: &str = "olm.providedAPIs";
    /// On a CatalogSource: the image with variables in braces, which follow the version of Kubernetes.
    pub const CATALOG_IMAGE_TEMPLATE: &str = "olm.catalogImageTemplate";
    /// On a CatalogSource: comes before `spec.grpcPodConfig.priorityClassName`.
    pub const PRIORITY_CLASS: &str = "operatorframework.io/priorityclass";
    /// On a CatalogSource: `pod` where pods are to serve it.
    pub const CATALOG_SERVING: &str = "olm.operatorframework.io/catalog-serving";
    /// On a Subscription: `true` where other catalogs that its namespace sees may stand in for its own.
    pub const OTHER_CATALOGS: &str = "olm.operatorframework.io/other-catalogs";
    /// On a ClusterServiceVersion: `{"properties": [{"type", "value"}]}`, the properties of its bundle as JSON.
    pub const PROPERTIES: &str = "operatorframework.io/properties";
    /// On a ClusterServiceVersion: versions that it can be installed over.
    pub const SKIP_RANGE: &str = "olm.skipRange";
    /// On an OperatorGroup: how long unpacking a bundle may take; comes before the flag.
    pub const BUNDLE_UNPACK_TIMEOUT: &str = "operatorframework.io/bundle-unpack-timeout";
    /// On an OperatorGroup: when unpacking that failed is tried again.
    pub const BUNDLE_UNPACK_MIN_RETRY_INTERVAL: &str = "operatorframework.io/bundle-unpack-min-retry-interval";
    /// On an OperatorGroup: `true` where the catalogs of the global namespace do not count.
    pub const EXCLUDE_GLOBAL_CATALOGS: &str = "olm.operatorframework.io/exclude-global-namespace-resolution";
    /// On an OperatorGroup: `per-operator` where each operator of its namespace, with what it depends on, has InstallPlans of its own.
    pub const PLANS: &str = "olm.operatorframework.io/plans";
    /// On an InstallPlan: what it changes, in lines for people.
    pub const CHANGES: &str = "olm.operatorframework.io/changes";
    /// On a CustomResourceDefinition, followed by the hash of its value: `<namespace>/<name>` of a ClusterServiceVersion that brought it.
    pub const INSTALLED_ALONGSIDE: &str = "operatorframework.io/installed-alongside-";
    /// On a Subscription that a dependency asked for: the InstallPlan that made it.
    pub const GENERATED_BY: &str = "olm.generated-by";
    /// On a ConfigMap with the content of a bundle: its image, and how its files are encoded.
    pub const SOURCE_IMAGE: &str = "olm.sourceImage";
    pub const CONTENT_ENCODING: &str = "olm.contentEncoding";
    /// On pods and Secrets with certificates: the hash of the authority.
    pub const CA_HASH: &str = "olmcahash";
    /// On Deployments of operators: what their Subscription said of them last, as JSON.
    pub const SUBSCRIPTION_CONFIG: &str = "olm.operatorframework.io/subscription-config";
    /// On pods that serve a catalog, with the value `true`: their node may be removed.
    pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
}

/// Finalizer of a ClusterServiceVersion that has objects outside of its namespace.
pub const CLEANUP_FINALIZER: &str = "operators.coreos.com/csv-cleanup";
