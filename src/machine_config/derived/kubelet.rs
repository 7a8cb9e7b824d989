//! The file that the kubelet reads in addition to its own, if it was started with `--config-dir`.

use crate::machine_config::api::node_config::KubeletConfigSpec;
use crate::merge::inject::Tls;
use serde_json::{Map, Value, json};

/// The folder that the kubelet's `--config-dir` names.
pub(crate) const FOLDER: &str = "/etc/kubernetes/kubelet.conf.d";

/// What belongs to the cluster, or to how the node was installed: a kubelet that differs in these does not work with it.
const OF_THE_CLUSTER: [&str; 7] = [
    "cgroupDriver",
    "clusterDNS",
    "clusterDomain",
    "containerRuntimeEndpoint",
    "providerID",
    "runtimeRequestTimeout",
    "staticPodPath",
];

// The fields of `KubeletConfiguration` (kubelet.config.k8s.io/v1beta1) by the type of their values. A kubelet does not start
// with a field that it does not know, or with a value of another type.
const FLAGS: &str = "enableServer rotateCertificates serverTLSBootstrap enableDebuggingHandlers enableContentionProfiling \
    cgroupsPerQOS singleProcessOOMKill runOnce cpuCFSQuota serializeImagePulls mergeDefaultEvictionSettings \
    enableControllerAttachDetach protectKernelDefaults makeIPTablesUtilChains failSwapOn kernelMemcgNotification \
    enableSystemLogHandler enableSystemLogQuery enableProfilingHandler enableDebugFlagsHandler seccompDefault registerNode \
    localStorageCapacityIsolation failCgroupV1";
const TEXTS: &str = "podLogsDir staticPodURL address tlsCertFile tlsPrivateKeyFile tlsMinVersion healthzBindAddress \
    kubeletCgroups systemCgroups cgroupRoot cpuManagerPolicy memoryManagerPolicy topologyManagerPolicy \
    topologyManagerScope hairpinMode podCIDR resolvConf contentType containerLogMaxSize reservedSystemCPUs \
    showHiddenMetricsForVersion systemReservedCgroup kubeReservedCgroup volumePluginDir imageServiceEndpoint \
    imagePullCredentialsVerificationPolicy configMapAndSecretChangeDetectionStrategy memoryReservationPolicy";
const TIMES: &str = "syncFrequency fileCheckFrequency httpCheckFrequency streamingConnectionIdleTimeout \
    nodeStatusUpdateFrequency nodeStatusReportFrequency imageMinimumGCAge imageMaximumGCAge volumeStatsAggPeriod \
    cpuManagerReconcilePeriod cpuCFSQuotaPeriod evictionPressureTransitionPeriod containerLogMonitorInterval \
    shutdownGracePeriod shutdownGracePeriodCriticalPods";
const NUMBERS: &str = "port readOnlyPort registryPullQPS registryBurst eventRecordQPS eventBurst healthzPort oomScoreAdj \
    nodeLeaseDurationSeconds imageGCHighThresholdPercent imageGCLowThresholdPercent maxPods podPidsLimit \
    nodeStatusMaxImages maxOpenFiles kubeAPIQPS kubeAPIBurst maxParallelImagePulls evictionMaxPodGracePeriod podsPerCore \
    iptablesMasqueradeBit iptablesDropBit containerLogMaxFiles containerLogMaxWorkers";
const FRACTIONS: &str = "memoryThrottlingFactor";
const LISTS: &str = "tlsCipherSuites tlsCurvePreferences preloadedImagesVerificationAllowlist enforceNodeAllocatable \
    allowedUnsafeSysctls shutdownGracePeriodByPodPriority reservedMemory registerWithTaints";
const TEXTS_BY_NAME: &str = "cpuManagerPolicyOptions topologyManagerPolicyOptions qosReserved evictionHard evictionSoft \
    evictionSoftGracePeriod evictionMinimumReclaim systemReserved kubeReserved defaultPodSysctls";
const FLAGS_BY_NAME: &str = "featureGates";
const OBJECTS: &str =
    "staticPodURLHeader authentication authorization memorySwap logging crashLoopBackOff tracing userNamespaces";

type Check = fn(&Value) -> bool;

const TYPES: [(&str, &str, Check); 9] = [
    (FLAGS, "true or false", Value::is_boolean),
    (TEXTS, "text", Value::is_string),
    (TIMES, "a time such as 30s", is_time),
    (NUMBERS, "a whole number", |value| value.is_i64()),
    (FRACTIONS, "a number", Value::is_number),
    (LISTS, "a list", Value::is_array),
    (TEXTS_BY_NAME, "names with texts", |value| is_each(value, Value::is_string)),
    (FLAGS_BY_NAME, "names with true or false", |value| is_each(value, Value::is_boolean)),
    (OBJECTS, "an object", Value::is_object),
];

/// As Go reads it: numbers with units, such as `1m30s`, or 0.
pub(super) fn is_time(value: &Value) -> bool {
    let Some(text) = value.as_str() else { return false };
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut rest = unsigned;
    while !rest.is_empty() && unsigned != "0" {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        let units = ["ns", "us", "µs", "ms", "s", "m", "h"];
        // `ms` before `m`, and `s` last of those that end in it.
        let Some(unit) = units.into_iter().find(|unit| after.starts_with(unit)) else { return false };
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return false;
        }
        rest = after.strip_prefix(unit).unwrap_or_default();
    }
    !unsigned.is_empty()
}

fn is_each(value: &Value, is: fn(&Value) -> bool) -> bool {
    value.as_object().is_some_and(|values| values.values().all(is))
}

/// The path and the contents.
pub(super) fn file(name: &str, spec: &KubeletConfigSpec) -> Result<(String, String), String> {
    let mut fields = spec.kubelet_config.clone().unwrap_or_default();
    // They name the type of the file, and are added below.
    fields.remove("apiVersion");
    fields.remove("kind");
    for (field, value) in &fields {
        check(field, value)?;
    }
    if let Some(level) = spec.log_level {
        let logging = fields.entry("logging").or_insert_with(|| json!({}));
        if let Some(logging) = logging.as_object_mut() {
            logging.insert("verbosity".to_owned(), json!(level));
        }
    }
    if let Some(profile) = &spec.tls_security_profile {
        let tls = Tls::of(Some(&json!({"spec": {"tlsSecurityProfile": profile}})));
        let settings = [("tlsMinVersion", json!(tls.min_version)), ("tlsCipherSuites", json!(tls.ciphers))];
        for (field, value) in settings {
            if fields.insert(field.to_owned(), value).is_some() {
                return Err(format!("spec.kubeletConfig.{field} and spec.tlsSecurityProfile both say it: remove one"));
            }
        }
    }
    if spec.auto_sizing_reserved == Some(true) {
        return Err("autoSizingReserved needs a service on the node that this component does not bring: set \
             kubeletConfig.systemReserved, and remove autoSizingReserved"
            .to_owned());
    }
    if fields.is_empty() {
        return Err("it sets nothing: set spec.kubeletConfig, spec.logLevel or spec.tlsSecurityProfile".to_owned());
    }
    Ok((format!("{FOLDER}/50-{name}.conf"), contents(fields)))
}

fn check(field: &str, value: &Value) -> Result<(), String> {
    if OF_THE_CLUSTER.contains(&field) {
        return Err(format!("kubeletConfig.{field} is a setting of the cluster as a whole: remove it"));
    }
    let listed = |names: &str| names.split_whitespace().any(|name| name == field);
    match TYPES.iter().find(|(names, ..)| listed(names)) {
        None => Err(format!(
            "kubeletConfig.{field} is no field that is known here, and a kubelet that does not know it does not start: \
             correct it; a field of a newer kubelet can be written by a MachineConfig, as a file in {FOLDER}"
        )),
        Some((_, wanted, is)) if !is(value) => {
            Err(format!("kubeletConfig.{field} is {}: set {wanted}", crate::error::shortened(&value.to_string(), 100)))
        }
        Some(_) => Ok(()),
    }
}

/// JSON is YAML, too.
fn contents(fields: Map<String, Value>) -> String {
    let mut all = json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"});
    if let Some(all) = all.as_object_mut() {
        all.extend(fields);
    }
    format!("{all:#}\n")
}
