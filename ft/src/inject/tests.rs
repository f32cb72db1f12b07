use super::*;

/// Texts that are written back as they were read.
const TEXTS: [&str; 12] = [
    "kill rank 2 at barrier 17 after flush",
    "kill rank 1 at checkpoint 3 after copy",
    "stop rank 0 for 200ms at barrier 5",
    "delay rank 1 by 50ms at fetch with probability 0.01 seed 7",
    "kill all ranks at recovery after copied",
    "kill all ranks at image",
    "kill rank 0 at lock 1000 after released in incarnation 3",
    "kill rank 3 at checkpoint after mark in every incarnation",
    "delay all ranks by 5us at lock with probability 1 seed 0 in incarnation 2",
    "stop all ranks for 2s at checkpoint 18446744073709551615",
    "kill rank 4294967295 at recovery 2 after resumed in incarnation 9",
    "kill rank 0 at barrier after done",
];

#[test]
fn injections_are_read_and_written_back() {
    for text in TEXTS {
        assert_eq!(parse(text).unwrap().to_string(), text);
    }
    let list_of_all = parse_list(&TEXTS.join(" ; ")).unwrap();
    assert_eq!(list(&list_of_all), TEXTS.join("; "));
    assert_eq!(parse_list(" ; ").unwrap(), []);
}

#[test]
fn injections_of_hosts_are_read_and_written_back() {
    for text in [
        "kill host b at checkpoint 3",
        "kill agent 10.77.0.2 after 200ms",
        "stop host b.c for 2s at checkpoint 18446744073709551615",
        "cut host b at checkpoint 2",
        "cut link node-1-node-2 after 5s",
        "return host b after 1s",
        "kill launcher at checkpoint 1",
        "kill launcher at recovery",
        "kill launcher at recovery after ended",
        "kill host b at recovery 2 after rewound",
        "cut link a-b at recovery 3",
    ] {
        let Ok(AnyInjection::Host(read)) = parse_any(text) else { panic!("{text}") };
        assert_eq!(read.to_string(), text);
        assert_eq!(read.host().is_some(), !text.contains("launcher") && !text.contains("link"));
    }
    assert!(matches!(parse_any(TEXTS[0]), Ok(AnyInjection::Rank(_))));
    for (text, said) in [
        ("kill host", "'kill host': expected the name of a host at the end"),
        (
            "delay host b by 2s",
            "'delay host b by 2s': expected 'kill', 'stop', 'cut' or 'return', not 'delay'",
        ),
        ("return rank 1", "'return rank 1': expected 'host', not 'rank'"),
        (
            "kill launcher at barrier 3",
            "'kill launcher at barrier 3': expected 'checkpoint' or 'recovery', not 'barrier'",
        ),
        (
            "kill launcher at recovery 2 after joined",
            "'kill launcher at recovery 2 after joined': expected 'recalled', 'ended', 'rewound' or 'started', not \
             'joined'",
        ),
        (
            "kill launcher at recovery 0",
            "'kill launcher at recovery 0': expected a number from 1 on, not '0'",
        ),
        ("kill launcher after 1s 2", "'kill launcher after 1s 2': expected the end, not '2'"),
    ] {
        assert_eq!(parse_any(text).unwrap_err().to_string(), said);
    }
}

#[test]
fn what_is_meant_anyway_may_be_said() {
    for (said, meant) in [
        ("kill rank 0 at barrier 1 after enter in incarnation 0", "kill rank 0 at barrier"),
        ("kill  rank 0\tat image after restored in incarnation 1", "kill rank 0 at image"),
        ("kill rank 0 at fetch after fetched", "kill rank 0 at fetch"),
        (
            "stop rank 0 for 0.5s at fetch with probability .5 in every incarnation",
            "stop rank 0 for 500ms at fetch with probability 0.5 seed 0",
        ),
    ] {
        assert_eq!(parse(said).unwrap().to_string(), meant);
    }
}

#[test]
fn a_wrong_text_is_refused_with_what_was_expected() {
    for (text, said) in [
        ("", "'': expected 'kill', 'stop' or 'delay' at the end"),
        ("kil rank 1", "'kil rank 1': expected 'kill', 'stop' or 'delay', not 'kil'"),
        ("kill rank two at fetch", "'kill rank two at fetch': expected the number of a rank, not 'two'"),
        ("kill all", "'kill all': expected 'ranks' at the end"),
        ("stop rank 1 at fetch", "'stop rank 1 at fetch': expected 'for', not 'at'"),
        ("stop rank 1 for 5", "'stop rank 1 for 5': expected a time such as 50ms or 2s, not '5'"),
        (
            "kill rank 1 at berrier",
            "'kill rank 1 at berrier': expected 'barrier', 'checkpoint', 'lock', 'fetch', 'image' or 'recovery', \
             not 'berrier'",
        ),
        ("kill rank 1 at lock 0", "'kill rank 1 at lock 0': expected a number from 1 on, not '0'"),
        (
            "kill rank 1 at lock 2 after flush",
            "'kill rank 1 at lock 2 after flush': expected 'asked', 'got' or 'released', not 'flush'",
        ),
        (
            "kill rank 1 at lock with probability 2",
            "'kill rank 1 at lock with probability 2': expected a probability above 0, at most 1, not '2'",
        ),
        (
            "kill rank 1 at fetch often",
            "'kill rank 1 at fetch often': expected 'after', 'with', 'in' or the end, not 'often'",
        ),
        (
            "kill rank 1 at image in incarnation 0",
            "'kill rank 1 at image in incarnation 0': expected an incarnation from 1 on, as the first does not \
             reach 'image', not '0'",
        ),
        ("kill rank 1 at fetch in every incarnation too", {
            "'kill rank 1 at fetch in every incarnation too': expected the end, not 'too'"
        }),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), said);
    }
    for text in
        ["kill rank 4294967296 at fetch", "kill rank 0 at fetch 2 with probability 1", "stop rank 0 for"]
    {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn any_prefix_of_any_text_is_read_or_refused_without_a_panic() {
    for text in TEXTS {
        for (at, _) in text.char_indices() {
            let _ = parse(&text[..at]);
            let _ = parse(&text[at..]);
        }
    }
}

#[test]
fn a_rank_dies_the_time_that_is_named_and_only_in_its_incarnation() {
    let injections = [parse("kill rank 1 at barrier 3 after flush").unwrap()];
    let deaths = |rank, incarnation| {
        let mut injector = Injector::new(&injections, rank, Incarnation(incarnation));
        (1..10)
            .filter(|_| injector.at(Point::BarrierEnter).or(injector.at(Point::BarrierFlush)).is_some())
            .count()
    };
    assert_eq!([deaths(1, 0), deaths(0, 0), deaths(1, 1)], [1, 0, 0]);
    let mut injector = Injector::new(&injections, 1, Incarnation(0));
    let acts: Vec<_> = (1..=4).map(|_| injector.at(Point::BarrierFlush)).collect();
    assert_eq!(acts, [None, None, Some(InjectedAction::Kill), None]);
    assert!(Injector::new(&injections, 0, Incarnation(0)).is_empty());
}

#[test]
fn of_two_things_at_a_time_the_graver_happens() {
    let injections =
        parse_list("delay rank 0 by 1s at fetch 2; kill rank 0 at fetch 2; stop rank 0 for 1s at fetch 2");
    let mut injector = Injector::new(&injections.unwrap(), 0, Incarnation(0));
    assert_eq!([injector.at(Point::Fetch), injector.at(Point::Fetch)], [None, Some(InjectedAction::Kill)]);
}

#[test]
fn chance_is_the_same_for_a_seed_and_differs_by_rank_and_incarnation() {
    let injections = [parse("kill all ranks at fetch with probability 0.1 seed 5").unwrap()];
    let hits = |rank, incarnation| {
        let mut injector = Injector::new(&injections, rank, Incarnation(incarnation));
        (0..1000).filter(|_| injector.at(Point::Fetch).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(hits(0, 0), hits(0, 0));
    assert!((60..150).contains(&hits(0, 0).len()));
    assert_ne!(hits(0, 0), hits(1, 0));
    assert_ne!(hits(0, 0), hits(0, 1));
}

#[test]
fn chaos_is_what_its_text_says_and_fits_the_job() {
    let mut kills = 0;
    for seed in 0..200 {
        let injections = chaos(seed, 4);
        assert_eq!(injections, chaos(seed, 4));
        assert_eq!(parse_list(&list(&injections)).unwrap(), injections);
        assert!(injections.iter().all(|injection| injection.check(4).is_ok()));
        kills += injections.iter().filter(|injection| injection.act == InjectedAction::Kill).count();
    }
    assert!(kills > 400, "{kills}");
    assert_ne!(chaos(1, 4), chaos(2, 4));
}

#[test]
fn a_rank_that_the_job_does_not_have_is_refused() {
    let injection = parse("kill rank 4 at fetch").unwrap();
    assert!(injection.check(5).is_ok());
    let said = injection.check(4).unwrap_err().to_string();
    assert_eq!(said, "'kill rank 4 at fetch': this job has 4 ranks, the last is rank 3");
}
