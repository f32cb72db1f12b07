use super::*;

const DAY: Duration = DEFAULT_MTBF;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn policy(text: &str) -> IntervalPolicy {
    text.parse().unwrap()
}

/// A job under `auto` that has taken checkpoints of these costs, the newest of which ended now.
fn after(costs: &[Duration], mtbf: Duration) -> (Interval, Duration) {
    let mut interval = Interval::new(IntervalPolicy::Auto, mtbf);
    let mut now = Duration::ZERO;
    for cost in costs {
        now += Duration::from_secs(1000);
        interval.took(*cost, now, 0);
    }
    (interval, now)
}

/// The time after which the next one is due, to a millisecond.
fn next((interval, now): (Interval, Duration)) -> Duration {
    let due = |after: &u64| interval.due(now + ms(*after), 0);
    let (mut low, mut high) = (0, 10_000_000);
    while low + 1 < high {
        let middle = u64::midpoint(low, high);
        if due(&middle) { high = middle } else { low = middle }
    }
    ms(high)
}

#[test]
fn policies_are_read_and_written_back() {
    for text in ["auto", "every=1", "every=100", "seconds=30", "seconds=0.5"] {
        assert_eq!(policy(text).to_string(), text);
    }
    assert_eq!(IntervalPolicy::default(), IntervalPolicy::Auto);
}

#[test]
fn a_wrong_policy_is_refused_with_what_to_give() {
    for (text, said) in [
        ("", "'' does not say how often to take a checkpoint: give every=N (barriers), seconds=S, or auto"),
        ("every=0", "every=0: give a whole number of barriers from 1 on, as in every=100"),
        ("every=-1", "every=-1: give a whole number of barriers from 1 on, as in every=100"),
        ("seconds=0", "seconds=0: give a number of seconds above 0, as in seconds=30 or seconds=0.5"),
        ("seconds=nan", "seconds=nan: give a number of seconds above 0, as in seconds=30 or seconds=0.5"),
    ] {
        assert_eq!(text.parse::<IntervalPolicy>().unwrap_err().to_string(), said);
    }
    assert!("auto=1".parse::<IntervalPolicy>().is_err());
    assert_eq!(parse_mtbf("5m"), Ok(Duration::from_secs(300)));
    assert_eq!(parse_mtbf("0s"), Err(NoMtbf::Zero));
    assert!(parse_mtbf("often").is_err());
}

#[test]
fn every_n_counts_barriers_since_the_newest_checkpoint() {
    let mut interval = Interval::new(policy("every=3"), DAY);
    assert!(!interval.due(ms(99_999), 2));
    assert!(interval.due(ms(0), 3));
    interval.took(ms(5000), ms(0), 4);
    assert!(!interval.due(ms(0), 6));
    assert!(interval.due(ms(0), 7));
}

#[test]
fn seconds_count_from_the_end_of_the_newest_checkpoint() {
    let mut interval = Interval::new(policy("seconds=0.2"), DAY);
    assert!(!interval.due(ms(199), 1000));
    assert!(interval.due(ms(200), 0));
    interval.took(ms(150), ms(350), 0);
    assert!(!interval.due(ms(549), 0));
    assert!(interval.due(ms(550), 0));
    interval.resumed(ms(10), 0);
    assert!(interval.due(ms(210), 0), "a restored rank counts from its new start");
}

#[test]
fn the_first_checkpoint_under_auto_comes_soon_and_the_second_tells_the_cost() {
    assert_eq!(next(after(&[], DAY)), FIRST);
    assert_eq!(next(after(&[ms(1)], DAY)), FIRST);
    assert_eq!(next(after(&[ms(90)], DAY)), ms(2910), "97 times 30 ms pay off 90 ms");
    // √(2 · 1 ms · 24 h) = 13.145 s.
    assert_eq!(next(after(&[ms(90), ms(1)], DAY)).as_millis() / 10, 1314);
}

#[test]
fn the_cost_is_smoothed() {
    let steady = next(after(&[ms(4); 5], DAY));
    let one_dear = next(after(&[ms(4), ms(4), ms(4), ms(4), ms(20)], DAY));
    // One of 20 ms among those of 4 ms counts as 8 ms, and √2 is the root of their ratio.
    let ratio = one_dear.as_secs_f64() / steady.as_secs_f64();
    assert!((ratio - 2f64.sqrt()).abs() < 0.01, "{ratio}");
}

#[test]
fn checkpoints_are_never_so_near_that_they_cost_more_than_their_share() {
    for cost in [0, 1, 10, 100, 1000, 30_000] {
        for mtbf in [1, 60, 3600, 86_400] {
            let between = next(after(&[ms(cost); 4], Duration::from_secs(mtbf)));
            let share = cost as f64 / (cost as f64 + between.as_secs_f64() * 1000.0);
            assert!(share <= 0.03 + 1e-6, "{cost} ms, MTBF {mtbf} s: {share}");
            assert!(between >= SHORTEST);
            assert!(between <= LONGEST.max(ms(cost) * 33), "{between:?}");
        }
    }
}

#[test]
fn extreme_values_do_no_harm() {
    let mut interval = Interval::new(IntervalPolicy::Auto, Duration::MAX);
    for _ in 0..4 {
        interval.took(Duration::MAX, Duration::MAX, u64::MAX);
        assert!(!interval.due(Duration::ZERO, 0));
    }
}
