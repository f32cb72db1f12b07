//! Ctrl-C, for programs that must tidy up before they end.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C, SIGTERM and SIGHUP are only noted. The job that runs then is ended as one that hangs,
/// so that its process goes on. A second one of a kind ends the process.
pub fn heed_interrupts() {
    extern "C" fn note(_: i32) {
        IS_INTERRUPTED.store(true, Ordering::Relaxed);
    }
    let flags = SaFlags::SA_RESTART | SaFlags::SA_RESETHAND;
    let action = SigAction::new(SigHandler::Handler(note), flags, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler stores into an atomic variable, and does nothing else.
        unsafe { sigaction(signal, &action) }.unwrap();
    }
}

/// Whether one has come.
pub fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}
