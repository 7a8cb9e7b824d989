use super::*;
use crate::cluster_version::api::HistoryEntry;
use crate::release::api::{ConditionalUpdateRisk, MatchingRule, PromQl};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const ID: &str = "01234567-89ab-4cde-8f01-23456789abcd";
const T0: i64 = 1_700_000_000;
const DAY: i64 = 24 * 3600;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(T0 + seconds).unwrap()
}

fn release(version: &str) -> Release {
    Release { version: version.into(), image: format!("img-{version}"), ..Release::default() }
}

fn asker() -> Asker {
    Asker {
        update_service: None,
        own: release("4.1.0"),
        architecture: "amd64".into(),
        period: Duration::from_secs(200),
    }
}

fn request() -> Request {
    Request {
        upstream: "https://u/graph".into(),
        channel: "stable".into(),
        cluster_id: ID.into(),
        ..Request::default()
    }
}

fn entry(image: &str, state: HistoryState) -> HistoryEntry {
    HistoryEntry {
        state,
        started_time: Time(at(0)),
        completion_time: None,
        version: String::new(),
        image: image.into(),
        verified: false,
        accepted_risks: String::new(),
    }
}

fn risky(version: &str, query: &str) -> ConditionalUpdate {
    let rule = MatchingRule { type_: "PromQL".into(), promql: Some(PromQl { promql: query.into() }) };
    let risk = ConditionalUpdateRisk {
        url: "https://r".into(),
        name: "Risk".into(),
        message: "m".into(),
        matching_rules: vec![rule],
        conditions: Vec::new(),
    };
    ConditionalUpdate { release: release(version), risks: vec![risk], conditions: Vec::new(), risk_names: Vec::new() }
}

fn updates(versions: &[&str]) -> Updates {
    Updates {
        current: release("4.1.0"),
        available: versions.iter().map(|v| release(v)).collect(),
        ..Updates::default()
    }
}

fn fails(reason: Reason) -> Result<Updates, Failure> {
    Err(RetrievalError::new(reason, "no").into())
}

/// Asked the first question at 0.
fn asked() -> (Advice, Question) {
    let mut advice = Advice::new(asker(), None, None, at(0));
    advice.on_request(request(), at(0));
    let question = advice.ask(at(0)).unwrap();
    (advice, question)
}

/// With an answer at 0.
fn answered(answer: Updates) -> Advice {
    let (mut advice, question) = asked();
    advice.on_answer(&question, Ok(answer), 0.0, at(0));
    advice
}

fn ask_and_fail(advice: &mut Advice, reason: Reason, now: i64) {
    advice.on_new_way(at(now));
    advice.due = at(now);
    let question = advice.ask(at(now)).unwrap();
    advice.on_answer(&question, fails(reason), 0.0, at(now));
}

/// Whether lists are known, and the versions of the available updates.
fn offers(advice: &Advice, now: i64) -> (bool, Vec<String>) {
    let published = advice.published(at(now)).unwrap();
    (published.known, published.available.into_iter().map(|r| r.version).collect())
}

#[test]
fn one_question_at_a_time_is_asked_and_repeated_after_the_period() {
    let mut advice = Advice::new(asker(), None, None, at(0));
    assert_eq!(advice.ask(at(0)), None, "nothing is known to ask");
    advice.on_request(request(), at(0));
    let question = advice.ask(at(0)).unwrap();
    assert_eq!(question.url().unwrap(), format!("https://u/graph?arch=amd64&channel=stable&id={ID}&version=4.1.0"));
    assert_eq!((advice.ask(at(0)), advice.deadline(at(0)), advice.published(at(0))), (None, None, None));
    advice.on_answer(&question, Ok(updates(&[])), 0.0, at(1));
    assert_eq!(advice.deadline(at(1)), Some(at(201)));
    assert_eq!(advice.ask(at(200)), None);
    assert!(advice.ask(at(201)).is_some());
}

#[test]
fn clock_that_is_set_back_does_not_put_the_question_off() {
    for (back, asked) in [(3 * DAY, true), (3600, true), (30, false)] {
        let mut advice = answered(updates(&[]));
        assert_eq!(advice.ask(at(-back)).is_some(), asked, "by {back} s");
    }
}

#[test]
fn failing_service_is_asked_less_and_less_often() {
    let (mut advice, mut question) = asked();
    let mut now = 0;
    for pause in [10, 20, 40, 80, 160, 200, 200] {
        advice.on_answer(&question, fails(Reason::ResponseFailed), 0.0, at(now));
        assert_eq!(advice.deadline(at(now)), Some(at(now + pause)));
        now += pause;
        question = advice.ask(at(now)).unwrap();
    }
    // Many clusters do not come back at the same moment.
    advice.on_answer(&question, fails(Reason::ResponseFailed), 1.0, at(now));
    assert_eq!(advice.deadline(at(now)), Some(at(now + 250)));
    // The cluster's own configuration does not get better by asking.
    let (mut advice, question) = asked();
    advice.on_answer(&question, fails(Reason::VersionNotFound), 0.0, at(0));
    assert_eq!(advice.deadline(at(0)), Some(at(200)));
}

#[test]
fn service_is_given_the_time_it_wants_but_at_most_an_hour() {
    for (wanted, pause) in [(3, 10), (100, 100), (999_999, 3600)] {
        let (mut advice, question) = asked();
        let error = RetrievalError::new(Reason::ResponseFailed, "no");
        let failure = Failure { error, retry_after: Some(Duration::from_secs(wanted)) };
        advice.on_answer(&question, Err(failure), 0.0, at(0));
        assert_eq!(advice.deadline(at(0)), Some(at(pause)), "{wanted}");
    }
}

#[test]
fn changed_way_repeats_only_what_failed() {
    let mut advice = answered(updates(&[]));
    advice.on_new_way(at(5));
    assert_eq!(advice.ask(at(5)), None);
    ask_and_fail(&mut advice, Reason::InvalidTrustBundle, 6);
    assert_eq!(advice.ask(at(7)), None);
    advice.on_new_way(at(7));
    assert!(advice.ask(at(7)).is_some());
}

#[test]
fn transient_failure_keeps_the_updates_for_a_day() {
    use Reason::{InvalidTrustBundle, RemoteFailed, ResponseFailed, ResponseInvalid, VersionNotFound};
    for reason in [RemoteFailed, ResponseFailed, ResponseInvalid, InvalidTrustBundle] {
        let mut advice = answered(updates(&["4.1.1"]));
        ask_and_fail(&mut advice, reason, DAY - 1);
        assert_eq!(offers(&advice, DAY - 1), (true, vec!["4.1.1".into()]), "{reason}");
        assert!(advice.published(at(DAY - 1)).unwrap().outcome.is_err());
        ask_and_fail(&mut advice, reason, DAY);
        assert_eq!(offers(&advice, DAY), (false, Vec::new()), "{reason}");
    }
    let mut advice = answered(updates(&["4.1.1"]));
    ask_and_fail(&mut advice, VersionNotFound, 1);
    assert_eq!(offers(&advice, 1), (false, Vec::new()));
    let mut advice = answered(updates(&[]));
    ask_and_fail(&mut advice, RemoteFailed, 1);
    assert_eq!(offers(&advice, 1), (true, Vec::new()), "that there are no updates stays known");
}

#[test]
fn answer_to_another_question_is_never_published() {
    let (mut advice, question) = asked();
    let other = Request { channel: "fast".into(), ..request() };
    advice.on_request(other.clone(), at(1));
    advice.on_answer(&question, Ok(updates(&["4.1.1"])), 0.0, at(2));
    assert_eq!(advice.published(at(2)), None);
    let question = advice.ask(at(2)).unwrap();
    assert_eq!(question.channel, "fast");
    // Nor do updates of the other channel stay when its service fails.
    advice.on_answer(&question, Ok(updates(&["4.1.2"])), 0.0, at(3));
    for change in [
        Request { channel: "slow".into(), ..other.clone() },
        Request { upstream: "https://v".into(), ..other.clone() },
        Request { architecture: "Multi".into(), ..other.clone() },
    ] {
        advice.on_request(other.clone(), at(4));
        let question = advice.ask(at(4));
        question.iter().for_each(|question| advice.on_answer(question, Ok(updates(&["4.1.2"])), 0.0, at(4)));
        assert!(offers(&advice, 4).0);
        advice.on_request(change.clone(), at(5));
        assert_eq!(advice.published(at(5)), None, "{change:?}");
        let question = advice.ask(at(5)).unwrap();
        advice.on_answer(&question, fails(Reason::RemoteFailed), 0.0, at(6));
        assert_eq!(offers(&advice, 6), (false, Vec::new()), "{change:?}");
    }
}

#[test]
fn flag_decides_before_the_spec_and_failures_say_so() {
    let said = |flag: Option<&str>, upstream: &str| {
        let asker = Asker { update_service: flag.map(str::to_owned), ..asker() };
        let question = Question::new(&asker, &Request { upstream: upstream.into(), ..request() });
        (question.service.clone(), question.failed(Reason::RemoteFailed, "no route").message)
    };
    let expected = |service: &str, text: &str| (service.to_owned(), format!("no route ({text})"));
    assert_eq!(
        said(Some("https://f"), "https://s"),
        expected("https://f", "--update-service names this update service")
    );
    assert_eq!(said(Some(""), "https://s"), expected("https://s", "spec.upstream names this update service"));
    let default =
        expected(update_graph::DEFAULT_SERVICE, "this is the default update service, as spec.upstream is empty");
    assert_eq!(said(None, ""), default);
    // With the flag, another upstream in the spec asks nothing else.
    let mut advice = Advice::new(Asker { update_service: Some("https://f".into()), ..asker() }, None, None, at(0));
    advice.on_request(request(), at(0));
    let question = advice.ask(at(0)).unwrap();
    advice.on_request(Request { upstream: "https://other".into(), ..request() }, at(1));
    advice.on_answer(&question, Ok(updates(&["4.1.1"])), 0.0, at(2));
    assert!(offers(&advice, 2).0);
}

#[test]
fn risks_are_evaluated_before_the_first_publication_and_again_on_request() {
    let mut advice = answered(Updates { conditional: vec![risky("4.1.1", "q")], ..updates(&[]) });
    assert!(!advice.is_settled(at(0)));
    assert_eq!(advice.queries(at(0)), ["q"]);
    advice.on_verdict("q", Ok(true), at(1));
    assert!(advice.is_settled(at(1)));
    assert_eq!(offers(&advice, 1), (true, Vec::new()));
    let accepted_risks = Some(BTreeSet::from(["Risk".to_owned()]));
    let gated = Request { accepted_risks, own_risks: Some(Vec::new()), ..request() };
    advice.on_request(gated.clone(), at(60));
    assert_eq!(offers(&advice, 60), (true, vec!["4.1.1".into()]), "the risk is accepted now");
    assert_eq!(advice.queries(at(60)), ["q"]);
    advice.on_verdict("q", Ok(false), at(61));
    assert_eq!(offers(&advice, 61), (true, vec!["4.1.1".into()]));
    assert_eq!(advice.ask(at(62)), None, "the update service is not asked because of that");
    // Another channel is another question, and asks for the risks anew as well.
    let other = Request { channel: "fast".into(), ..gated };
    advice.on_request(other, at(120));
    let question = advice.ask(at(120)).unwrap();
    advice.on_answer(&question, Ok(Updates { conditional: vec![risky("4.1.1", "q")], ..updates(&[]) }), 0.0, at(120));
    assert_eq!(advice.queries(at(120)), ["q"]);
}

#[test]
fn next_process_goes_on_with_what_was_known() {
    let mut advice = answered(Updates { conditional: vec![risky("4.1.1", "q")], ..updates(&["4.1.2"]) });
    advice.queries(at(0));
    advice.on_verdict("q", Ok(false), at(0));
    let published = advice.published(at(1)).unwrap();
    let status = |image: &str, state| ClusterVersionStatus {
        history: vec![entry(image, state)],
        available_updates: Some(published.available.clone()),
        conditional_updates: published.conditional.clone(),
        ..ClusterVersionStatus::default()
    };
    let own = asker().own;
    let offered = Offered::of(&status(&own.image, HistoryState::Completed), &own);
    assert_eq!(Offered::of(&status(&own.image, HistoryState::Partial), &own), None, "they are of the release before");
    assert_eq!(Offered::of(&status("img-4.0.9", HistoryState::Completed), &own), None);
    let next = |request: Request, now: i64| {
        let mut next = Advice::new(asker(), advice.record(), offered.clone(), at(now));
        next.on_request(request, at(now));
        let question = next.ask(at(now)).unwrap();
        next.on_answer(&question, fails(Reason::RemoteFailed), 0.0, at(now));
        next
    };
    let both = || vec!["4.1.2".to_owned(), "4.1.1".to_owned()];
    let mut same = next(request(), 100);
    assert_eq!(offers(&same, 100), (true, both()));
    assert_eq!(
        same.published(at(100)).unwrap().conditional[0].conditions[0].message,
        published.conditional[0].conditions[0].message
    );
    assert_eq!(same.queries(at(100)), Vec::<String>::new(), "the verdict is known");
    assert_eq!(same.queries(at(3000)), ["q"], "and is renewed in its time");
    assert_eq!(same.record().unwrap().answered, Some(at(0)));
    // The day goes on.
    assert_eq!(offers(&next(request(), DAY), DAY), (false, Vec::new()));
    // The channel was changed while no process ran.
    let other = next(Request { channel: "fast".into(), ..request() }, 100);
    assert_eq!(offers(&other, 100), (false, Vec::new()));
    assert!(other.published(at(100)).unwrap().answered);
    // Risks of the cluster itself cannot be told from published ones, so that only status keeps them.
    let gated = next(Request { accepted_risks: Some(BTreeSet::new()), ..request() }, 100);
    let gated = gated.published(at(100)).unwrap();
    assert_eq!((gated.known, gated.answered), (false, false));
}

/// Otherwise an update would be recommended for a moment after each start, whatever the cluster says.
#[test]
fn nothing_new_is_published_before_the_risks_of_the_cluster_are_known() {
    let own = Risk { name: "AdminAck".into(), message: "m".into(), url: "https://r".into() };
    let gated = |own_risks| Request { accepted_risks: Some(BTreeSet::new()), own_risks, ..request() };
    let mut advice = Advice::new(asker(), None, None, at(0));
    advice.on_request(gated(None), at(0));
    let question = advice.ask(at(0)).unwrap();
    advice.on_answer(&question, Ok(updates(&["4.2.0"])), 0.0, at(0));
    let published = advice.published(at(0)).unwrap();
    let lists = (published.available, published.conditional, published.risks);
    assert_eq!((published.known, published.answered, lists), (false, false, Default::default()));
    assert_eq!((published.outcome, published.current), (Ok(String::new()), Some(release("4.1.0"))));
    advice.on_request(gated(Some(vec![own])), at(1));
    let published = advice.published(at(1)).unwrap();
    assert!(published.known && published.available.is_empty());
    assert_eq!(published.conditional[0].risks[0].name, "AdminAck");
    // What status has is for another channel.
    let other = |own_risks| Request { channel: "fast".into(), ..gated(own_risks) };
    advice.on_request(other(None), at(2));
    let question = advice.ask(at(2)).unwrap();
    advice.on_answer(&question, Ok(updates(&["4.2.0"])), 0.0, at(2));
    let published = advice.published(at(2)).unwrap();
    assert_eq!((published.known, published.answered), (false, true));
    advice.on_request(other(Some(Vec::new())), at(3));
    assert_eq!(offers(&advice, 3), (true, vec!["4.2.0".into()]));
}

#[test]
fn what_is_left_out_is_said_in_bounded_length() {
    let notes: Vec<String> = (0..500).map(|n| format!("update to 4.1.{n}: {}: excluded", "x".repeat(999))).collect();
    let advice = answered(Updates { notes, ..updates(&[]) });
    let message = advice.published(at(0)).unwrap().outcome.unwrap();
    assert!(message.starts_with("Not everything in the update graph is offered: update to 4.1.0: "), "{message}");
    assert!(message.len() < 2200 && message.ends_with("more, which the log names"), "{message}");
    assert_eq!(answered(updates(&[])).published(at(0)).unwrap().outcome, Ok(String::new()));
}

/// Each change writes the whole record.
#[test]
fn questions_do_not_change_the_record_and_answers_every_half_hour() {
    let (mut advice, mut question) = asked();
    let before = advice.record();
    for now in [0, 10, 30] {
        advice.on_answer(&question, fails(Reason::RemoteFailed), 0.0, at(now));
        question = advice.ask(advice.deadline(at(now)).unwrap()).unwrap();
        assert_eq!(advice.record(), before, "after {now} s");
    }
    let mut ask = |now: i64| {
        advice.on_answer(&question, Ok(updates(&[])), 0.0, at(now));
        question = advice.ask(advice.deadline(at(now)).unwrap()).unwrap();
        advice.record().unwrap().answered
    };
    for (now, recorded) in [(70, 70), (270, 70), (70 + 1799, 70), (70 + 1800, 1870), (2000, 1870)] {
        assert_eq!(ask(now), Some(at(recorded)), "answered after {now} s");
    }
    let recorded = advice.record();
    let mut next = Advice::new(asker(), recorded, None, at(2100));
    next.on_request(request(), at(2100));
    let question = next.ask(at(2100)).unwrap();
    next.on_answer(&question, Ok(updates(&[])), 0.0, at(2101));
    assert_eq!(next.record().unwrap().answered, Some(at(2101)), "the first answer of a process");
}
