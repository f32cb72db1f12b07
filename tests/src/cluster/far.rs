//! A remote shell whose commands stay when it is killed, and are not its children, as behind a network.
//! (Those of [`Hosts::job`] are agents themselves.)

use super::Hosts;
use scash_bench::namespaces::script;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What calls it writes its words and makes two pipes, which a thread here finds.
#[derive(Debug)]
pub struct FarShell {
    script: PathBuf,
    calls: PathBuf,
    is_over: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl FarShell {
    /// That of these hosts, which outlive it.
    pub fn new(hosts: &Hosts) -> FarShell {
        let (path, calls) = (hosts.file("far-rsh"), hosts.file("calls"));
        fs::create_dir(&calls).unwrap();
        let text = format!(
            "[ -e {calls}/no-$host ] && exit 255\n\
             exec 3<&0; call=$(mktemp -d -p {calls}); mkfifo $call/in $call/out\n\
             printf '%s\\n' $host \"$@\" >$call/words; mv $call/words $call/ready\n\
             cat <&3 >$call/in & exec cat $call/out 3<&-",
            calls = calls.display()
        );
        script(&path, &text).unwrap();
        hosts.job(""); // which writes the usual shell
        let (usual, is_over) = (hosts.file("rsh"), Arc::new(AtomicBool::new(false)));
        let serving = thread::spawn({
            let (calls, is_over) = (calls.clone(), Arc::clone(&is_over));
            move || serve(&calls, &usual, &is_over)
        });
        FarShell { script: path, calls, is_over, serving: Some(serving) }
    }

    /// From now on nobody reaches a host of this name, but by commands that are there.
    pub fn reach_no_more(&self, host: &str) {
        File::create(self.calls.join(format!("no-{host}"))).unwrap();
    }

    /// The command.
    pub fn path(&self) -> &Path {
        &self.script
    }
}

/// Runs what is called, each in a thread, until that is over.
fn serve(calls: &Path, usual: &Path, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        for call in fs::read_dir(calls).unwrap().map(|entry| entry.unwrap().path()) {
            if fs::rename(call.join("ready"), call.join("taken")).is_ok() {
                let usual = usual.to_owned();
                thread::spawn(move || run(&call, &usual));
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    // They end with their hosts.
}

/// Runs what a call says.
fn run(call: &Path, usual: &Path) {
    let words = fs::read_to_string(call.join("taken")).unwrap();
    // Each waits until the other end is there: for ever, if the caller was killed meanwhile.
    let input = File::open(call.join("in")).unwrap();
    let output = File::options().write(true).open(call.join("out")).unwrap();
    let child = Command::new(usual).args(words.lines()).stdin(input).stdout(output).spawn();
    child.unwrap().wait().unwrap();
}

impl Drop for FarShell {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = self.serving.take().map(JoinHandle::join);
    }
}
