//! Rank program: objects that single ranks allocate, and others read, write and free: `heap WHAT [ROUNDS]`.
//!
//! Objects are filled with small numbers, zeros among them, so that a place that is used again has bytes that
//! happen to be equal, and a copy that is too old shows.

#![expect(clippy::print_stdout, reason = "a rank's answer to its test")]

mod boxes;
mod cost;
mod reused;
mod structures;
mod wrong;

use scash::runtime::Runtime;
use scash::{Dsm, Result, SharedSlice};

/// Addresses in shared memory, 0 where there is none.
type Table = SharedSlice<usize>;

/// A source of numbers, which depend on the seed only.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).expect("64 bits") % limit
    }
}

/// Lengths of objects: mostly small ones, some that have pages of their own.
fn length(numbers: &mut Numbers) -> usize {
    match numbers.below(20) {
        0 => 4096 + numbers.below(20_000),
        1..4 => 500 + numbers.below(3000),
        _ => 16 + numbers.below(300),
    }
}

/// What byte `index` of an object is.
fn byte(seed: usize, index: usize) -> u8 {
    u8::try_from((seed + index / 8) % 3).expect("a small number")
}

/// Fills an object: 8 bytes of its length, 8 of its seed, and what follows from it.
fn fill(at: *mut u8, len: usize, seed: usize) {
    // SAFETY: an object of so many bytes, at least 16, which this thread alone uses now.
    let bytes = unsafe { std::slice::from_raw_parts_mut(at, len) };
    bytes[..8].copy_from_slice(&len.to_ne_bytes());
    bytes[8..16].copy_from_slice(&seed.to_ne_bytes());
    bytes[16..].iter_mut().zip(16..).for_each(|(it, index)| *it = byte(seed, index));
}

/// The length of an object, and that all of it is as it was filled.
fn look(at: *const u8) -> usize {
    let word = |index: usize| {
        // SAFETY: one of the first two words of an object that this thread alone uses now.
        unsafe { at.cast::<usize>().wrapping_add(index).read() }
    };
    let (len, seed) = (word(0), word(1));
    assert!((16..100_000).contains(&len), "an object of {len} bytes at {at:p}");
    // SAFETY: as many bytes as the object says that it has.
    let bytes = unsafe { std::slice::from_raw_parts(at, len) };
    let wrong = (16..len).find(|&index| bytes[index] != byte(seed, index));
    assert_eq!(wrong, None, "{len} bytes at {at:p}, filled from {seed}");
    len
}

fn at(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

fn untyped(dsm: &Dsm) -> &'static Runtime {
    // SAFETY: this program has no references into shared memory while it calls anything.
    unsafe { dsm.runtime() }
}

/// Entries of the table that all threads change.
const ENTRIES: usize = 96;
const LOCKS: u32 = 8;

/// One thread's turns: it takes a lock, and allocates, looks at, fills anew, moves or frees an entry's
/// object.
fn take_turns(it: &Runtime, table: *mut usize, locks: u32, turns: usize, seed: u64) -> Result<()> {
    let mut numbers = Numbers(seed * 2 + 1);
    for turn in 0..turns {
        let index = numbers.below(ENTRIES);
        let number = locks + u32::try_from(index).expect("few entries") % LOCKS;
        it.lock(number)?;
        // SAFETY: an entry of the table, for which this thread has the lock.
        let entry = unsafe { table.wrapping_add(index).read() };
        let now = if entry == 0 {
            let len = length(&mut numbers);
            let new = if turn % 5 == 0 { it.calloc(len, 1)? } else { it.malloc(len)? };
            fill(new, len, numbers.below(1000));
            new as usize
        } else {
            let len = look(at(entry));
            match numbers.below(4) {
                0 => entry,
                1 => {
                    fill(at(entry), len, numbers.below(1000));
                    entry
                }
                2 => {
                    let longer = it.realloc(at(entry), len + numbers.below(200))?;
                    look(longer);
                    fill(longer, len, numbers.below(1000));
                    longer as usize
                }
                _ => {
                    it.free_object(at(entry))?;
                    0
                }
            }
        };
        // SAFETY: as above.
        unsafe { table.wrapping_add(index).write(now) };
        it.unlock(number)?;
    }
    Ok(())
}

/// This rank uses no more pages than so many.
fn has_not_grown(it: &Runtime, most: u32) -> Result<()> {
    let used = it.heap_use();
    assert!(used.used <= most, "more than {most} pages: {used:?}");
    Ok(())
}

/// All threads of all ranks change one table under locks, with barriers now and then.
fn table(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (it, rank, threads) = (untyped(dsm), dsm.rank(), dsm.threads());
    let table: Table = dsm.alloc(ENTRIES)?;
    let locks = it.make_locks(LOCKS)?;
    let first = table.as_ptr() as usize;
    for round in 0..rounds {
        let work = |thread: usize| {
            let seed = (round * 64 + rank * 8 + thread) as u64;
            take_turns(it, std::ptr::with_exposed_provenance_mut(first), locks, 200, seed)
        };
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
            started.into_iter().try_for_each(|thread| thread.join().expect("a thread that saw nothing wrong"))
        })?;
        dsm.barrier()?;
    }
    if rank == 0 {
        (0..ENTRIES).map(|index| table.get(dsm, index)).filter(|&entry| entry != 0).try_for_each(
            |entry| {
                look(at(entry));
                it.free_object(at(entry))
            },
        )?;
    }
    dsm.barrier()?;
    has_not_grown(it, 1500)
}

/// Ranks hand objects round by barriers alone: what one allocates the next one changes, and the one after it
/// frees.
fn barriers(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    const EACH: usize = 40;
    let (it, me, size) = (untyped(dsm), dsm.rank(), dsm.size());
    // In turns: who frees still looks at one, when others fill the next.
    let tables: [Table; 2] = [dsm.alloc(size * EACH)?, dsm.alloc(size * EACH)?];
    let mut numbers = Numbers(me as u64 + 1);
    for round in 0..rounds {
        let table = tables[round % 2];
        let of = |rank: usize| (rank % size * EACH..).take(EACH);
        for index in of(me) {
            let len = length(&mut numbers);
            let new = it.malloc(len)?;
            fill(new, len, round + index);
            table.set(dsm, index, new as usize);
        }
        dsm.barrier()?;
        for index in of(me + 1) {
            let it = at(table.get(dsm, index));
            fill(it, look(it), round * index);
        }
        dsm.barrier()?;
        for index in of(me + 2) {
            let object = at(table.get(dsm, index));
            fill(object, look(object), round + 1);
            it.free_object(object)?;
        }
        // Half of the rounds another allocation follows in the same interval.
        if round % 2 == 0 {
            dsm.barrier()?;
        }
    }
    has_not_grown(it, 1500)
}

/// Objects of different ranks lie on different pages.
fn pages(dsm: &mut Dsm, rounds: usize) -> Result<()> {
    let (it, size) = (untyped(dsm), dsm.size());
    let table: Table = dsm.alloc(size * rounds)?;
    let part = dsm.rank() * rounds..(dsm.rank() + 1) * rounds;
    let mut numbers = Numbers(dsm.rank() as u64 + 1);
    for index in part.clone() {
        let len = length(&mut numbers);
        let new = it.malloc(len)?;
        fill(new, len, index);
        table.set(dsm, index, new as usize);
    }
    dsm.barrier()?;
    let mut owners = std::collections::BTreeMap::new();
    for index in 0..size * rounds {
        let object = table.get(dsm, index);
        for page in object / 4096..=(object + look(at(object)) - 1) / 4096 {
            let owner = *owners.entry(page).or_insert(index / rounds);
            assert_eq!(owner, index / rounds, "two ranks have objects on page {page}");
        }
        if !it.shares_frames() {
            assert_eq!(it.home(at(object))?, Some(u32::try_from(index / rounds).expect("few ranks")));
        }
    }
    assert!(owners.len() < size * (rounds + 40) * 2, "{} pages", owners.len());
    dsm.barrier()?;
    part.map(|index| table.get(dsm, index)).try_for_each(|object| it.free_object(at(object)))
}

/// A heap of 1 MiB is full at some time, and what is freed can be had again.
fn full(dsm: &mut Dsm, _: usize) -> Result<()> {
    let it = untyped(dsm);
    let part = it.heap_use().part as usize;
    let (mut all, none) = fill_up(it, 4096);
    assert_eq!(all.len(), part, "pages of a part");
    let words = none.to_string();
    assert!(
        words.contains("4096 bytes of the heap") && words.contains("raise SCASH_HEAP (now 1 MiB"),
        "{words}"
    );
    all.drain(..).try_for_each(|object| it.free_object(at(object)))?;
    assert!(it.malloc(2 << 20).is_err() && it.malloc(usize::MAX).is_err());
    let whole = it.malloc(part * 4096)?;
    fill(whole, 1 << 16, 1);
    it.free_object(whole)?;
    let (small, _) = fill_up(it, 200);
    assert!(small.len() >= part * 18, "{} objects of 200 bytes", small.len());
    // Another rank frees some of them.
    const THEIRS: usize = 200;
    let table: Table = dsm.alloc(dsm.size() * THEIRS)?;
    let mine = dsm.rank() * THEIRS..(dsm.rank() + 1) * THEIRS;
    small.iter().zip(mine).for_each(|(&object, index)| table.set(dsm, index, object));
    dsm.barrier()?;
    let theirs = (dsm.rank() + 1) % dsm.size() * THEIRS;
    for index in (theirs..).take(THEIRS) {
        it.free_object(at(table.get(dsm, index)))?;
    }
    small[THEIRS..].iter().try_for_each(|&object| it.free_object(at(object)))?;
    dsm.barrier()?;
    let (again, _) = fill_up(it, 4000);
    assert!(again.len() + 2 >= part, "{} of {part} pages", again.len());
    Ok(())
}

/// Allocates until there is no room.
fn fill_up(it: &Runtime, bytes: usize) -> (Vec<usize>, scash::Error) {
    let mut all = Vec::new();
    loop {
        match it.malloc(bytes) {
            Ok(object) => all.push(object as usize),
            Err(none) => return (all, none),
        }
    }
}

type Scenario = fn(&mut Dsm, usize) -> Result<()>;

const SCENARIOS: [(&str, Scenario); 13] = [
    ("table", table),
    ("barriers", barriers),
    ("pages", pages),
    ("full", full),
    ("list", structures::list),
    ("tree", structures::tree),
    ("circle", structures::circle),
    ("boxes", boxes::stack),
    ("boxes by barriers", boxes::by_barriers),
    ("refusals of boxes", boxes::refusals),
    ("reused", reused::reused),
    ("wrong", wrong::frees),
    ("cost", cost::cost),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let what = arguments.first().map_or("", String::as_str);
    let rounds = arguments.get(1).map_or(1, |rounds| rounds.parse().expect("a number of rounds"));
    let (_, scenario) =
        SCENARIOS.into_iter().find(|(name, _)| *name == what).expect("there is such a scenario");
    let mut dsm = Dsm::init()?;
    scenario(&mut dsm, rounds)?;
    if !["wrong", "cost"].contains(&what) {
        println!("rank {} saw nothing wrong", dsm.rank());
    }
    dsm.finalize()
}
