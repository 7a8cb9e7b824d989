use super::recorded::Recorded;
use super::*;

fn processes() -> Commands {
    let run = Arc::new(Processes { root: PathBuf::from("/") });
    Commands { run, service_command: None, reboot_command: None, as_units: false }
}

fn shell(script: &str) -> Vec<String> {
    words(["/bin/sh", "-c", script])
}

#[tokio::test]
async fn failure_shows_the_status_and_the_last_lines() {
    let script = "for n in 1 2 3 4 5 6; do echo line $n >&2; done; exit 3";
    let error = processes().on_node(&shell(script), Duration::from_secs(30)).await.unwrap_err().to_string();
    assert!(error.ends_with("failed (exit status 3): line 3; line 4; line 5; line 6"), "{error}");
    let missing = processes().on_node(&words(["/no/such/program"]), SERVICE).await.unwrap_err().to_string();
    assert!(missing.starts_with("cannot run /no/such/program: No such file"), "{missing}");
}

#[tokio::test]
async fn command_that_takes_too_long_is_ended_with_all_that_it_has_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 60 & echo $! > {}; wait", file.display());
    let error = processes().on_node(&shell(&script), Duration::from_millis(500)).await.unwrap_err();
    assert!(matches!(error, CommandError::Timeout { .. }), "{error}");
    let started = std::fs::read_to_string(file).unwrap();
    let stat = PathBuf::from(format!("/proc/{}/stat", started.trim()));
    // Whoever is its parent now may not have asked for its end yet.
    let runs = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    for _ in 0..500 {
        if !runs() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("what the command has started runs on");
}

#[tokio::test]
async fn output_is_bounded_and_the_command_ends_all_the_same() {
    let output = processes().on_node(&shell("yes | head -c 1000000"), SERVICE).await.unwrap();
    assert_eq!(output.stdout.len() as u64, OUTPUT);
}

#[tokio::test]
async fn declared_program_is_called_with_verb_and_unit() {
    let recorded = Arc::new(Recorded::default());
    let own = Commands {
        service_command: Some("/svc".into()),
        reboot_command: Some("/restart".into()),
        ..recorded.commands()
    };
    own.service("daemon-reload", &[]).await.unwrap();
    own.service("enable", &["a.service", "b.service"]).await.unwrap();
    own.reboot("why").await.unwrap();
    assert_eq!(recorded.take(), ["/svc daemon-reload", "/svc enable a.service", "/svc enable b.service", "/restart"]);
    recorded.answer("/svc is-enabled off", 1, "", "");
    recorded.answer("/svc is-enabled broken", 7, "", "no such thing");
    recorded.answer("/svc is-enabled text", 1, "masked\n", "");
    assert_eq!(own.is_enabled("on").await.unwrap(), "enabled");
    assert_eq!(own.is_enabled("off").await.unwrap(), "disabled");
    assert_eq!(own.is_enabled("text").await.unwrap(), "masked");
    assert!(own.is_enabled("broken").await.unwrap_err().to_string().ends_with("no such thing"));
}

#[tokio::test]
async fn unit_that_is_not_found_or_masked_is_none() {
    let recorded = Arc::new(Recorded::default());
    for (says, has) in [("loaded\n", true), ("not-found\n", false), ("masked\n", false), ("bad-setting\n", true)] {
        recorded.answer("systemctl show --property=LoadState --value -- a.service", 0, says, "");
        assert_eq!(recorded.commands().has_unit("a.service").await.unwrap(), has, "{says}");
    }
    recorded.answer("systemctl show --property=LoadState --value -- a.service", 1, "", "Failed to connect to bus\n");
    recorded.commands().has_unit("a.service").await.unwrap_err();
    let own = Commands { service_command: Some("/svc".into()), ..recorded.commands() };
    assert!(own.has_unit("a.service").await.unwrap(), "nobody knows");
}

#[tokio::test]
async fn states_of_units_are_read_or_an_error_says_that_they_cannot_be() {
    let recorded = Arc::new(Recorded::default());
    let commands = recorded.commands();
    recorded.answer("systemctl is-active -- a b", 3, "failed\nactivating\n", "");
    assert_eq!(commands.states(&["a", "b"]).await.unwrap(), ["failed", "activating"]);
    recorded.answer("systemctl is-active -- a b", 1, "", "Failed to connect to bus\n");
    assert!(commands.states(&["a", "b"]).await.unwrap_err().to_string().ends_with("Failed to connect to bus"));
    recorded.answer("systemctl is-active -- a b", 0, "active\n", "");
    assert_eq!(
        commands.states(&["a", "b"]).await.unwrap_err().to_string(),
        "cannot read what systemctl is-active -- a b prints"
    );
    for (says, starting) in
        [("starting\n", true), ("initializing\n", true), ("running\n", false), ("degraded\n", false)]
    {
        recorded.answer("systemctl is-system-running", 1, says, "");
        assert_eq!(commands.is_starting().await.unwrap(), starting, "{says}");
    }
    recorded.answer("systemctl is-system-running", 1, "", "Failed to connect to bus\n");
    commands.is_starting().await.unwrap_err();
    recorded.take();
    let own = Commands { service_command: Some("/svc".into()), ..commands };
    assert_eq!((own.states(&["a"]).await.unwrap(), own.is_starting().await.unwrap()), (Vec::new(), false));
    assert_eq!(recorded.take(), Vec::<String>::new(), "a declared command need not know");
}

#[tokio::test]
async fn node_is_restarted_by_a_unit_of_its_own() {
    let recorded = Arc::new(Recorded::default());
    recorded.commands().service("restart", &["crio.service"]).await.unwrap();
    recorded.commands().reboot("an update").await.unwrap();
    let calls = recorded.take();
    assert_eq!(calls[0], "systemctl restart -- crio.service");
    assert!(calls[1].starts_with("systemd-run --collect --unit=machine-config-daemon-reboot-"), "{calls:?}");
    assert!(calls[1].contains(" --description an update") && calls[1].ends_with(" systemctl reboot"), "{calls:?}");
    // The agent may be started anew before the node goes down, and the unit is still there.
    recorded.commands().reboot("an update").await.unwrap();
    assert_ne!(recorded.take()[0], calls[1]);
}

#[tokio::test]
async fn what_needs_much_memory_is_a_unit_of_the_node_where_it_has_systemd() {
    let recorded = Arc::new(Recorded::default());
    let pull = words(["podman", "pull", "r/os"]);
    recorded.commands().large(&pull, Duration::from_hours(1)).await.unwrap();
    let unit = "systemd-run --quiet --wait --pipe --collect --unit=machine-config-daemon-system \
                --property=RuntimeMaxSec=3660 -- podman pull r/os";
    let stop = "systemctl stop machine-config-daemon-system.service";
    assert_eq!(recorded.take(), [stop, unit]);
    recorded.answer(unit, 125, "", "Error: no such image\n");
    let error = recorded.commands().large(&pull, Duration::from_hours(1)).await.unwrap_err().to_string();
    assert_eq!(error, "podman pull r/os failed (exit status 125): Error: no such image");
    recorded.take();
    let plain = Commands { as_units: false, ..recorded.commands() };
    plain.large(&pull, Duration::from_hours(1)).await.unwrap();
    assert_eq!(recorded.take(), ["podman pull r/os"]);
}

/// What it has begun goes on without it otherwise.
#[tokio::test]
async fn unit_of_what_takes_too_long_is_stopped() {
    #[derive(Debug, Default)]
    struct Slow(Recorded);
    impl Run for Slow {
        fn run<'a>(
            &'a self,
            place: Place,
            command: &'a [String],
            limit: Duration,
        ) -> BoxFuture<'a, Result<Output, CommandError>> {
            let ends = self.0.run(place, command, limit);
            let seconds = limit.as_secs();
            let timeout = CommandError::Timeout { command: command.join(" "), seconds };
            Box::pin(async move { if command[0] == "systemd-run" { Err(timeout) } else { ends.await } })
        }
    }
    let slow = Arc::new(Slow::default());
    let commands = Commands { run: slow.clone(), service_command: None, reboot_command: None, as_units: true };
    let error = commands.large(&words(["podman", "pull", "r/os"]), Duration::from_mins(1)).await.unwrap_err();
    assert_eq!(error.to_string(), "podman pull r/os did not end within 60 s");
    assert!(slow.0.take().last().unwrap().starts_with("systemctl stop"));
}
