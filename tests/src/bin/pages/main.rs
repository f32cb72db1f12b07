//! A seeded random program on real shared memory: `pages SEED INTERVALS`.
//!
//! In each interval every byte has at most one writer, and whoever reads a byte that somebody else writes
//! waits for the next one: the program has no data race. So the values of all bytes follow from the seed, and
//! each rank computes them for itself (the **oracle**) and compares whatever it reads. The threads of a rank
//! (`scash run --threads`) share its work. The first wrong byte ends the rank, with its place.
//!
//! It is the twin on real memory of the simulator's random programs ([`scash_sim::random`]).

#![allow(clippy::print_stdout, reason = "a rank tells what it has checked")]

mod plan;

use plan::{Call, Edit, End, Piece, Use};
use scash::runtime::{self, Runtime};
use scash_sim::rng::Rng;
use std::error::Error;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// An allocation, and what its bytes are to be.
struct Area {
    used: Use,
    start: *mut u8,
    oracle: Vec<u8>,
}

// SAFETY: the start is an address of shared memory, which any thread may use; the plan says which bytes.
unsafe impl Sync for Area {}

impl Area {
    fn alloc(dsm: &Runtime, used: Use) -> Result<Area> {
        let start = dsm.alloc(used.bytes, used.options)?;
        Ok(Area { start, oracle: vec![0; used.bytes], used })
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.oracle.len());
        self.start.wrapping_add(offset)
    }

    fn write(&self, offset: usize, values: &[u8], edit: Edit) {
        let to = self.at(offset);
        if edit == Edit::Copy {
            // SAFETY: these bytes of the allocation are this thread's to write in this interval.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
            return;
        }
        for (i, value) in values.iter().enumerate() {
            // SAFETY: as above.
            unsafe { to.wrapping_add(i).write_volatile(*value) };
        }
    }

    /// Compares bytes that nobody is writing.
    fn check(&self, offset: usize, expected: &[u8]) -> Result<()> {
        for (i, expected) in expected.iter().enumerate() {
            // SAFETY: inside the allocation; volatile, since it is whatever other ranks wrote.
            let found = unsafe { self.at(offset + i).read_volatile() };
            if found != *expected {
                let used = &self.used;
                let at = offset + i;
                return Err(
                    format!("byte {at} is {found:#04x} instead of {expected:#04x} in {used:?}").into()
                );
            }
        }
        Ok(())
    }
}

/// What a rank's threads share in an interval.
struct Work<'a> {
    areas: &'a [Area],
    pieces: &'a [Vec<Piece>],
    rank: u32,
    threads: usize,
}

impl Work<'_> {
    /// Writes and reads what is this rank's, on all its threads. Returns the number of bytes checked.
    fn run(&self) -> Result<usize> {
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..self.threads).map(|thread| scope.spawn(move || self.share(thread))).collect();
            let mut checked = self.share(0)?;
            for other in others {
                checked += other.join().map_err(|_| "a thread panicked")??;
            }
            Ok(checked)
        })
    }

    /// One thread's share.
    fn share(&self, thread: usize) -> Result<usize> {
        let mut checked = 0;
        for (area, pieces) in self.areas.iter().zip(self.pieces) {
            for piece in pieces.iter().skip(thread).step_by(self.threads) {
                let start = piece.range.start;
                let old = &area.oracle[piece.range.clone()];
                if piece.writer == Some(self.rank) {
                    let new = piece.new_values(old);
                    area.check(start, &old[..old.len().min(16)])?;
                    area.write(start, &new, piece.edit);
                    area.check(start, &new)?;
                    checked += new.len();
                } else if piece.is_read_by(self.rank, area.used.readers) {
                    area.check(start, old)?;
                    checked += old.len();
                }
            }
        }
        Ok(checked)
    }

    /// What this rank wrote in an allocation, and what it may read of it, after a call.
    fn look_again(&self, area: usize) -> Result<usize> {
        let (area, pieces) = (&self.areas[area], &self.pieces[area]);
        let mut checked = 0;
        for piece in pieces.iter().filter(|piece| piece.writer.is_none_or(|writer| writer == self.rank)) {
            let values = piece.new_values(&area.oracle[piece.range.clone()]);
            area.check(piece.range.start, &values)?;
            checked += values.len();
        }
        Ok(checked)
    }
}

/// A rank in its way through the program.
struct Program {
    dsm: &'static Runtime,
    rank: u32,
    ranks: u32,
    seed: u64,
    areas: Vec<Area>,
    checked: usize,
}

impl Program {
    fn start(seed: u64) -> Result<Program> {
        let dsm = runtime::init()?;
        let (rank, ranks) = (dsm.rank(), dsm.size());
        let mut rng = Rng::new(seed);
        let first = [Use::draw(&mut rng, ranks), Use::draw(&mut rng, ranks)];
        let areas = first.into_iter().map(|used| Area::alloc(dsm, used)).collect::<Result<_>>()?;
        Ok(Program { dsm, rank, ranks, seed, areas, checked: 0 })
    }

    /// One interval, up to and including the collective call that ends it.
    fn interval(&mut self, number: u32) -> Result<()> {
        let pieces: Vec<_> = self.areas.iter().map(|area| area.used.pieces(number, self.ranks)).collect();
        let work = Work {
            areas: &self.areas,
            pieces: &pieces,
            rank: self.rank,
            threads: self.dsm.threads() as usize,
        };
        self.checked += work.run()?;
        let mut rng = Rng::part(self.seed, u64::from(number));
        let uses: Vec<&Use> = self.areas.iter().map(|area| &area.used).collect();
        let calls = plan::calls(&mut rng, &uses, self.ranks);
        let end = plan::end(&mut rng, &uses, self.ranks);
        for (area, rank, call) in calls {
            if rank.is_none_or(|rank| rank == self.rank) {
                self.areas[area].call(self.dsm, &call)?;
                self.checked += work.look_again(area)?;
            }
        }
        for (area, pieces) in self.areas.iter_mut().zip(&pieces) {
            for piece in pieces {
                let values = piece.new_values(&area.oracle[piece.range.clone()]);
                area.oracle[piece.range.clone()].copy_from_slice(&values);
            }
        }
        self.end(end)
    }

    fn end(&mut self, end: End) -> Result<()> {
        match end {
            End::Barrier => self.dsm.barrier()?,
            End::Broadcast(area, some) => {
                let area = &self.areas[area];
                self.dsm.broadcast(area.at(some.start), some.len())?;
                area.check(some.start, &area.oracle[some.clone()])?;
                self.checked += some.len();
                // Lest a faster rank writes the next interval's values meanwhile.
                self.dsm.barrier()?;
            }
            End::Alloc(used) => self.areas.push(Area::alloc(self.dsm, used)?),
            End::Free(area) => self.dsm.free(self.areas.swap_remove(area).start)?,
        }
        Ok(())
    }

    /// Compares everything.
    fn finish(mut self) -> Result<usize> {
        for area in &self.areas {
            area.check(0, &area.oracle)?;
            self.checked += area.oracle.len();
        }
        self.dsm.finalize()?;
        Ok(self.checked)
    }
}

impl Area {
    fn call(&self, dsm: &Runtime, call: &Call) -> Result<()> {
        match call {
            Call::SetHome(some, rank) => dsm.set_home(self.at(some.start), some.len(), *rank)?,
            Call::SetProtocol(protocol) => dsm.set_protocol(self.start, *protocol)?,
            Call::WriteBack(some) => dsm.write_back(self.at(some.start), some.len())?,
            Call::ReadHome(some) => dsm.read_home(self.at(some.start), some.len())?,
        }
        Ok(())
    }
}

fn run(seed: u64, intervals: u32) -> Result<()> {
    let mut program = Program::start(seed)?;
    let rank = program.rank;
    for number in 0..intervals {
        program.interval(number).map_err(|why| format!("rank {rank}, interval {number}: {why}"))?;
    }
    let checked = program.finish().map_err(|why| format!("rank {rank}, at the end: {why}"))?;
    println!("rank {rank}: {checked} bytes are right");
    Ok(())
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [seed, intervals] = numbers[..] else {
        eprintln!("usage: pages SEED INTERVALS");
        return ExitCode::from(2);
    };
    match run(seed, u32::try_from(intervals).unwrap_or(u32::MAX)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pages: seed {seed}: {why}");
            ExitCode::FAILURE
        }
    }
}
