use super::*;
use crate::cli::folder::tests::release as folder;
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: PlanArgs,
}

#[tokio::test]
async fn release_for_other_clusters_only_is_refused() {
    let dir = folder();
    let place = dir.path().display().to_string();
    let plan = async |profile: &str| {
        let line = ["plan", "--from", &place, "--to", &place, "--profile", profile];
        let args = Line::try_parse_from(line).unwrap().args;
        let release = given::read(&args.to, None, &args.image).await.unwrap();
        between(&args, &release, &release)
    };
    let forecast = plan("self-managed-high-availability").await.unwrap();
    assert!(forecast.counts.leave > 0 && !forecast.is_blocked(), "{:?}", forecast.blockers);
    let said = plan("nope").await.unwrap_err().to_string();
    assert!(said.starts_with("every manifest of the release is excluded for the cluster profile \"nope\": "), "{said}");
    assert!(said.contains("give one of these with --profile"), "{said}");
}
