//! Schedules of all ranks, played against each other in memory.

use super::*;
use crate::barrier::Groups;
use proptest::prelude::*;
use scash_comm::Mark;
use std::collections::VecDeque;

/// A rank that plays.
struct Player {
    groups: Groups,
    rounds: VecDeque<Round>,
    reduction: Option<Reduction>,
    input: Vec<u8>,
    output: Vec<u8>,
    temporary: Vec<u8>,
    /// Transfers of the round under way that are not over; `None`: it has not begun.
    pending: Option<Vec<Transfer>>,
}

impl Player {
    fn area(&mut self, area: Area) -> &mut Vec<u8> {
        match area {
            Area::Input => &mut self.input,
            Area::Output => &mut self.output,
            Area::Temporary => &mut self.temporary,
        }
    }

    fn bytes(&mut self, piece: AreaRange) -> &mut [u8] {
        &mut self.area(piece.area)[piece.offset..piece.offset + piece.len]
    }

    /// Goes on as far as it can without others; whether that was anywhere.
    fn step(&mut self, me: u32, Net { mail, posted }: &mut Net) -> bool {
        let Some(round) = self.rounds.front().cloned() else { return false };
        let mut moved = false;
        let mut pending = self.pending.take().unwrap_or_else(|| {
            moved = true;
            posted[me as usize].extend(round.post);
            for transfer in &round.transfers {
                if let Transfer::Send { to, piece } = *transfer {
                    let bytes = self.bytes(piece).to_vec();
                    mail[me as usize][to as usize].push_back(bytes);
                }
            }
            round.transfers.clone()
        });
        pending.retain(|transfer| {
            let Transfer::Receive { from, piece } = *transfer else { return false };
            let Some(bytes) = mail[from as usize][me as usize].pop_front() else { return true };
            moved = true;
            assert_eq!(bytes.len(), piece.len, "what is sent is what is expected");
            assert_ne!(piece.area, Area::Input, "the input is not written");
            self.bytes(piece).copy_from_slice(&bytes);
            false
        });
        let is_seen = match round.awaits {
            None => true,
            Some(Mark::Arrived) => {
                self.groups.mine().iter().all(|&rank| posted[rank as usize].contains(&Mark::Arrived))
            }
            Some(Mark::Released) => posted[self.groups.head_of(me) as usize].contains(&Mark::Released),
        };
        if !pending.is_empty() || !is_seen {
            self.pending = Some(pending);
            return moved;
        }
        for work in round.work {
            match work {
                LocalWork::Copy { from, to } => {
                    let bytes = self.bytes(from).to_vec();
                    self.bytes(to).copy_from_slice(&bytes);
                }
                LocalWork::Combine { from, into } => {
                    let bytes = self.bytes(from).to_vec();
                    let reduction = self.reduction.unwrap();
                    reduction.combine(&bytes, self.bytes(into));
                }
            }
        }
        self.rounds.pop_front();
        true
    }
}

/// What is between the ranks: messages, and what each has posted on its board.
struct Net {
    mail: Vec<Vec<VecDeque<Vec<u8>>>>,
    posted: Vec<Vec<Mark>>,
}

impl Net {
    fn new(n: usize) -> Self {
        Self { mail: vec![vec![VecDeque::new(); n]; n], posted: vec![Vec::new(); n] }
    }
}

/// The outputs of all ranks, on hosts of their own; see [`play_on`].
fn play(
    n: u32,
    collective: impl Fn(u32) -> Collective,
    inputs: &[Vec<u8>],
    first: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    play_on(&(0..n).collect::<Vec<_>>(), collective, inputs, first)
}

/// The outputs of all ranks; a broadcast's root has its bytes in its output from the beginning.
fn play_on(
    hosts: &[u32],
    collective: impl Fn(u32) -> Collective,
    inputs: &[Vec<u8>],
    first: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let n = u32::try_from(hosts.len()).unwrap();
    let mut players: Vec<Player> = (0..n)
        .map(|me| {
            let collective = collective(me);
            collective.check(n).unwrap();
            let groups = Groups::on(hosts, me, false);
            let schedule = collective.schedule(me, n, &groups);
            assert_eq!(inputs[me as usize].len(), collective.input_len(me));
            let mut output = first.get(me as usize).cloned().unwrap_or_default();
            output.resize(collective.output_len(me, n), 0xEE);
            Player {
                groups,
                rounds: schedule.rounds.into(),
                reduction: schedule.reduction,
                input: inputs[me as usize].clone(),
                output,
                temporary: vec![0xDD; schedule.temporary],
                pending: None,
            }
        })
        .collect();
    let mut net = Net::new(n as usize);
    while (0..).zip(&mut players).fold(false, |any, (me, player)| player.step(me, &mut net) | any) {}
    assert!(players.iter().all(|player| player.rounds.is_empty()), "all come to an end");
    assert!(net.mail.iter().flatten().all(VecDeque::is_empty), "all that was sent was received");
    players.into_iter().map(|player| player.output).collect()
}

fn numbers(rank: u32, count: usize) -> Vec<u64> {
    (0..count as u64).map(|at| ((at + 1) * 1_000_003) ^ (u64::from(rank) << 17)).collect()
}

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn sum() -> Reduction {
    Reduction::new(Element::U64, Op::Sum).unwrap()
}

/// The sum of all ranks' numbers.
fn total(n: u32, count: usize) -> Vec<u8> {
    let mut sums = vec![0u64; count];
    for rank in 0..n {
        sums.iter_mut().zip(numbers(rank, count)).for_each(|(sum, number)| *sum = sum.wrapping_add(number));
    }
    bytes(&sums)
}

fn ranks() -> impl Strategy<Value = u32> {
    prop_oneof![1..10u32, Just(16), Just(17), Just(31)]
}

/// Ranks on as many hosts as they are, or fewer.
fn hosts() -> impl Strategy<Value = Vec<u32>> {
    let few = |n: u32| prop::collection::vec(0..4u32, n as usize);
    prop_oneof![
        ranks().prop_map(|n| (0..n).collect()),
        ranks().prop_map(|n| vec![0; n as usize]),
        ranks().prop_flat_map(few)
    ]
}

fn count() -> impl Strategy<Value = usize> {
    prop_oneof![0..20usize, Just(4_096), Just(5_001)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_broadcast_gives_all_what_the_root_has(hosts in hosts(), root in 0..31u32, len in prop_oneof![0..50usize, Just(400_000)]) {
        let root = root % u32::try_from(hosts.len()).unwrap();
        let message: Vec<u8> = (0..len).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
        let mut first = vec![vec![0; len]; hosts.len()];
        first[root as usize].clone_from(&message);
        let outputs = play_on(&hosts, |_| Collective::Broadcast { root, len }, &vec![vec![]; hosts.len()], &first);
        prop_assert!(outputs.iter().all(|output| *output == message));
    }

    #[test]
    fn reductions_combine_what_all_have(n in ranks(), root in 0..31u32, count in count()) {
        let inputs: Vec<Vec<u8>> = (0..n).map(|rank| bytes(&numbers(rank, count))).collect();
        let root = root % n;
        let expected = total(n, count);
        let outputs = play(n, |_| Collective::Reduce { root, count, reduction: sum() }, &inputs, &[]);
        prop_assert_eq!(&outputs[root as usize], &expected);
        let outputs = play(n, |_| Collective::AllReduce { count, reduction: sum() }, &inputs, &[]);
        prop_assert!(outputs.iter().all(|output| *output == expected));
    }

    #[test]
    fn a_reduce_scatter_gives_each_its_part(counts in prop::collection::vec(0..900usize, 1..14)) {
        let n = u32::try_from(counts.len()).unwrap();
        let all: usize = counts.iter().sum();
        let inputs: Vec<Vec<u8>> = (0..n).map(|rank| bytes(&numbers(rank, all))).collect();
        let make = |_| Collective::ReduceScatter { counts: counts.clone(), reduction: sum() };
        prop_assert_eq!(play(n, make, &inputs, &[]).concat(), total(n, all));
    }

    #[test]
    fn a_gather_brings_all_inputs_in_order(n in ranks(), root in 0..31u32, count in count(), lens in prop::collection::vec(0..300usize, 31)) {
        let inputs: Vec<Vec<u8>> = (0..n).map(|rank| bytes(&numbers(rank, count))).collect();
        let root = root % n;
        let outputs = play(n, |_| Collective::Gather { root, len: 8 * count }, &inputs, &[]);
        prop_assert_eq!(&outputs[root as usize], &inputs.concat());
        let equal = vec![8 * count; n as usize];
        let outputs = play(n, |_| Collective::AllGather { lens: equal.clone() }, &inputs, &[]);
        prop_assert!(outputs.iter().all(|output| *output == inputs.concat()));
        let lens = lens[..n as usize].to_vec();
        let inputs: Vec<Vec<u8>> = (0u8..).zip(&lens).map(|(rank, &len)| vec![rank; len]).collect();
        let outputs = play(n, |_| Collective::AllGather { lens: lens.clone() }, &inputs, &[]);
        prop_assert!(outputs.iter().all(|output| *output == inputs.concat()));
    }

    #[test]
    fn an_all_to_all_transposes(n in ranks(), seed in any::<u64>()) {
        let len = |from: u32, to: u32| usize::try_from((seed >> ((from * 3 + to * 5) % 57)) & 63).unwrap();
        let lens = |me: u32| {
            let (to, from) = (0..n).map(|peer| (len(me, peer), len(peer, me))).unzip();
            Collective::AllToAll { to, from }
        };
        let part = |from: u32, to: u32| vec![from.to_le_bytes()[0].wrapping_mul(31) ^ to.to_le_bytes()[0]; len(from, to)];
        let inputs: Vec<Vec<u8>> = (0..n).map(|from| (0..n).flat_map(|to| part(from, to)).collect()).collect();
        for (to, output) in (0..).zip(play(n, lens, &inputs, &[])) {
            prop_assert_eq!(output, (0..n).flat_map(|from| part(from, to)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn nobody_leaves_a_barrier_before_all_have_come(hosts in hosts(), share_cores in any::<bool>(), late in 0..31u32) {
        let n = u32::try_from(hosts.len()).unwrap();
        let late = late % n;
        let mut net = Net::new(hosts.len());
        let mut players: Vec<Player> = (0..n).map(|me| {
            let groups = Groups::on(&hosts, me, share_cores);
            let rounds = Collective::Barrier.schedule(me, n, &groups).rounds.into();
            Player { groups, rounds, reduction: None, input: vec![], output: vec![], temporary: vec![], pending: None }
        }).collect();
        while (0..).zip(&mut players).fold(false, |any, (me, player)| (me != late && player.step(me, &mut net)) | any) {}
        prop_assert!((0..).zip(&players).all(|(me, player)| me == late || !player.rounds.is_empty()));
        while (0..).zip(&mut players).fold(false, |any, (me, player)| player.step(me, &mut net) | any) {}
        prop_assert!(players.iter().all(|player| player.rounds.is_empty()));
    }
}

#[test]
fn a_rank_sends_no_more_messages_than_the_algorithm_says() {
    let sends_in = |groups: &Groups, collective: Collective, me: u32, n: u32| {
        let rounds = collective.schedule(me, n, groups).rounds;
        let transfers = rounds.iter().flat_map(|round| &round.transfers);
        transfers.filter(|t| matches!(t, Transfer::Send { .. })).count()
    };
    let sends_with = |each: u32, collective: Collective, me: u32, n: u32| {
        let hosts: Vec<u32> = (0..n).map(|rank| rank / each).collect();
        sends_in(&Groups::on(&hosts, me, false), collective, me, n)
    };
    let sends = |collective, me, n| sends_with(1, collective, me, n);
    assert_eq!(sends(Collective::Barrier, 3, 1000), 10);
    assert_eq!(sends_with(100, Collective::Barrier, 3, 1000), 0);
    assert_eq!(sends_with(100, Collective::Barrier, 200, 1000), 4, "one of each host speaks for it");
    let crowd: Vec<u32> = (0..1000).collect();
    let all = crowd.iter().map(|&me| sends_in(&Groups::on(&crowd, me, true), Collective::Barrier, me, 1000));
    assert_eq!(
        all.sum::<usize>(),
        2 * 999,
        "who competes for cores says once that it has come, and once hears that all have"
    );
    let broadcast = Collective::Broadcast { root: 150, len: 8 };
    assert_eq!(sends_with(100, broadcast.clone(), 150, 1000), 4 + 7, "to other hosts, and on its own");
    assert_eq!(sends_with(100, broadcast, 100, 1000), 1);
    assert_eq!(sends(Collective::AllReduce { count: 1, reduction: sum() }, 3, 1024), 10);
    assert_eq!(sends(Collective::AllGather { lens: vec![8; 1000] }, 3, 1000), 10);
    assert_eq!(sends(Collective::Broadcast { root: 0, len: 8 }, 0, 1000), 10);
    assert_eq!(sends(Collective::Reduce { root: 0, count: 1, reduction: sum() }, 3, 1000), 1);
}

#[test]
fn numbers_that_do_not_fit_the_job_are_refused() {
    let reduction = sum();
    for wrong in [
        Collective::Broadcast { root: 4, len: 1 },
        Collective::Gather { root: 9, len: 1 },
        Collective::AllGather { lens: vec![1; 3] },
        Collective::AllToAll { to: vec![1; 4], from: vec![1; 5] },
        Collective::ReduceScatter { counts: vec![], reduction },
    ] {
        assert!(wrong.check(4).is_err(), "{wrong:?}");
    }
}
