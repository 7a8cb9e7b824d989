//! A real HTTP proxy (tinyproxy), with a user and a password.

use crate::harness::{Cluster, Launch, Toolbox, files};
use std::net::IpAddr;
use std::path::PathBuf;

/// Name of its process in the harness.
const PROCESS: &str = "tinyproxy";

/// The proxy; it ends with the cluster.
#[derive(Debug)]
pub struct TinyProxy {
    /// With user and password.
    pub url: String,
    pub log: PathBuf,
}

impl TinyProxy {
    /// Connections to servers come from `from`, one of the loopback addresses.
    pub async fn start(cluster: &Cluster, from: IpAddr) -> anyhow::Result<Self> {
        let (port, folder) = (cluster.port("tinyproxy"), cluster.dir());
        let (config, log) = (folder.join("tinyproxy.conf"), cluster.log(PROCESS));
        let lines = format!(
            "Port {port}\nListen 127.0.0.1\nBind {from}\nAllow 127.0.0.1\nBasicAuth lab secret\nLogLevel Connect\n\
             Timeout 60\nMaxClients 20\n"
        );
        files::write(&config, lines)?;
        let program = Toolbox::find()?.service("tinyproxy")?;
        cluster.spawn(Launch::new(PROCESS, program, ["-d", "-c", &config.display().to_string()]))?;
        let up = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
        cluster.until("tinyproxy to listen", &[PROCESS]).answer(up).await?;
        Ok(Self { url: format!("http://lab:secret@127.0.0.1:{port}"), log })
    }
}
