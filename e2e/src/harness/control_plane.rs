//! etcd, API server, controller-manager and scheduler, all on loopback.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    certificates::{Authority, Leaf, token_keys},
    error::{HarnessError, Result},
    files,
    kubeconfig::kubeconfig,
    kwok,
    options::Options,
    process::Launch,
    ready::{self, healthy},
    site::Site,
};

/// The common name of the authority that signs the certificates of clients and servers.
const AUTHORITY: &str = "cvo-lab";
/// That of the authority that signs the certificate of the API server once it is exchanged.
const NEXT: &str = "cvo-lab-next";
/// That of the authority whose certificates let the aggregator speak for others.
const FRONT: &str = "cvo-lab-front";
/// That of the authority whose certificates open etcd.
const STORAGE: &str = "cvo-lab-etcd";
/// Folder of etcd's data.
const ETCD: &str = "etcd";

/// Starts everything and waits until it is ready. `write_identities` must be called first.
pub(super) async fn start(site: &Site, options: &Options) -> Result<()> {
    if options.audit {
        files::write_json(&site.dir().join("audit-policy.json"), &audit_policy(options.gates))?;
    }
    // The API server retries until etcd answers, so both can start at once.
    site.spawn(&etcd(site, options))?;
    site.spawn(&apiserver(site, options))?;
    apiserver_ready(site).await?;
    site.spawn(&controller_manager(site, options))?;
    site.spawn(&scheduler(site))?;
    if options.kwok {
        kwok::start(site).await?;
    }
    let ports = site.ports();
    healthy(site, "kube-controller-manager", format!("https://127.0.0.1:{}/healthz", ports.controller_manager)).await?;
    healthy(site, "kube-scheduler", format!("https://127.0.0.1:{}/healthz", ports.scheduler)).await
}

/// Kills the API server and starts it again with the same arguments.
pub(super) async fn restart_apiserver(site: &Site) -> Result<()> {
    site.respawn("kube-apiserver")?;
    apiserver_ready(site).await
}

/// Starts another API server on the same data, which is started as the first one and with more arguments: of a flag that is
/// given twice the last one counts. Returns its URL once it is ready.
pub(super) async fn add_apiserver(site: &Site, name: &str, port: u16, arguments: &[String]) -> Result<String> {
    let mut launch = site.launch("kube-apiserver")?;
    name.clone_into(&mut launch.name);
    launch.arguments.push(format!("--secure-port={port}"));
    launch.arguments.extend_from_slice(arguments);
    site.spawn(&launch)?;
    let server = site.server_at(port);
    serves(site, name, &server).await?;
    Ok(server)
}

/// Gives the API server a certificate of the next authority, and restarts it.
pub(super) async fn exchange_authority(site: &Site) -> Result<()> {
    let next = read_authority(site, NEXT, "next-ca")?;
    write_leaf(site, "serving", &serving(site, &next)?)?;
    restart_apiserver(site).await
}

/// Copies etcd's data to `backup` while nobody writes.
pub(super) async fn back_up(site: &Site, backup: &Path) -> Result<()> {
    offline(site, || files::copy_dir(&site.dir().join(ETCD), backup)).await
}

/// Replaces etcd's data with a backup. Controllers are restarted, as an administrator who restores a backup does.
pub(super) async fn restore(site: &Site, backup: &Path) -> Result<()> {
    let data = site.dir().join(ETCD);
    offline(site, || {
        std::fs::remove_dir_all(&data).map_err(|error| HarnessError::Io(data.clone(), error))?;
        files::copy_dir(backup, &data)
    })
    .await?;
    for name in ["kube-controller-manager", "kube-scheduler", "kwok"].into_iter().filter(|name| site.runs(name)) {
        site.respawn(name)?;
    }
    Ok(())
}

/// Calls `work` while neither the API server nor etcd runs.
async fn offline(site: &Site, work: impl FnOnce() -> Result<()>) -> Result<()> {
    site.stop("kube-apiserver")?;
    site.stop("etcd")?;
    work()?;
    site.respawn("etcd")?;
    site.respawn("kube-apiserver")?;
    apiserver_ready(site).await
}

async fn apiserver_ready(site: &Site) -> Result<()> {
    serves(site, "kube-apiserver", &site.server()).await
}

/// /readyz also waits for the bootstrap RBAC rules, without which only system:masters may do anything.
async fn serves(site: &Site, name: &str, server: &str) -> Result<()> {
    let client = ready::http(site)?;
    let url = format!("{server}/readyz");
    let processes = ["etcd", name];
    let wait = ready::until("the API server to be ready", site, &processes);
    Ok(wait.answer(async || ready::success(&client, &url).await).await?)
}

/// Certificates, token keys and kubeconfigs.
pub(super) fn write_identities(site: &Site, options: &Options) -> Result<()> {
    let authority = Authority::new(AUTHORITY)?;
    write_leaf(site, "ca", &authority.leaf)?;
    let mut trusted = authority.leaf.certificate.clone();
    if options.next_authority {
        let next = Authority::new(NEXT)?;
        write_leaf(site, "next-ca", &next.leaf)?;
        trusted.push_str(&next.leaf.certificate);
    }
    files::write(&site.pki("trusted.crt"), &trusted)?;
    write_leaf(site, "serving", &serving(site, &authority)?)?;
    let node = site.node_address().to_string();
    write_leaf(
        site,
        "kubelet-serving",
        &authority.server(&site.node_name(), &[&node, "127.0.0.1", &site.node_name()])?,
    )?;
    write_leaf(site, "registry", &authority.server("registry", &[&node])?)?;
    // The aggregator authenticates to extension servers with a separate authority, which may speak for any user.
    let front = Authority::new(FRONT)?;
    write_leaf(site, "front-ca", &front.leaf)?;
    write_leaf(site, "front", &front.client("front-proxy", None)?)?;
    // Whoever may write there is above all rules of the cluster, so only the API server may.
    let storage = Authority::new(STORAGE)?;
    files::write(&site.pki("etcd-ca.crt"), &storage.leaf.certificate)?;
    write_leaf(site, "etcd", &storage.member("etcd", &["127.0.0.1", "localhost"])?)?;
    write_leaf(site, "etcd-client", &storage.client("kube-apiserver", None)?)?;
    let (private, public) = token_keys()?;
    files::write(&site.pki("tokens.key"), private)?;
    files::write(&site.pki("tokens.pub"), public)?;

    let admin = authority.client("lab-admin", Some("system:masters"))?;
    write_leaf(site, "admin", &admin)?;
    let node_user = format!("system:node:{}", site.node_name());
    let users = [
        (site.admin_kubeconfig(), admin),
        (site.pki("controller-manager.kubeconfig"), authority.client("system:kube-controller-manager", None)?),
        (site.pki("scheduler.kubeconfig"), authority.client("system:kube-scheduler", None)?),
        (site.pki("kubelet.kubeconfig"), authority.client(&node_user, Some("system:nodes"))?),
    ];
    for (path, client) in users {
        files::write_json(&path, &kubeconfig(&site.server(), &trusted, &client))?;
    }
    Ok(())
}

/// A certificate of the API server, for all names and addresses by which it is called.
fn serving(site: &Site, authority: &Authority) -> Result<Leaf> {
    let service = site.service_address().to_string();
    let hosts = [
        "127.0.0.1",
        "::1",
        "localhost",
        &service,
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    authority.server("kube-apiserver", &hosts)
}

/// A certificate by which the API server, and whoever believes its authority, knows this user.
pub(super) fn client_certificate(site: &Site, user: &str) -> Result<Leaf> {
    signed_by(site, AUTHORITY, "ca", user)
}

/// A certificate for this user by an authority that does not sign those of clients.
pub(super) fn untrusted_certificate(site: &Site, user: &str) -> Result<Leaf> {
    signed_by(site, FRONT, "front-ca", user)
}

fn signed_by(site: &Site, authority: &str, file: &str, user: &str) -> Result<Leaf> {
    read_authority(site, authority, file)?.client(user, None)
}

/// The authority of that name, which was written into these files.
fn read_authority(site: &Site, name: &str, file: &str) -> Result<Authority> {
    let read = |extension: &str| files::read(&site.pki(&format!("{file}.{extension}")));
    Authority::again(name, Leaf { certificate: read("crt")?, key: read("key")? })
}

fn write_leaf(site: &Site, name: &str, leaf: &Leaf) -> Result<()> {
    files::write(&site.pki(&format!("{name}.crt")), &leaf.certificate)?;
    files::write(&site.pki(&format!("{name}.key")), &leaf.key)
}

fn etcd(site: &Site, options: &Options) -> Launch {
    let pki = |name| site.pki(name).display().to_string();
    let client = site.etcd();
    let peer = format!("https://127.0.0.1:{}", site.ports().etcd_peer);
    let mut arguments = vec![
        "--name=lab".to_owned(),
        format!("--data-dir={}", site.dir().join(ETCD).display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-client-http-urls={}", site.etcd_http()),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=lab={peer}"),
        format!("--cert-file={}", pki("etcd.crt")),
        format!("--key-file={}", pki("etcd.key")),
        format!("--trusted-ca-file={}", pki("etcd-ca.crt")),
        "--client-cert-auth=true".to_owned(),
        format!("--peer-cert-file={}", pki("etcd.crt")),
        format!("--peer-key-file={}", pki("etcd.key")),
        format!("--peer-trusted-ca-file={}", pki("etcd-ca.crt")),
        "--peer-client-cert-auth=true".to_owned(),
        // A test cluster need not survive a power failure, and fsync takes most of the time of a write.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    arguments.extend(options.etcd_quota.map(|bytes| format!("--quota-backend-bytes={bytes}")));
    Launch::new("etcd", site.tools().go("etcd"), arguments)
}

fn apiserver(site: &Site, options: &Options) -> Launch {
    let pki = |name| site.pki(name).display().to_string();
    let (listens, advertised) = site.server_addresses();
    let mut arguments = vec![
        format!("--etcd-servers={}", site.etcd()),
        format!("--etcd-cafile={}", pki("etcd-ca.crt")),
        format!("--etcd-certfile={}", pki("etcd-client.crt")),
        format!("--etcd-keyfile={}", pki("etcd-client.key")),
        format!("--bind-address={listens}"),
        format!("--secure-port={}", site.ports().apiserver),
        format!("--advertise-address={advertised}"),
        // The default reconciler would put the advertised address, at which nobody listens, into the endpoints.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--service-cluster-ip-range={}", site.service_network()),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--tls-cert-file={}", pki("serving.crt")),
        format!("--tls-private-key-file={}", pki("serving.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", pki("tokens.pub")),
        format!("--service-account-signing-key-file={}", pki("tokens.key")),
        format!("--kubelet-certificate-authority={}", pki("ca.crt")),
        format!("--kubelet-client-certificate={}", pki("admin.crt")),
        format!("--kubelet-client-key={}", pki("admin.key")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!("--requestheader-client-ca-file={}", pki("front-ca.crt")),
        "--requestheader-allowed-names=front-proxy".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={}", pki("front.crt")),
        format!("--proxy-client-key-file={}", pki("front.key")),
        "--profiling=false".to_owned(),
    ];
    if options.node {
        // It asks aggregated APIs at the endpoints of their Services, as where nothing leads from Services to pods.
        arguments.push("--enable-aggregator-routing=true".to_owned());
    }
    arguments.extend(options.feature_gates.as_ref().map(|gates| format!("--feature-gates={gates}")));
    if options.audit {
        arguments.push(format!("--audit-policy-file={}", site.dir().join("audit-policy.json").display()));
        arguments.push(format!("--audit-log-path={}", site.audit_log().display()));
        // One file: tests that count requests would miss those in a rotated log.
        arguments.push("--audit-log-maxsize=10000".to_owned());
    }
    Launch::new("kube-apiserver", site.tools().go("kube-apiserver"), arguments)
}

/// One event for each request, and what is written into leases, but for those of nodes. Writes that open a gate are logged on
/// arrival too.
fn audit_policy(gates: &[(&str, &str)]) -> Value {
    let workloads = [("apps", "deployments/status"), ("apps", "daemonsets/status"), ("batch", "jobs/status")];
    let gates = workloads.iter().chain(gates).map(|(group, resource)| json!({"group": group, "resources": [resource]}));
    let late = json!(["RequestReceived"]);
    json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
        {"level": "Metadata", "namespaces": ["kube-node-lease"], "omitStages": late},
        {"level": "Request", "verbs": ["create", "update", "patch"], "omitStages": late,
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {"level": "Metadata", "verbs": ["update", "patch"], "resources": gates.collect::<Vec<_>>()},
        {"level": "Metadata", "omitStages": late},
    ]})
}

fn controller_manager(site: &Site, options: &Options) -> Launch {
    let pki = |name| site.pki(name).display().to_string();
    let mut arguments = vec![
        format!("--kubeconfig={}", pki("controller-manager.kubeconfig")),
        format!("--authentication-kubeconfig={}", pki("controller-manager.kubeconfig")),
        format!("--authorization-kubeconfig={}", pki("controller-manager.kubeconfig")),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", site.ports().controller_manager),
        format!("--tls-cert-file={}", pki("serving.crt")),
        format!("--tls-private-key-file={}", pki("serving.key")),
        format!("--root-ca-file={}", pki("trusted.crt")),
        format!("--service-account-private-key-file={}", pki("tokens.key")),
        format!("--cluster-signing-cert-file={}", pki("ca.crt")),
        format!("--cluster-signing-key-file={}", pki("ca.key")),
        "--use-service-account-credentials=true".to_owned(),
        "--leader-elect=false".to_owned(),
        // As OpenShift sets them. With the defaults of 20 and 30 the accounts of the controllers take five seconds.
        "--kube-api-qps=150".to_owned(),
        "--kube-api-burst=300".to_owned(),
        format!("--controllers={}", options.controllers.as_deref().unwrap_or("*")),
    ];
    if options.kwok {
        // The pods of a node that is taken for lost become unready, and kwok does not report them as ready again. It may need
        // a minute to notice that the API server was restarted.
        arguments.push("--node-monitor-grace-period=20m".to_owned());
    }
    Launch::new("kube-controller-manager", site.tools().go("kube-controller-manager"), arguments)
}

fn scheduler(site: &Site) -> Launch {
    let pki = |name| site.pki(name).display().to_string();
    let arguments = [
        format!("--kubeconfig={}", pki("scheduler.kubeconfig")),
        format!("--authentication-kubeconfig={}", pki("scheduler.kubeconfig")),
        format!("--authorization-kubeconfig={}", pki("scheduler.kubeconfig")),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", site.ports().scheduler),
        format!("--tls-cert-file={}", pki("serving.crt")),
        format!("--tls-private-key-file={}", pki("serving.key")),
        "--leader-elect=false".to_owned(),
    ];
    Launch::new("kube-scheduler", site.tools().go("kube-scheduler"), arguments)
}
