//! The real node: containerd, kubelet, and what makes Services reachable.

use std::{net::SocketAddr, path::PathBuf};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::net::{TcpStream, UnixStream};

use super::{
    cgroup,
    error::Result,
    files, image, network,
    process::{self, Launch},
    programs, ready, registry,
    site::Site,
    toolbox::is_oldest_kubernetes,
};

/// The image whose process holds a pod's namespaces. Nothing can be pulled from outside, so it contains the program
/// `lab`, which pods of tests may run too.
pub const PAUSE_IMAGE: &str = "cvo.invalid/lab/pause:1";

/// Starts everything that does not need the API server: network, cgroup, containerd with the pause image.
pub async fn prepare(site: &Site) -> Result<()> {
    let lab = programs::lab()?;
    network::make(site)?;
    cgroup::make(site)?;
    for dir in [site.run_dir(), site.dir().join("payloads"), site.dir().join("pods")] {
        files::make_dir(&dir)?;
    }
    files::write_json(&site.dir().join("cni/10-pods.conflist"), &network::cni(site))?;
    files::write(&site.dir().join("containerd.toml"), containerd_config(site))?;
    let registry = format!("127.0.0.1:{}", site.ports().registry);
    let hosts = format!(
        "server = \"http://{registry}\"\n[host.\"http://{registry}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
    );
    files::write(&site.dir().join("certs.d").join(&registry).join("hosts.toml"), hosts)?;
    let (for_pods, authority) = (registry::for_pods(site), site.pki("ca.crt"));
    let hosts = format!(
        "server = \"https://{for_pods}\"\n[host.\"https://{for_pods}\"]\ncapabilities = [\"pull\", \"resolve\"]\nca = \"{}\"\n\
         [host.\"https://{for_pods}\".header]\n{} = [\"{}\"]\n",
        authority.display(),
        registry::OF_NODE.0,
        registry::OF_NODE.1
    );
    files::write(&site.dir().join("certs.d").join(&for_pods).join("hosts.toml"), hosts)?;
    let arguments = [format!("--config={}", site.dir().join("containerd.toml").display())];
    site.spawn(&Launch::new("containerd", site.tools().node("containerd"), arguments))?;

    let archive = site.dir().join("pause.tar");
    image::write_archive(&archive, PAUSE_IMAGE, &lab, &["pause"])?;
    let socket = socket(site);
    let listens = ready::until("containerd to listen", site, &["containerd"]);
    listens.answer(async || UnixStream::connect(&socket).await).await?;
    import(site, &archive).await
}

/// Makes Services reachable: by their addresses, and by their names for pods.
async fn start_services(site: &Site) -> Result<()> {
    let kubernetes = SocketAddr::from((site.service_address(), 443));
    let arguments = [
        "services".to_owned(),
        format!("--kubeconfig={}", site.admin_kubeconfig().display()),
        format!("--kubernetes={kubernetes}"),
        format!("--apiserver=127.0.0.1:{}", site.ports().apiserver),
        format!("--dns={}:53", site.dns_address()),
    ];
    site.spawn(&Launch::new("services", programs::lab()?, arguments))?;
    let listens = ready::until("Services to be reachable", site, &["services"]);
    listens.answer(async || TcpStream::connect(kubernetes).await).await?;
    Ok(())
}

/// Loads an image archive into the node's containerd.
pub async fn import(site: &Site, archive: &std::path::Path) -> Result<()> {
    let mut command = tokio::process::Command::new(site.tools().node("ctr"));
    command.arg("--address").arg(socket(site)).args(["--namespace", "k8s.io", "images", "import"]).arg(archive);
    process::output("ctr images import", command).await.map(|_| ())
}

/// Starts kubelet and waits until the node is Ready and accepts pods.
pub async fn start(site: &Site, client: Client) -> Result<()> {
    start_services(site).await?;
    files::write_json(&site.dir().join("kubelet.json"), &kubelet_config(site))?;
    let arguments = [
        format!("--config={}", site.dir().join("kubelet.json").display()),
        format!("--kubeconfig={}", site.pki("kubelet.kubeconfig").display()),
        format!("--root-dir={}", site.dir().join("kubelet").display()),
        format!("--cert-dir={}", site.dir().join("kubelet/pki").display()),
        format!("--hostname-override={}", site.node_name()),
        format!("--node-ip={}", site.node_address()),
    ];
    site.spawn(&Launch::new("kubelet", site.tools().go("kubelet"), arguments))?;
    let nodes: Api<Node> = Api::all(client);
    let name = site.node_name();
    let wait = ready::until("the node to be Ready", site, &["kubelet", "containerd"]);
    wait.existing(nodes.clone(), &name, takes_pods).await?;
    // A kubelet may not give itself a role.
    nodes.patch(&name, &PatchParams::default(), &Patch::Merge(of_control_plane())).await?;
    Ok(())
}

/// Makes a node one of the control plane, where the daemons run.
pub(crate) fn of_control_plane() -> serde_json::Value {
    json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}})
}

/// Ready, and without the taint that a new node has at first.
fn takes_pods(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    ready && taints.is_none_or(Vec::is_empty)
}

fn socket(site: &Site) -> PathBuf {
    site.run_dir().join("containerd.sock")
}

/// All paths belong to the cluster, so that several containerds can run at once.
fn containerd_config(site: &Site) -> String {
    let run = site.run_dir().display().to_string();
    let dir = site.dir().display().to_string();
    let cni = site.tools().cni().display().to_string();
    format!(
        r#"version = 2
root = "{dir}/containerd"
state = "{run}/containerd"
# Plugins that this node does not use; some of them write outside root and state.
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[grpc]
address = "{run}/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# In a container root may lack the capability to lower a process's oom_score_adj.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{dir}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{run}/runc"

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{dir}/certs.d"
"#
    )
}

fn kubelet_config(site: &Site) -> serde_json::Value {
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": site.node_address(),
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": site.ports().kubelet_health,
        "tlsCertFile": site.pki("kubelet-serving.crt"),
        "tlsPrivateKeyFile": site.pki("kubelet-serving.key"),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": false},
            "x509": {"clientCAFile": site.pki("ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{}", socket(site).display()),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", site.cgroup()),
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        // A full disk must neither evict the test's pods nor remove images, which could not be pulled again.
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": false,
        "podLogsDir": site.dir().join("pods"),
        "volumePluginDir": site.dir().join("volume-plugins"),
        "resolvConf": "",
        "clusterDNS": [site.dns_address()],
        "clusterDomain": "cluster.local",
        "serializeImagePulls": false,
        "nodeStatusUpdateFrequency": "2s",
        // Tests kill containers, and the default back-off of five minutes is longer than a test.
        "featureGates": {"KubeletCrashLoopBackOffMax": true},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
    });
    // What came after the oldest Kubernetes.
    let newer = ["failCgroupV1", "featureGates", "crashLoopBackOff"];
    if let Some(fields) = config.as_object_mut().filter(|_| is_oldest_kubernetes()) {
        fields.retain(|name, _| !newer.contains(&name.as_str()));
    }
    config
}
