//! Which folder the kubelet of the node merges into its configuration, as the command line of its process says.

use std::fs;
use std::path::PathBuf;

/// In place of a folder where a kubelet reads none.
const NONE: &str = "none";

pub(crate) struct KubeletProcess {
    /// Where the processes of the node are.
    proc: PathBuf,
    /// The process that was found last.
    pid: Option<String>,
}

impl KubeletProcess {
    pub(crate) fn new(proc: PathBuf) -> Self {
        KubeletProcess { proc, pid: None }
    }

    /// The folder that `--config-dir` names, or [`NONE`]; `None` if no kubelet is found, as where it is a part of another program.
    pub(crate) fn config_dir(&mut self) -> Option<String> {
        let known = self.pid.take().filter(|pid| self.is_kubelet(pid));
        let pid = known.or_else(|| self.find())?;
        let line = fs::read(self.proc.join(&pid).join("cmdline")).ok().filter(|line| !line.is_empty())?;
        self.pid = Some(pid);
        Some(config_dir(&line))
    }

    fn find(&self) -> Option<String> {
        let names = fs::read_dir(&self.proc).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        pids.find(|pid| self.is_kubelet(pid))
    }

    fn is_kubelet(&self, pid: &str) -> bool {
        fs::read(self.proc.join(pid).join("comm")).is_ok_and(|name| name == b"kubelet\n")
    }
}

/// `line`: the arguments, with a zero after each.
fn config_dir(line: &[u8]) -> String {
    const FLAG: &str = "--config-dir";
    let arguments: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let mut folder = None;
    for (number, argument) in arguments.iter().enumerate() {
        // The last one counts.
        match argument.strip_prefix(FLAG) {
            Some("") => folder = arguments.get(number + 1).map(|next| next.as_ref()),
            Some(rest) => folder = rest.strip_prefix('=').or(folder),
            None => {}
        }
    }
    folder.filter(|folder| !folder.is_empty()).unwrap_or(NONE).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_says_which_folder_is_read() {
        for (line, expected) in [
            ("/usr/bin/kubelet\0--config=/var/lib/kubelet/config.yaml\0", "none"),
            ("kubelet\0--config-dir=/etc/kubernetes/kubelet.conf.d\0--v=2\0", "/etc/kubernetes/kubelet.conf.d"),
            ("kubelet\0--config-dir\0/etc/other\0", "/etc/other"),
            ("kubelet\0--config-dir=\0", "none"),
            ("kubelet\0--config-dirs=/a\0--config-dir", "none"),
        ] {
            assert_eq!(config_dir(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn the_kubelet_is_found_again_when_it_was_restarted() {
        let root = tempfile::tempdir().unwrap();
        let process = |pid: &str, name: &str, line: &str| {
            fs::create_dir_all(root.path().join(pid)).unwrap();
            fs::write(root.path().join(pid).join("comm"), format!("{name}\n")).unwrap();
            fs::write(root.path().join(pid).join("cmdline"), line).unwrap();
        };
        let mut kubelet = KubeletProcess::new(root.path().to_owned());
        assert_eq!(kubelet.config_dir(), None, "none runs");
        process("1", "systemd", "init\0");
        process("7", "kubelet", "kubelet\0");
        assert_eq!(kubelet.config_dir().as_deref(), Some("none"));
        fs::remove_dir_all(root.path().join("7")).unwrap();
        process("9", "kubelet", "kubelet\0--config-dir=/a\0");
        assert_eq!(kubelet.config_dir().as_deref(), Some("/a"));
    }
}
