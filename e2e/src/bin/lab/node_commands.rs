//! What manages services on a test node, and restarts it: `lab` under another name, below the folder that is the root of the
//! node's file system. Both write down what they are asked, and leave what a service manager would.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use e2e::platform::nodes::{REBOOT, SYSTEMCTL};

const UNITS: &str = "/etc/systemd/system";

/// Runs the command by whose name this program was called, if it is one.
pub(crate) fn by_name(arguments: &[String]) -> Option<anyhow::Result<()>> {
    let (program, arguments) = arguments.split_first()?;
    let program = Path::new(program);
    match program.file_name()?.to_str()? {
        SYSTEMCTL => Some(systemctl(Path::new("/"), arguments)),
        REBOOT => Some(reboot(program)),
        _ => None,
    }
}

fn log(root: &Path, line: &str) -> anyhow::Result<()> {
    let mut log = fs::File::options().create(true).append(true).open(root.join("var/log/commands"))?;
    Ok(writeln!(log, "{line}")?)
}

/// `root` is the node's: the agent has changed into it.
fn systemctl(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let arguments = arguments.iter().map(String::as_str).filter(|word| *word != "--").collect::<Vec<_>>();
    let (verb, units) = arguments.split_first().context("a verb is missing")?;
    let below = |path: PathBuf| root.join(path.strip_prefix("/").unwrap_or(&path));
    let wanted = |unit: &str| below(Path::new(UNITS).join("multi-user.target.wants").join(unit));
    if !matches!(*verb, "is-enabled" | "is-active" | "is-system-running" | "show") {
        log(root, &format!("{SYSTEMCTL} {}", arguments.join(" ")))?;
    }
    match *verb {
        "daemon-reload" => return Ok(()),
        "is-system-running" => {
            println!("running");
            return Ok(());
        }
        _ => {}
    }
    for unit in units.iter().filter(|unit| !unit.starts_with("--")) {
        let (link, definition) = (wanted(unit), below(Path::new(UNITS).join(unit)));
        match *verb {
            "show" => println!("{}", if definition.exists() { "loaded" } else { "not-found" }),
            "is-enabled" if link.is_symlink() => println!("enabled"),
            "is-enabled" => println!("disabled"),
            "is-active" => println!("active"),
            "enable" if !link.is_symlink() => {
                fs::create_dir_all(link.parent().context("it has no folder")?)?;
                std::os::unix::fs::symlink(Path::new(UNITS).join(unit), link)?;
            }
            "disable" if link.is_symlink() => fs::remove_file(link)?,
            "enable" | "disable" | "preset" => {}
            // What runs now is what the unit says now.
            "restart" | "reload" => {
                let text = fs::read(&definition).with_context(|| format!("unit {unit} is not found"))?;
                fs::write(root.join("run").join(unit), text)?;
            }
            _ => bail!("{SYSTEMCTL} {verb} is not known here"),
        }
    }
    Ok(())
}

/// A restart ends the agent, which runs this, and the next boot has another id.
fn reboot(program: &Path) -> anyhow::Result<()> {
    let root = program.ancestors().nth(3).context("this is not below usr/bin of a root")?;
    log(root, REBOOT)?;
    fs::write(root.join("run/boot-id"), format!("{}\n", std::process::id()))?;
    let agent = rustix::process::getppid().context("nobody has called this")?;
    Ok(rustix::process::kill_process(agent, rustix::process::Signal::KILL)?)
}
