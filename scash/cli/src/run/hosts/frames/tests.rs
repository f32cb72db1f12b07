use super::*;
use proptest::prelude::*;
use scash_comm::Secret;
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
        copied: Some(5_000_000_000),
        directory: "/home".into(),
        program: ("/bin/sh".into(), "sh".into()),
        arguments: vec!["-c".into(), OsString::new()],
        env: vec![("A".into(), "b=c".into())],
    }
}

fn ups() -> Vec<Up> {
    vec![
        hello(),
        Up::Ready,
        Up::Refused { status: 127, why: "there is no such program".into() },
        Up::Started { rank: 3, pid: 4711 },
        Up::Report(Report::Packet(3, vec![1, 2, 3])),
        Up::Report(Report::Lie(3, "rubbish".into())),
        Up::Report(Report::Exited(3, Exit::Status(255))),
        Up::Report(Report::Exited(3, Exit::Signal(9))),
        Up::Output { stream: Stream::Err, rank: 3, bytes: b"text\n".to_vec() },
        Up::Done,
        Up::Alive,
        Up::OutOfMemory,
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
