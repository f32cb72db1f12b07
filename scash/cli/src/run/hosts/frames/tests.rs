use super::super::assignment::Replicated;
use super::super::placement::CopyRule;
use super::*;
use crate::run::recovery::{MarkedEpoch, RewoundPlace};
use proptest::prelude::*;
use scash_comm::Secret;
use scash_ft::{Incarnation, Mark};
use scash_join::boot::{Exit, Layout, RankState, Settings};
use std::ffi::OsString;

fn assignment() -> Assignment {
    Assignment {
        secret: Secret::from_bytes([7; Secret::LENGTH]),
        layout: Layout::new(&[2, 1]).unwrap(),
        host: 1,
        name: "b".into(),
        addresses: vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
        settings: Settings { threads: 2, provider: "tcp".into() },
        one_stream: true,
        bind: true,
        no_aslr: true,
        is_watched: true,
        replicas: Some(Replicated {
            rule: CopyRule { count: 2, racks: vec![4, 5] },
            stack: 8 << 20,
            env: vec![("SCASH_CHECKPOINT", "every=3".into()), ("SCASH_MTBF", "5s".into())],
            succession: None,
        }),
        copied: Some(5_000_000_000),
        directory: "/home".into(),
        program: ("/bin/sh".into(), "sh".into()),
        arguments: vec!["-c".into(), OsString::new()],
        env: vec![("A".into(), "b=c".into())],
    }
}

fn base(number: u64) -> Base {
    Base { incarnation: Incarnation(number), epoch: Epoch(number / 2) }
}

fn marked(number: u64) -> MarkedEpoch {
    let mark = Mark { incarnation: Incarnation(number), epoch: Epoch(number) };
    MarkedEpoch { mark, barrier: number / 3, output: [number, number / 5], kept: [number / 7, 0] }
}

fn ups() -> Vec<Up> {
    vec![
        hello(),
        Up::Ready,
        Up::Refused { status: 127, why: "there is no such program".into() },
        Up::Started { rank: 3, pid: 4711 },
        Up::Report(Report::Packet(3, vec![1, 2, 3])),
        Up::Report(Report::Malformed(3, "rubbish".into())),
        Up::Report(Report::Exited(3, Exit::Status(255))),
        Up::Report(Report::Exited(3, Exit::Signal(9))),
        Up::Output { stream: Stream::Err, rank: 3, bytes: b"text\n".to_vec() },
        Up::Done,
        Up::Alive,
        Up::Beside(3),
        Up::OutOfMemory,
        Up::Store(StoreState { rank: 3, base: base(2), marks: [None, Some(marked(5))] }),
        Up::Store(StoreState { rank: u32::MAX, base: base(u64::MAX), marks: [Some(marked(u64::MAX)); 2] }),
        Up::Ended,
        Up::Rewound,
        Up::Committed(Epoch(70_000_000_000)),
        Up::Resumed,
        Up::Said(b"scash: rank 3 cannot be saved\n".to_vec()),
        Up::Piece(StoreChunk { rank: 3, at: 5 << 40, bytes: vec![8; 500] }),
        Up::HasRead { rank: 3, next: Some(7) },
        Up::HasRead { rank: 3, next: None },
        Up::Stored(3),
        Up::Kept(5_000_000_000),
        Up::Printed { rank: 3, lengths: [7_000_000_000, 0] },
        Up::Listens("[fd00::1]:4711".parse().unwrap()),
        Up::Keeps(Box::new(Keeping {
            base: base(9),
            finished: Some(3),
            is_recalled: true,
            committed: Epoch(6_000_000_000),
            layout: Layout::new(&[2, 2]).unwrap(),
            adopted: vec![(2, 0)],
            printed: vec![(2, [7_000_000_000, 1]), (3, [0, 5])],
        })),
        Up::Served { seconds: 7 },
    ]
}

fn downs() -> Vec<Down> {
    let mark = |state| Down::Decision(Decision::Mark(3, state));
    vec![
        Down::Start(Box::new(assignment())),
        Down::Go,
        Down::Decision(Decision::Packet(vec![1, 2, 3])),
        mark(RankState::Running),
        mark(RankState::Finalized),
        mark(RankState::Exited(7)),
        mark(RankState::Killed(9)),
        Down::Signal(Signal::SIGTERM),
        Down::Taken { stream: Stream::Out, bytes: 70_000 },
        Down::Shut(Stream::Out),
        Down::Alive,
        Down::Program(vec![0x7f; 1000]),
        Down::Recall,
        Down::Rewind(vec![]),
        Down::Rewind(vec![
            Rewound {
                rank: 3,
                base: base(2),
                output: [7, 8],
                shown: [9, 8],
                place: RewoundPlace::Comes
            };
            3
        ]),
        Down::Again(Again {
            layout: Layout::new(&[2, 1]).unwrap().moved(|rank| 1 - rank % 2).unwrap(),
            base: base(3),
            adopted: vec![(0, 1), (2, 0)],
            ago: [Duration::from_millis(300), Duration::from_nanos(1)],
            secret: Secret::from_bytes([9; Secret::LENGTH]),
        }),
        Down::Commit(Epoch(17)),
        Down::Had(Epoch(1 << 33)),
        Down::Finish(3),
        Down::Empty(3),
        Down::Read { rank: 3, range: 4096..u64::MAX },
        Down::Piece(StoreChunk { rank: 3, at: 5 << 40, bytes: vec![8; 500] }),
        Down::Store(3),
        Down::Farewell,
        Down::Fail(HostFailure::Kill),
        Down::Fail(HostFailure::KillAgent),
        Down::Fail(HostFailure::Stop(Duration::from_millis(1500))),
        Down::Fail(HostFailure::Cut(vec![])),
        Down::Fail(HostFailure::Cut(vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()])),
    ]
}

#[test]
fn every_frame_survives_the_pipe_however_it_is_cut() {
    let bytes: Vec<u8> = ups().iter().flat_map(Up::encode).collect();
    for step in [1, 3, 7, bytes.len()] {
        let (mut cutter, mut all) = (Cutter::new(FROM_AGENT), Vec::new());
        for piece in bytes.clone().chunks_mut(step) {
            cutter.push(piece);
            while let Some(frame) = cutter.next().unwrap() {
                all.push(Up::decode(frame).unwrap());
            }
        }
        assert_eq!(all, ups());
    }
    for down in downs() {
        assert_eq!(Down::decode(&down.encode()[4..]), Ok(down));
    }
}

#[test]
fn a_truncated_or_padded_frame_is_refused() {
    for down in downs() {
        let bytes = &down.encode()[4..];
        let open = matches!(down, Down::Decision(Decision::Packet(_)) | Down::Program(_));
        for length in (0..bytes.len()).filter(|_| !open) {
            assert!(Down::decode(&bytes[..length]).is_err(), "{length} bytes of {down:?}");
        }
        assert_eq!(Down::decode(&[bytes, &[0]].concat()).is_ok(), open, "{down:?}");
    }
}

#[test]
fn a_frame_that_says_more_than_there_can_be_is_refused() {
    let state = Up::Store(StoreState { rank: 3, base: base(2), marks: [None, None] }).encode();
    let mut two = state[4..].to_vec();
    *two.last_mut().unwrap() = 2;
    assert!(Up::decode(&two).unwrap_err().contains("2 marks"));
    // A list that is longer than its frame takes no memory.
    let mut long = Down::Rewind(Vec::new()).encode();
    long[5..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Down::decode(&long[4..]).is_err());
    let mut other = assignment();
    other.replicas = Some(Replicated {
        rule: CopyRule::of(1),
        stack: 0,
        env: vec![("PATH", "/tmp".into())],
        succession: None,
    });
    let why = Down::decode(&Down::Start(Box::new(other)).encode()[4..]).unwrap_err();
    assert!(why.contains("PATH"), "{why}");
}

proptest! {
    #[test]
    fn what_stores_say_and_are_told_survives_the_pipe(
        rank: u32, numbers: [u64; 2], marks: [Option<[u64; 5]>; 2], all in prop::collection::vec(any::<(u32, [u64; 4])>(), 0..20)
    ) {
        let base = |numbers: [u64; 2]| Base { incarnation: Incarnation(numbers[0]), epoch: Epoch(numbers[1]) };
        let marked = |[incarnation, epoch, barrier, out, err]: [u64; 5]| MarkedEpoch {
            mark: Mark { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) },
            barrier,
            output: [out, err],
            kept: [err, barrier],
        };
        let up = Up::Store(StoreState { rank, base: base(numbers), marks: marks.map(|mark| mark.map(marked)) });
        prop_assert_eq!(Up::decode(&up.encode()[4..]), Ok(up));
        let rewound = |(rank, [a, b, c, d]): (u32, [u64; 4])| Rewound {
            shown: [d, a],
            rank,
            base: base([a, b]),
            output: [c, d],
            place: [RewoundPlace::Stays, RewoundPlace::Comes, RewoundPlace::Elsewhere][rank as usize % 3],
        };
        let down = Down::Rewind(all.into_iter().map(rewound).collect());
        prop_assert_eq!(Down::decode(&down.encode()[4..]), Ok(down));
    }
}

#[test]
fn an_agent_of_another_version_is_refused_with_both_versions() {
    let Up::Hello { frames, version } = hello() else { unreachable!() };
    check_hello(frames, &version).unwrap();
    for (frames, version) in [(frames + 1, &version[..]), (frames, "0.0.9")] {
        let why = check_hello(frames, version).unwrap_err();
        assert!(why.contains(version) && why.contains("--agent PATH"), "{why}");
    }
}

#[test]
fn what_a_login_shell_prints_is_shown() {
    let mut cutter = Cutter::new(FROM_AGENT);
    cutter.push(&mut b"Welcome to b\n".to_owned());
    assert!(cutter.next().unwrap_err().contains("Welcome to b"));
}

proptest! {
    #[test]
    fn any_bytes_are_frames_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Up::decode(&bytes);
        let _ = Down::decode(&bytes);
        let mut cutter = Cutter::new(64);
        cutter.push(&mut bytes);
        while let Ok(Some(frame)) = cutter.next() {
            prop_assert!(frame.len() <= 64);
        }
    }

    #[test]
    fn a_damaged_frame_is_another_frame_or_refused(at in any::<prop::sample::Index>(), byte: u8) {
        for (mut bytes, up) in ups().iter().map(Up::encode).map(|b| (b, true)).chain(downs().iter().map(Down::encode).map(|b| (b, false))) {
            let at = 4 + at.index(bytes.len() - 4);
            bytes[at] = byte;
            let _ = if up { Up::decode(&bytes[4..]).map(drop) } else { Down::decode(&bytes[4..]).map(drop) };
        }
    }
}
