//! Test clusters: a real etcd, API server, controller-manager and scheduler, and optionally a real node (kubelet and
//! containerd), a registry, and kwok for many fake nodes. Used by the tests, the demo and `hack/cluster`.
//!
//! Everything a cluster has lives in one folder, `${TMPDIR:-/tmp}/cvo-lab/<id>`, and its sockets in
//! `/run/cvo-lab/<id>`. Each cluster has a numbered slot, which determines its ports and networks, so that several
//! clusters can run at once. Processes are identified by process id and start time. A cluster whose owner was killed is
//! removed by the next `up`.

pub mod audit;
mod certificates;
mod cgroup;
mod claim;
mod command;
mod control_plane;
mod error;
pub mod files;
mod image;
mod kubeconfig;
mod kwok;
pub mod machine;
mod network;
pub mod node;
mod options;
pub mod process;
pub mod programs;
mod ready;
mod registry;
mod site;
mod teardown;
mod toolbox;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::{Api, Client, Config, api::ObjectMeta, config::KubeConfigOptions};

use crate::until::Until;
pub use certificates::Leaf;
pub use claim::sweep;
pub use command::{Cvo, Running, Said};
pub use error::{HarnessError, Result};
pub use kubeconfig::set_in_kubeconfig;
pub use options::Options;
pub use process::{Identity, Launch};
pub use programs::Programs;
use site::{Owner, Site};
pub use toolbox::{Toolbox, is_oldest_kubernetes};

/// A running cluster. Dropping it ends the cluster, unless the handle was detached or attached.
#[derive(Debug)]
pub struct Cluster {
    site: Site,
    owned: bool,
    /// Processes that may end by themselves, and what they log each time.
    may_end: Mutex<BTreeMap<String, &'static str>>,
    /// Names of ports that were asked for.
    ports: Mutex<Vec<String>>,
}

impl Cluster {
    /// Starts a cluster and waits until it serves: API server ready, controllers running, the default service
    /// account created, the node Ready and one of the control plane. First removes clusters whose owner was killed.
    pub async fn up(options: Options) -> Result<Self> {
        install_tls_provider();
        let tools = Toolbox::find()?;
        machine::check(&options, &tools)?;
        let wanted = options.clone();
        let site = tokio::task::spawn_blocking(move || claim::claim(&wanted, tools))
            .await
            .map_err(|error| HarnessError::Thread(error.to_string()))??;
        // From here on an early return drops the cluster, which ends everything that was started so far.
        let cluster = Self { site, owned: true, may_end: Mutex::default(), ports: Mutex::default() };
        control_plane::write_identities(&cluster.site, &options)?;
        tokio::try_join!(cluster.start_control_plane(&options), cluster.start_registry(&options), async {
            cluster.prepare_node(&options).await
        })?;
        if options.node {
            node::start(&cluster.site, cluster.client().await?).await?;
        }
        Ok(cluster)
    }

    /// Leaves the cluster running when this process ends; `Cluster::attach` finds it again by its id.
    pub fn detach(mut self) -> Result<()> {
        self.site.set_owner(Owner::Nobody)?;
        self.owned = false;
        Ok(())
    }

    /// A handle on a running cluster, which it does not end when dropped.
    pub fn attach(id: &str) -> Result<Self> {
        install_tls_provider();
        Ok(Self { site: Site::open(id)?, owned: false, may_end: Mutex::default(), ports: Mutex::default() })
    }

    /// The ids of all clusters that have a folder.
    pub fn list() -> Result<Vec<String>> {
        Site::list()
    }

    /// Ends every process and removes everything the cluster had on this machine. It is an error if one of its processes
    /// has ended by itself (see `may_end`) or panicked.
    pub async fn down(mut self) -> Result<()> {
        let well = if self.owned { self.check_processes() } else { Ok(()) };
        self.owned = false;
        let site = self.site.clone();
        tokio::task::spawn_blocking(move || claim::release(&site))
            .await
            .map_err(|error| HarnessError::Thread(error.to_string()))??;
        well
    }

    /// The process of that name may end by itself as often as its log has this text.
    pub fn may_end(&self, name: &str, saying: &'static str) {
        self.may_end.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), saying);
    }

    /// An error if a process has ended without being asked to, see `may_end`.
    pub fn check_ends(&self) -> Result<()> {
        let may_end = self.may_end.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, ends) in self.site.ended_by_themselves() {
            let log = self.site.log(&name);
            let explained = may_end.get(&name).map_or(0, |saying| lines(&log, &[saying]).len());
            if ends > explained {
                let did = format!("{name} ended {ends} times, {explained} times of it for a known reason");
                return Err(HarnessError::Unasked(did, files::tail(&log, 60)));
            }
        }
        Ok(())
    }

    /// The same, or if one has panicked: in a task that need not have ended the process.
    fn check_processes(&self) -> Result<()> {
        for log in self.site.logs() {
            if let Some(panic) = lines(&log, &["thread '", " panicked at "]).first() {
                return Err(HarnessError::Unasked(format!("{}: {panic}", log.display()), files::tail(&log, 60)));
            }
        }
        self.check_ends()
    }

    /// The cluster's id, which is part of every machine-wide name it uses.
    pub fn id(&self) -> &str {
        self.site.id()
    }

    /// The cluster's folder; tests may put files there. Removed with the cluster.
    pub fn dir(&self) -> PathBuf {
        self.site.dir()
    }

    /// An administrator's kubeconfig (group system:masters) with embedded certificates.
    pub fn kubeconfig(&self) -> PathBuf {
        self.site.admin_kubeconfig()
    }

    /// The API server's URL on loopback.
    pub fn server(&self) -> String {
        self.site.server()
    }

    /// The URL of etcd, which serves nobody but the API server.
    pub fn etcd(&self) -> String {
        self.site.etcd()
    }

    /// The same for HTTP, of whoever does to it what an administrator does.
    pub fn etcd_http(&self) -> String {
        self.site.etcd_http()
    }

    /// `127.0.0.1:<port>` of the registry; nothing listens there unless `Options::registry` was set.
    pub fn registry(&self) -> String {
        format!("127.0.0.1:{}", self.site.ports().registry)
    }

    /// `address:port` of the same registry for pods of a node, by TLS with a certificate of the cluster's authority. It is only read
    /// there, and repositories below `private/` want a password.
    pub fn registry_for_pods(&self) -> String {
        registry::for_pods(&self.site)
    }

    /// User and password for repositories below `private/`.
    pub fn registry_login(&self) -> (&'static str, &'static str) {
        registry::LOGIN
    }

    /// The address of the node, which pods and this machine reach.
    pub fn node_address(&self) -> IpAddr {
        self.site.node_address().into()
    }

    /// The cluster's authority, PEM.
    pub fn authority(&self) -> Result<String> {
        files::read(&self.site.pki("ca.crt"))
    }

    /// The port of that name, for the caller's processes: one of the 24 ports of the cluster that the harness does not use itself.
    pub fn port(&self, name: &str) -> u16 {
        let mut names = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.iter().position(|known| known == name);
        let number = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        self.site.spare_port(u16::try_from(number).unwrap_or(u16::MAX))
    }

    /// A certificate by which the API server, and whoever believes its authority, knows this user.
    pub fn client_certificate(&self, user: &str) -> Result<Leaf> {
        control_plane::client_certificate(&self.site, user)
    }

    /// A certificate for this user, and its authority, which nobody believes when it comes to clients.
    pub fn untrusted_certificate(&self, user: &str) -> Result<(Leaf, String)> {
        let authority = files::read(&self.site.pki("front-ca.crt"))?;
        Ok((control_plane::untrusted_certificate(&self.site, user)?, authority))
    }

    /// Name of the real node.
    pub fn node_name(&self) -> String {
        self.site.node_name()
    }

    /// Where the daemon's payload folder lies on the host, for hostPath volumes.
    pub fn payload_dir(&self) -> PathBuf {
        self.site.dir().join("payloads")
    }

    /// The API server's audit log, one JSON event a line, when `Options::audit` was set.
    pub fn audit_log(&self) -> PathBuf {
        self.site.audit_log()
    }

    /// Log of one of the cluster's processes (`kube-apiserver`, `kubelet`, a name given to `spawn`).
    pub fn log(&self, process: &str) -> PathBuf {
        self.site.log(process)
    }

    /// A client as administrator.
    pub async fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// The configuration behind `client`, to build other clients from.
    pub async fn config(&self) -> Result<Config> {
        let file = self.kubeconfig();
        let kubeconfig = kube::config::Kubeconfig::read_from(&file)
            .map_err(|error| HarnessError::Kubeconfig(file, error.to_string()))?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| HarnessError::Kubeconfig(self.kubeconfig(), error.to_string()))
    }

    /// Runs kubectl as administrator; its standard output, or an error with its standard error.
    pub async fn kubectl<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String> {
        let mut command = tokio::process::Command::new(self.kubectl_program());
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(arguments).kill_on_drop(true);
        command.env("KUBECACHEDIR", self.kubectl_cache());
        process::output("kubectl", command).await
    }

    /// A command of `cvo` as administrator.
    pub fn cvo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Cvo {
        Cvo::new(arguments).kubeconfig(self.kubeconfig())
    }

    /// The administrator's kubeconfig, acting as this user with these groups; its file is `NAME.kubeconfig`.
    pub fn kubeconfig_as(&self, name: &str, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let path = self.dir().join(format!("{name}.kubeconfig"));
        kubeconfig::write_acting_as(&self.kubeconfig(), &path, user, groups)?;
        Ok(path)
    }

    /// Where kubectl remembers which kinds the cluster has, as `KUBECACHEDIR`. By itself it goes by the address, which another cluster
    /// has had before.
    pub fn kubectl_cache(&self) -> PathBuf {
        self.dir().join("kubectl-cache")
    }

    /// The kubectl of the cluster's version.
    pub fn kubectl_program(&self) -> PathBuf {
        self.site.tools().go("kubectl")
    }

    /// A client that is built from a module of its own.
    pub fn client_program(&self, name: &str) -> Result<PathBuf> {
        self.site.tools().client(name)
    }

    /// Starts a process that belongs to the cluster: it logs to `log(name)` and ends with the cluster. A process of
    /// that name that still runs is ended first.
    pub fn spawn(&self, launch: Launch) -> Result<Identity> {
        self.site.stop(&launch.name)?;
        self.site.spawn(&launch)
    }

    /// Ends the process of that name at once (SIGKILL) and waits until it is gone.
    pub fn kill(&self, name: &str) -> Result<()> {
        self.site.stop(name)
    }

    /// Asks the process of that name to end (SIGTERM); returns whether it ended within `limit`.
    pub async fn terminate(&self, name: &str, limit: Duration) -> Result<bool> {
        self.site.terminate(name, limit).await
    }

    /// Whether the process of that name (one of the cluster's, or given to `spawn`) runs.
    pub fn runs(&self, name: &str) -> bool {
        self.site.runs(name)
    }

    /// The process of that name, once it has been started.
    pub fn process(&self, name: &str) -> Option<Identity> {
        self.site.process(name)
    }

    /// A wait that is given up when one of the named processes has ended; at most 90 s, and in vain it says the end of their
    /// logs.
    pub fn until<'a>(&'a self, what: impl Into<String>, processes: &'a [&'a str]) -> Until<'a> {
        ready::until(what, &self.site, processes)
    }

    /// Kills the API server and starts it again on the same data and port; returns when it is ready.
    pub async fn restart_apiserver(&self) -> Result<()> {
        control_plane::restart_apiserver(&self.site).await
    }

    /// Starts another API server, of that name, on the same data: as the first one, on one of the spare ports, with more
    /// arguments. Returns its URL once it is ready.
    pub async fn add_apiserver(&self, name: &str, port: u16, arguments: &[String]) -> Result<String> {
        control_plane::add_apiserver(&self.site, name, port, arguments).await
    }

    /// Gives the API server a certificate of the next authority (`Options::next_authority`), and kills and starts it; returns
    /// when it is ready.
    pub async fn exchange_authority(&self) -> Result<()> {
        control_plane::exchange_authority(&self.site).await
    }

    /// Kills the process of that name and starts it again in the same way. Does not wait until it serves.
    pub fn respawn(&self, name: &str) -> Result<()> {
        self.site.respawn(name).map(|_| ())
    }

    /// The processes in the pods of the node that were started with these words.
    pub fn processes_in_pods(&self, words: &[&str]) -> Vec<Identity> {
        cgroup::processes(&self.site).into_iter().filter(|process| process.was_started_with(words)).collect()
    }

    /// Copies the API server's data into a new folder. The API server is stopped meanwhile.
    pub async fn back_up(&self, backup: &Path) -> Result<()> {
        control_plane::back_up(&self.site, backup).await
    }

    /// Restores a backup; everything written since is lost.
    pub async fn restore(&self, backup: &Path) -> Result<()> {
        control_plane::restore(&self.site, backup).await
    }

    /// Registers `count` nodes `fake-0…` that kwok simulates (`Options::kwok`). They have the taint
    /// `kwok.x-k8s.io/node=fake:NoSchedule`, so that only pods that tolerate it are scheduled there.
    pub async fn add_fake_nodes(&self, numbers: std::ops::Range<usize>) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        for number in numbers {
            nodes.create(&Default::default(), &kwok::fake_node(number)).await?;
        }
        Ok(())
    }

    async fn start_control_plane(&self, options: &Options) -> Result<()> {
        control_plane::start(&self.site, options).await?;
        self.wait_for_default_account().await
    }

    async fn prepare_node(&self, options: &Options) -> Result<()> {
        if options.node {
            node::prepare(&self.site).await?;
            if options.registry {
                registry::start_for_pods(&self.site).await?;
            }
        }
        Ok(())
    }

    async fn start_registry(&self, options: &Options) -> Result<()> {
        if options.registry { registry::start(&self.site).await } else { Ok(()) }
    }

    /// Pods cannot be created before the controller-manager has created the namespace's service account.
    async fn wait_for_default_account(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, "default");
        let wait = self.until("service account default/default", &["kube-controller-manager"]);
        wait.existing(accounts, "default", |_| true).await?;
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        let well = self.check_processes();
        if let Err(error) = claim::release(&self.site) {
            eprintln!("cluster {} was not removed completely: {error}", self.site.id());
        }
        // A test that ends without `down` must not pass either; one that fails already says why.
        assert!(std::thread::panicking() || well.is_ok(), "{well:?}");
    }
}

/// The lines of a log that have all these texts.
fn lines(log: &Path, texts: &[&str]) -> Vec<String> {
    let bytes = std::fs::read(log).unwrap_or_default();
    let all = String::from_utf8_lossy(&bytes);
    all.lines().filter(|line| texts.iter().all(|text| line.contains(text))).map(str::to_owned).collect()
}

/// rustls panics when several providers are compiled in and none is installed. A second call returns an error, which is
/// harmless.
pub fn install_tls_provider() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// Object metadata with only a name.
pub fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..Default::default() }
}
