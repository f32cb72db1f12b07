//! When a rank that uses its locks looks for what peers want.
//!
//! Whoever takes and gives back what is here needs no peer, and would keep it from those that ask for it: the
//! thread that answers peers may wait for a core for long. So who gives something back takes what has
//! arrived, now and then.

use std::time::{Duration, Instant};

/// Times that something is given back between two looks, at most.
const MOST_TIMES: u32 = 8;
/// Time between two looks after which the next one is due. To look costs a tenth of this, or less.
const LONGEST: Duration = Duration::from_micros(20);

/// See [the module](self).
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Times that a lock was given back, or others were let go on, since the last look.
    times: u32,
    /// When that was.
    last: Option<Instant>,
    /// It came so soon after the one before that the clock need not be asked each time: that takes a quarter
    /// of the time that a lock does which is here.
    is_busy: bool,
}

impl Looks {
    /// Something is given back: whether it is time to look. `now`: the clock, which is asked if need be.
    pub(crate) fn are_due(&mut self, now: impl FnOnce() -> Instant) -> bool {
        self.times += 1;
        let many = self.times >= MOST_TIMES;
        if self.is_busy && !many {
            return false;
        }
        let now = now();
        let long = self.last.is_none_or(|last| now.duration_since(last) >= LONGEST);
        if many || long {
            *self = Looks { times: 0, last: Some(now), is_busy: !long };
        }
        many || long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of so many times, each so long after the one before, are due.
    fn due(looks: &mut Looks, times: u32, apart: Duration) -> Vec<u32> {
        let start = looks.last.unwrap_or_else(Instant::now);
        (1..=times).filter(|&n| looks.are_due(|| start + n * apart)).collect()
    }

    #[test]
    fn a_rank_looks_every_so_many_times_or_after_so_long() {
        let mut looks = Looks::default();
        assert!(looks.are_due(Instant::now), "the first time");
        assert_eq!(due(&mut looks, 24, Duration::ZERO), [8, 16, 24]);
        assert_eq!(due(&mut looks, 11, LONGEST), [8, 9, 10, 11]);
        assert_eq!(due(&mut looks, 8, LONGEST / 2), [2, 4, 6, 8]);
    }

    #[test]
    fn the_clock_is_asked_once_a_look_where_looks_are_close_to_each_other() {
        let mut looks = Looks::default();
        let (start, mut asked) = (Instant::now(), 0);
        for _ in 0..1 + 8 {
            looks.are_due(|| start);
        }
        for _ in 0..80 {
            looks.are_due(|| {
                asked += 1;
                start
            });
        }
        assert_eq!(asked, 10);
    }
}
