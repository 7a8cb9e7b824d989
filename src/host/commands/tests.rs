use super::recorded::Recorded;
use super::*;

fn processes() -> Commands {
    Commands { run: Arc::new(Processes { root: PathBuf::from("/") }), service_command: None, reboot_command: None }
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
async fn command_that_takes_too_long_is_ended() {
    let error = processes().on_node(&shell("sleep 60"), Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, CommandError::Timeout { .. }), "{error}");
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
async fn node_is_restarted_by_a_unit_of_its_own() {
    let recorded = Arc::new(Recorded::default());
    recorded.commands().service("restart", &["crio.service"]).await.unwrap();
    recorded.commands().reboot("an update").await.unwrap();
    let calls = recorded.take();
    assert_eq!(calls[0], "systemctl restart crio.service");
    assert!(calls[1].starts_with("systemd-run --collect --unit=machine-config-daemon-reboot --description an update"));
    assert!(calls[1].ends_with(" systemctl reboot"));
}
