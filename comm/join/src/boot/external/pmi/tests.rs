use super::*;
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

/// A server that gives these answers to whatever is asked, and returns the questions.
fn server(answers: &'static [&'static str]) -> (BorrowedFd<'static>, thread::JoinHandle<Vec<String>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let serve = thread::spawn(move || {
        let mut reader = BufReader::new(ours.try_clone().unwrap());
        let mut questions = Vec::new();
        for answer in answers {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 {
                break;
            }
            questions.push(line.trim_end().to_owned());
            (&ours).write_all(answer.as_bytes()).unwrap();
        }
        questions
    });
    (stays_open(theirs), serve)
}

/// As the socket of a process is.
fn stays_open(socket: UnixStream) -> BorrowedFd<'static> {
    let socket: &UnixStream = Box::leak(Box::new(socket));
    socket.as_fd()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn the_conversation_is_that_of_pmi_1() {
    let (socket, serve) = server(&[
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        "cmd=my_kvsname rc=0 kvsname=7.0\n",
        "cmd=put_result rc=0 msg=success\n",
        "cmd=barrier_out\n",
        "cmd=get_result rc=0 msg=success value=a,b=c\n",
        "cmd=finalize_ack\n",
    ]);
    let mut pmi = Pmi::greet(socket, 1, 2, soon()).unwrap();
    assert_eq!((pmi.rank(), pmi.size(), pmi.job()), (1, 2, "7.0"));
    pmi.put("scash.1", "a,b=c").unwrap();
    assert!(pmi.fence(soon()).unwrap());
    assert_eq!(&*pmi.get(0, "scash.0").unwrap(), "a,b=c");
    pmi.finalize().unwrap();
    let questions = [
        "cmd=init pmi_version=1 pmi_subversion=1",
        "cmd=get_my_kvsname",
        "cmd=put kvsname=7.0 key=scash.1 value=a,b=c",
        "cmd=barrier_in",
        "cmd=get kvsname=7.0 key=scash.0",
        "cmd=finalize",
    ];
    assert_eq!(serve.join().unwrap(), questions);
}

#[test]
fn a_server_that_refuses_is_quoted_and_one_that_is_gone_is_named() {
    let greeting = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=my_kvsname kvsname=s\n";
    let cases: [(&'static [&'static str], &str); 5] = [
        (&["cmd=response_to_init rc=-1\n"], "cmd=response_to_init rc=-1"),
        (&["cmd=response_to_init pmi_version=2 rc=0\n"], "pmi_version=2"),
        (&["\x1b[31mwhat?\n"], "\u{FFFD}[31mwhat?"),
        (&["cmd=response_to_init rc=0\n", "cmd=my_kvsname\n"], "when process 0 asks \"cmd=get_my_kvsname\""),
        (&[], "is gone"),
    ];
    for (answers, words) in cases {
        let (socket, serve) = server(answers);
        let error = Pmi::greet(socket, 0, 2, soon()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        drop(serve);
    }
    let (socket, _serve) =
        server(Box::leak(Box::new([greeting, "", "cmd=get_result rc=-1 msg=key_not_found\n"])));
    let mut pmi = Pmi::greet(socket, 0, 2, soon()).unwrap();
    let error = pmi.get(1, "k").unwrap_err().to_string();
    assert!(error.contains("key_not_found") && error.contains("key=k"), "{error}");
}

#[test]
fn others_that_do_not_come_are_not_waited_for_beyond_the_time() {
    let greeting = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=my_kvsname kvsname=s\n";
    let (socket, _serve) = server(Box::leak(Box::new([greeting, "", "", ""])));
    let mut pmi = Pmi::greet(socket, 0, 2, soon()).unwrap();
    assert!(!pmi.fence(Instant::now() + Duration::from_millis(30)).unwrap());
}

#[test]
fn a_line_without_end_is_refused() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let writer = thread::spawn(move || while (&ours).write_all(&[b'x'; 1000]).is_ok() {});
    let reader = theirs.try_clone().unwrap();
    let error = Pmi::greet(stays_open(theirs), 0, 2, soon()).unwrap_err().to_string();
    assert!(error.contains("the launcher answers \"xxx"), "{error}");
    reader.shutdown(std::net::Shutdown::Both).unwrap();
    writer.join().unwrap();
}

#[test]
fn a_word_that_is_refused_is_not_told_in_the_error() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let answers = b"cmd=response_to_init rc=0\ncmd=my_kvsname kvsname=s\ncmd=put_result rc=-1 value=echo\n";
    (&ours).write_all(answers).unwrap();
    let mut pmi = Pmi::greet(stays_open(theirs), 0, 2, soon()).unwrap();
    let error = pmi.put("scash.root", "hidden").unwrap_err().to_string();
    assert!(error.contains("scash.root") && !error.contains("hidden") && !error.contains("echo"), "{error}");
}

#[test]
fn variables_that_make_no_sense_are_named() {
    let file = tempfile::tempfile().unwrap();
    let file = OwnedFd::from(file).into_raw_fd().to_string();
    let cases = [
        ("999999", "0", "2", "names no socket"),
        ("1", "0", "2", "names no socket"),
        (file.as_str(), "0", "2", "names no socket"),
        ("x", "0", "2", "names no socket"),
        ("9", "2", "2", "PMI_RANK=2 in a job of PMI_SIZE=2"),
        ("9", "", "2", "PMI_RANK=\"\""),
        ("9", "0", "-1", "PMI_SIZE=\"-1\""),
    ];
    for (fd, rank, size, words) in cases {
        let var = |name: &str| {
            let value = match name {
                "PMI_FD" => fd,
                "PMI_RANK" => rank,
                _ => size,
            };
            Some(value.into())
        };
        let error = Pmi::find(&var, soon()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(Pmi::find(&|_| None, soon()).unwrap().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_a_server_says_is_an_answer_or_an_error(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'=')], 0..300)) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&ours).write_all(b"cmd=response_to_init rc=0\ncmd=my_kvsname kvsname=s\n").unwrap();
        (&ours).write_all(&bytes).unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        let mut pmi = Pmi::greet(stays_open(theirs), 0, 2, soon()).unwrap();
        while pmi.get(0, "k").is_ok() {}
    }
}
