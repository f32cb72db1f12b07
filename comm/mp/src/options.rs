//! Which protocol serves which messages, and how the environment says it.

use crate::engine::COST;
use scash_comm::{Error, Result};
use scash_join::job::{self, setting};
use std::ffi::OsString;
use std::time::Duration;

/// Bytes of the longest message that can travel at once: less than an endpoint's messages may have, with what
/// stands before the bytes.
pub(crate) const MOST_EAGER: usize = 512 << 20;

/// How long messages travel that are too long for eager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Large {
    /// Get of registered memory; else active zero copy up to [`Options::push`] bytes, and beyond get within a
    /// host and rendezvous elsewhere. Within a host get at all lengths over another provider than `shm`, and
    /// where that turns out to be faster ([`Options::calibrate`]).
    #[default]
    Auto,
    /// Get where the receiver can read the sender's memory, rendezvous elsewhere.
    Get,
    /// Active zero copy up to [`Options::push`] bytes, rendezvous beyond.
    Push,
    /// Rendezvous.
    Rendezvous,
}

/// Which protocol serves which messages. All ranks must choose the same `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the longest message that travels at once: 512 MiB at most.
    pub eager: usize,
    /// Bytes of the longest message that is pushed.
    pub push: usize,
    /// The protocols of longer ones than `eager`.
    pub large: Large,
    /// Bytes that may be on their way or unexpected from one rank to another.
    pub window: usize,
    /// Bytes of registered memory that a rank can have ([`allocate`](super::Communicator::allocate),
    /// [`window`](super::Communicator::window)). They cost address space only until they are used; 0: none.
    pub registered: usize,
    /// Bytes of active messages that handlers have sent to a rank, and that may wait here until it has
    /// handled others. Past that, sends of handlers fail ([`Caller::call`](super::Caller::call)).
    pub held: usize,
    /// Whether ranks of a host measure, as they meet, if long messages there are better read by their
    /// receiver than pushed: that depends on the processor. It takes a fraction of a millisecond, and then
    /// nothing longer than `eager` is pushed if reads are better; see
    /// [`Communicator::thresholds`](super::Communicator::thresholds).
    pub calibrate: bool,
    /// How long a rank may give no sign of life while others wait for it, until they take it for gone: it is
    /// stopped, or its link is cut, and nothing else may tell. Zero: for ever, which suits who stops ranks in
    /// a debugger. (A rank that *ends* is missed at once.)
    pub silence: Duration,
    /// How long a thread waits in a call until it says on stderr, in a line, what for. Zero: for ever.
    pub stall: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let (eager, push, large) = (16 << 10, 1 << 20, Large::Auto);
        let (window, registered, held) = (8 << 20, 1 << 34, 64 << 20);
        let (silence, stall) = (Duration::from_secs(10), Duration::from_secs(60));
        Self { eager, push, large, window, registered, held, silence, stall, calibrate: true }
    }
}

impl Large {
    const NAMES: [(&str, Self); 4] =
        [("auto", Self::Auto), ("get", Self::Get), ("push", Self::Push), ("rendezvous", Self::Rendezvous)];

    fn named(name: &str) -> Result<Self> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|&(_, large)| large).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name).join(", ");
            Error::Invalid(format!("SCASH_MP_LARGE={name}: there are {names}"))
        })
    }
}

impl Options {
    /// What the environment says, and the defaults where it says nothing:
    ///
    /// | variable | sets |
    /// |---|---|
    /// | `SCASH_MP_EAGER` | [`eager`](Self::eager): a size, such as `4096` or `8K` |
    /// | `SCASH_MP_PUSH` | [`push`](Self::push): a size. [`calibrate`](Self::calibrate) is off then |
    /// | `SCASH_MP_LARGE` | [`large`](Self::large): `auto`, `get`, `push` or `rendezvous` |
    /// | `SCASH_MP_WINDOW` | [`window`](Self::window): a size; the same at all ranks. Of a small one the other two are half at most, unless they are set |
    /// | `SCASH_MP_REGISTERED` | [`registered`](Self::registered): a size; the same at all ranks |
    /// | `SCASH_MP_HELD` | [`held`](Self::held): a size |
    /// | `SCASH_MP_SILENCE` | [`silence`](Self::silence): seconds, such as `10` or `0.5`; `0` or `off`: for ever |
    /// | `SCASH_STALL` | [`stall`](Self::stall): seconds; `0` or `off`: never |
    ///
    /// # Errors
    /// [`Error::Invalid`]: a value that makes no sense.
    pub fn from_env() -> Result<Self> {
        Self::read(|name| std::env::var_os(name))
    }

    /// Reads the settings that `var` looks up, as [`from_env`](Self::from_env) does.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a value that makes no sense.
    pub fn read(var: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let size = |name: &str, default: usize| match setting(name, var(name))? {
            None => Ok(default),
            Some(text) => usize::try_from(job::size(name, &text)?)
                .map_err(|_| Error::Invalid(format!("{name}={text}: more than memory has addresses for"))),
        };
        let time = |name: &str, default: Duration| match setting(name, var(name))? {
            None => Ok(default),
            Some(text) => seconds(name, &text),
        };
        let defaults = Self::default();
        let window = size("SCASH_MP_WINDOW", defaults.window)?;
        let options = Self {
            // Who sets a small window has not to set these, too.
            eager: size("SCASH_MP_EAGER", defaults.eager.min(window / 2))?,
            push: size("SCASH_MP_PUSH", defaults.push.min(window / 2))?,
            large: match setting("SCASH_MP_LARGE", var("SCASH_MP_LARGE"))? {
                None => defaults.large,
                Some(name) => Large::named(&name)?,
            },
            window,
            registered: size("SCASH_MP_REGISTERED", defaults.registered)?,
            held: size("SCASH_MP_HELD", defaults.held)?,
            // What the user has set stands.
            calibrate: setting("SCASH_MP_PUSH", var("SCASH_MP_PUSH"))?.is_none(),
            silence: time("SCASH_MP_SILENCE", defaults.silence)?,
            stall: time("SCASH_STALL", defaults.stall)?,
        };
        options.check()?;
        Ok(options)
    }

    /// Whether they make sense together.
    ///
    /// # Errors
    /// [`Error::Invalid`]: they do not, and why.
    pub(super) fn check(&self) -> Result<()> {
        if self.eager > MOST_EAGER {
            return Err(Error::Invalid(format!(
                "messages of {} bytes that travel at once (SCASH_MP_EAGER): {MOST_EAGER} is the most",
                self.eager
            )));
        }
        if self.window / 2 < COST {
            return Err(Error::Invalid(format!(
                "a window (SCASH_MP_WINDOW) of {} bytes: let it be {} at least, for a message without any",
                self.window,
                2 * COST
            )));
        }
        let unasked = self.eager.max(self.push);
        if self.window / 2 < unasked {
            return Err(Error::Invalid(format!(
                "a window (SCASH_MP_WINDOW) of {} bytes for messages of {unasked} that are sent unasked (SCASH_MP_EAGER, SCASH_MP_PUSH): \
                 let it be twice as large at least",
                self.window
            )));
        }
        Ok(())
    }
}

/// A time in seconds; none if the setting is 0 or `off`.
fn seconds(name: &str, text: &str) -> Result<Duration> {
    if text.trim() == "off" {
        return Ok(Duration::ZERO);
    }
    let time = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| {
        Error::Invalid(format!("{name}={text}: a number of seconds is expected, such as 10 or 0.5, or off"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Options> {
        Options::read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
    }

    #[test]
    fn the_environment_sets_what_it_names_and_leaves_the_rest() {
        assert_eq!(read(&[]).unwrap(), Options::default());
        assert_eq!(read(&[("SCASH_MP_LARGE", "")]).unwrap(), Options::default());
        let all = [
            ("SCASH_MP_EAGER", "512"),
            ("SCASH_MP_PUSH", "64K"),
            ("SCASH_MP_LARGE", "rendezvous"),
            ("SCASH_MP_WINDOW", "2MiB"),
            ("SCASH_MP_REGISTERED", "0"),
            ("SCASH_MP_HELD", "1M"),
            ("SCASH_MP_SILENCE", "0.25"),
            ("SCASH_STALL", "0"),
        ];
        let want = Options {
            eager: 512,
            push: 64 << 10,
            large: Large::Rendezvous,
            window: 2 << 20,
            registered: 0,
            held: 1 << 20,
            calibrate: false,
            silence: Duration::from_millis(250),
            stall: Duration::ZERO,
        };
        assert_eq!(read(&all).unwrap(), want);
        assert_eq!(
            read(&[("SCASH_MP_LARGE", "get")]).unwrap(),
            Options { large: Large::Get, ..Options::default() }
        );
    }

    #[test]
    fn a_small_window_is_for_shorter_messages_unless_longer_ones_are_asked_for() {
        let small = read(&[("SCASH_MP_WINDOW", "8K")]).unwrap();
        assert_eq!((small.window, small.eager, small.push), (8 << 10, 4 << 10, 4 << 10));
        let text = read(&[("SCASH_MP_WINDOW", "8K"), ("SCASH_MP_PUSH", "5K")]).unwrap_err().to_string();
        assert!(text.contains("twice as large"), "{text}");
    }

    #[test]
    fn whether_messages_are_pushed_is_not_measured_where_it_is_set() {
        assert!(read(&[]).unwrap().calibrate);
        assert!(!read(&[("SCASH_MP_PUSH", "64K")]).unwrap().calibrate);
    }

    #[test]
    fn limits_of_time_are_switched_off_by_zero_and_by_off() {
        for off in ["0", "off"] {
            let options = read(&[("SCASH_STALL", off), ("SCASH_MP_SILENCE", off)]).unwrap();
            assert_eq!((options.stall, options.silence), (Duration::ZERO, Duration::ZERO), "{off}");
        }
    }

    #[test]
    fn a_setting_that_makes_no_sense_is_named_with_what_would() {
        for (name, value, hint) in [
            ("SCASH_MP_EAGER", "short", "512M"),
            ("SCASH_MP_PUSH", "-1", "512M"),
            ("SCASH_MP_LARGE", "pigeon", "auto, get, push, rendezvous"),
            ("SCASH_MP_EAGER", "512M", "SCASH_MP_WINDOW"),
            ("SCASH_MP_EAGER", "1G", "536870912 is the most"),
            ("SCASH_MP_WINDOW", "127", "let it be 128 at least"),
            ("SCASH_MP_REGISTERED", "99999999T", "512M"),
            ("SCASH_MP_HELD", "much", "512M"),
            ("SCASH_MP_SILENCE", "-1", "0.5"),
            ("SCASH_MP_SILENCE", "1e99", "0.5"),
            ("SCASH_MP_SILENCE", "soon", "0.5"),
            ("SCASH_STALL", "late", "a number of seconds"),
        ] {
            let text = read(&[(name, value)]).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains(hint), "{text}");
        }
    }
}
