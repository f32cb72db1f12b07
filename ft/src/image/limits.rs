//! Limits of a process that it may need to come back: of its first stack, open files, data and address space.
//! The program may have raised them since it began. So a process that comes back raises them as far as it
//! may, and has in the end what it was given, or what the program had raised them to if that is more. What it
//! has lowered is as at its start ([`settings`](super::settings)).

#![forbid(unsafe_code)]

use super::maps::{Mapping, STACK};
use super::{Refusal, area};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};
use std::sync::atomic::{AtomicU64, Ordering};

/// These limits, and what `/proc/self/limits` calls them.
const LIMITS: [(Resource, &str); 4] = [
    (Resource::RLIMIT_STACK, "Max stack size"),
    (Resource::RLIMIT_NOFILE, "Max open files"),
    (Resource::RLIMIT_DATA, "Max data size"),
    (Resource::RLIMIT_AS, "Max address space"),
];

/// The soft ones that the program began with, or was given when it came back and had not raised them; 0 where
/// nobody knows.
static AT_START: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Soft limits, one for each of [`LIMITS`].
#[derive(Clone, Copy, Debug)]
pub(super) struct SoftLimits([rlim_t; 4]);

impl SoftLimits {
    /// Those of this process. Allocates nothing.
    pub(super) fn now() -> SoftLimits {
        SoftLimits(LIMITS.map(|(limit, _)| getrlimit(limit).map_or(0, |(soft, _)| soft)))
    }

    /// Sets, in the process that has come back, those that the program had raised; the others are as they
    /// were given.
    pub(super) fn take_on(self) {
        let given = area::kept_words();
        for ((((limit, _), soft), at_start), given) in
            LIMITS.into_iter().zip(self.0).zip(&AT_START).zip(given)
        {
            if soft > at_start.load(Ordering::Relaxed) {
                set(limit, soft.max(given));
            } else {
                set(limit, given);
                at_start.store(given, Ordering::Relaxed);
            }
        }
    }
}

/// Notes what the program begins with.
pub(super) fn note_start() {
    for (at_start, soft) in AT_START.iter().zip(SoftLimits::now().0) {
        at_start.store(soft, Ordering::Relaxed);
    }
}

/// Raises all as far as this process may, which keeps what it was given.
pub(super) fn raise() {
    area::keep_words(SoftLimits::now().0);
    LIMITS.into_iter().for_each(|(limit, _)| set(limit, RLIM_INFINITY));
}

/// Sets a soft limit, as far as the hard one allows that.
fn set(limit: Resource, soft: rlim_t) {
    if let Ok((_, hard)) = getrlimit(limit) {
        let _ = setrlimit(limit, soft.min(hard), hard);
    }
}

/// The hard limit.
fn most(limit: Resource) -> rlim_t {
    getrlimit(limit).map_or(RLIM_INFINITY, |(_, hard)| hard)
}

/// What the system says of limits (`/proc/self/limits`), as if the program had raised none of these.
pub(super) fn but_for_raised(told: &str) -> String {
    let lines = told.lines().map(|line| {
        let known = LIMITS.iter().zip(&AT_START).find_map(|(&(_, name), at_start)| {
            let mut words = line.strip_prefix(name)?.split_whitespace();
            let soft = words.next()?.parse::<rlim_t>().unwrap_or(RLIM_INFINITY);
            let soft = soft.min(at_start.load(Ordering::Relaxed));
            Some(format!("{name} {soft} {}", words.collect::<Vec<_>>().join(" ")))
        });
        known.unwrap_or_else(|| line.to_owned())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a descriptor may have this number here; if not, why.
pub(super) fn allow_descriptor(number: u64) -> Result<(), String> {
    let most = most(Resource::RLIMIT_NOFILE);
    if number < most {
        return Ok(());
    }
    Err(format!("its descriptor is {number}, and `ulimit -Hn` allows {most} here"))
}

/// Refuses what the hard limits do not allow here of the memory that is to be mapped.
pub(super) fn allow_memory(mappings: &[Mapping<'_>]) -> Result<(), Refusal> {
    allow_memory_within(most, mappings)
}

/// The same, if `most` tells the hard limits.
fn allow_memory_within(most: impl Fn(Resource) -> rlim_t, mappings: &[Mapping<'_>]) -> Result<(), Refusal> {
    let is_data =
        |mapping: &Mapping<'_>| mapping.protection & 2 != 0 && !mapping.is_shared && mapping.name != STACK;
    for (limit, needed, what) in [
        (Resource::RLIMIT_STACK, bytes(mappings, |mapping| mapping.name == STACK), "stack, and `ulimit -Hs`"),
        (Resource::RLIMIT_DATA, bytes(mappings, is_data), "data, and `ulimit -Hd`"),
        (
            Resource::RLIMIT_AS,
            bytes(mappings, |mapping| !mapping.is_kernels()),
            "address space, and `ulimit -Hv`",
        ),
    ] {
        let most = most(limit);
        if needed > most {
            return Err(Refusal::new(format!(
                "it has {} KiB of {what} allows {} KiB here",
                needed >> 10,
                most >> 10
            )));
        }
    }
    Ok(())
}

/// Bytes of the mappings that count.
fn bytes(mappings: &[Mapping<'_>], counts: impl Fn(&Mapping<'_>) -> bool) -> rlim_t {
    mappings.iter().filter(|mapping| counts(mapping)).map(|mapping| mapping.range().len() as rlim_t).sum()
}

#[cfg(test)]
mod tests {
    use super::super::maps::parse;
    use super::*;

    #[test]
    fn memory_that_a_hard_limit_does_not_allow_is_refused_by_name() {
        let text =
            b"10000-30000 rw-p 0 00:00 0\n30000-40000 r--p 0 00:00 0\n40000-70000 r--s 0 00:01 9 /map\n\
            80000-c0000 rw-p 0 00:00 0 [stack]\nd0000-d1000 r-xp 0 00:00 0 [vdso]\n";
        let mappings: Vec<_> = parse(text).collect();
        assert_eq!(mappings.len(), 5);
        let why = |limit: Resource, kib: rlim_t| {
            let most = |asked| if asked == limit { kib << 10 } else { RLIM_INFINITY };
            allow_memory_within(most, &mappings).err().map(|why| why.to_string())
        };
        for (limit, kib, words) in [
            (Resource::RLIMIT_STACK, 256, "it has 256 KiB of stack, and `ulimit -Hs` allows 255 KiB here"),
            (Resource::RLIMIT_DATA, 128, "it has 128 KiB of data, and `ulimit -Hd` allows 127 KiB here"),
            (
                Resource::RLIMIT_AS,
                640,
                "it has 640 KiB of address space, and `ulimit -Hv` allows 639 KiB here",
            ),
        ] {
            assert_eq!(why(limit, kib), None);
            assert_eq!(why(limit, kib - 1).as_deref(), Some(words));
        }
        assert_eq!(allow_descriptor(0), Ok(()));
        let why = allow_descriptor(u64::MAX).unwrap_err();
        assert!(why.starts_with("its descriptor is 18446744073709551615, and `ulimit -Hn` allows "), "{why}");
    }
}
