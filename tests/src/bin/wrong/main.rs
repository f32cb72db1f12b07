//! A program that does something wrong: `wrong MISTAKE [NOTES]`.
//!
//! `NOTES` is a directory in which ranks leave notes for each other, where one must not go on before others
//! have come somewhere.

mod destroy;
mod fork;
mod holders;
mod owners;
mod publish;
mod stall;

use scash::runtime::{ObjectKind, Runtime};
use scash::{Atomic, Dsm, Result, Rmw, SharedSlice};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

const PAGE: usize = 4096;
/// Pages of which rank 0 is the home: more than one fetch brings.
const MANY: usize = 4096;

struct Rank {
    dsm: Dsm,
    notes: PathBuf,
}

impl Rank {
    fn untyped(&self) -> &'static Runtime {
        // SAFETY: this program has no references into shared memory.
        unsafe { self.dsm.runtime() }
    }

    fn is(&self, rank: usize) -> bool {
        self.dsm.rank() == rank
    }

    /// Leaves a note, which the other ranks can [`wait_for`](Self::wait_for).
    fn note(&self, name: &str) {
        std::fs::write(note(&self.notes, name, self.dsm.rank()), "").expect("a directory for notes");
    }

    fn wait_for(&self, name: &str, rank: usize) {
        wait_for(&note(&self.notes, name, rank));
    }

    /// Says why a call failed, and waits until all ranks have been told: the end of one that was told earlier
    /// would be news too.
    fn tell(self, told: Result<()>) -> ExitCode {
        self.say(told);
        self.note("told");
        (0..self.dsm.size()).for_each(|rank| self.wait_for("told", rank));
        ExitCode::FAILURE
    }

    fn say(&self, told: Result<()>) {
        let told = told.err().map_or("nothing".to_owned(), |error| error.to_string());
        // In one piece, so that ranks do not talk over each other.
        let line = format!("rank {} was told: {told}\n", self.dsm.rank());
        std::io::stdout().write_all(line.as_bytes()).expect("a reader");
    }
}

fn note(notes: &Path, name: &str, rank: usize) -> PathBuf {
    notes.join(format!("{name}.{rank}"))
}

fn wait_for(note: &Path) {
    while !note.exists() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends this process as a crash would: at once.
fn die() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("nobody survives SIGKILL")
}

/// Waits for the end, which another rank brings.
fn stay() -> ! {
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

/// SIGTERM would end a rank before it says what it was told.
fn ignore_sigterm() {
    // SAFETY: this program installs no handler for it, and none is in place.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

fn touch(slice: SharedSlice<u8>, index: usize) -> u8 {
    // SAFETY: not sound: whether the memory is there is the question that the system answers.
    unsafe { slice.as_ptr().wrapping_add(index).read_volatile() }
}

/// Ranks that make different calls, or the same with different arguments.
fn disagree(mut rank: Rank, mistake: &str) -> Result<ExitCode> {
    let page = rank.dsm.alloc::<u8>(PAGE)?;
    let other = rank.dsm.alloc::<u8>(PAGE)?;
    let last = rank.is(rank.dsm.size() - 1);
    let mut field = rank.dsm.partition::<u8>(PAGE)?;
    let told = match (mistake, last) {
        ("sizes", _) => rank.dsm.alloc::<u8>(if last { 2 * PAGE } else { PAGE }).map(drop),
        ("frees", _) => rank.dsm.free(if last { page } else { other }),
        ("ends", true) => rank.untyped().finalize(),
        ("publishes", true) => field.publish(&mut rank.dsm),
        ("broadcasts", true) => rank.dsm.broadcast(page, 0..PAGE),
        ("semaphores", true) => rank.dsm.semaphores(2, 7).map(drop),
        ("semaphores", false) => rank.dsm.flags(2).map(drop),
        _ => rank.dsm.barrier(),
    };
    Ok(rank.tell(told))
}

/// Ranks that allocate different sizes, and end as soon as each has been told.
fn disagree_and_leave(mut rank: Rank) -> Result<ExitCode> {
    ignore_sigterm();
    let last = rank.is(rank.dsm.size() - 1);
    let told = rank.dsm.alloc::<u8>(if last { 2 * PAGE } else { PAGE }).map(drop);
    rank.say(told);
    Ok(ExitCode::FAILURE)
}

/// A rank dies in the middle of barriers.
fn die_in_barriers(mut rank: Rank) -> Result<ExitCode> {
    let notes = rank.notes.clone();
    ignore_sigterm();
    if rank.is(1) {
        thread::spawn(move || {
            wait_for(&note(&notes, "underway", 0));
            die()
        });
    }
    let told = (0..).find_map(|round| {
        if round == 200 {
            rank.note("underway");
        }
        rank.dsm.barrier().err()
    });
    let told = told.map_or("nothing".to_owned(), |error| error.to_string());
    let line = format!("rank {} was told: {told}\n", rank.dsm.rank());
    std::io::stdout().write_all(line.as_bytes()).expect("a reader");
    Ok(ExitCode::FAILURE)
}

/// Rank 0 dies while the others fetch its pages.
fn die_while_fetched_from(mut rank: Rank) -> Result<ExitCode> {
    ignore_sigterm();
    let pages = rank.dsm.alloc::<u8>(MANY * PAGE)?;
    if rank.is(0) {
        (0..MANY).for_each(|page| pages.set(&rank.dsm, page * PAGE, 1));
    }
    rank.dsm.barrier()?;
    if rank.is(0) {
        rank.wait_for("underway", 1);
        die();
    }
    // Backwards, so that no fetch brings the pages of the next one.
    for page in (0..MANY).rev() {
        if page == MANY - 64 && rank.is(1) {
            rank.note("underway");
        }
        if pages.get(&rank.dsm, page * PAGE) != 1 {
            return Ok(ExitCode::from(99));
        }
    }
    rank.dsm.barrier()?;
    Ok(ExitCode::SUCCESS)
}

/// From now on, the system tells this thread that there is no memory whenever a fault engine asks for some.
fn refuse_memory() {
    let step = |code: u32, yes, no, k: u32| libc::sock_filter {
        code: u16::try_from(code).expect("a code of 16 bits"),
        jt: yes,
        jf: no,
        k,
    };
    let is = |call: libc::c_long, yes, no| {
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            yes,
            no,
            u32::try_from(call).expect("a call's number"),
        )
    };
    let no_memory = libc::SECCOMP_RET_ERRNO | libc::ENOMEM.cast_unsigned();
    let mut filter = [
        // The call's number.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        is(libc::SYS_ioctl, 1, 0),
        is(libc::SYS_mprotect, 0, 1),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, no_memory),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 5, filter: filter.as_mut_ptr() };
    // SAFETY: gives up the right to gain privileges, which a filter asks for.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: `program` describes the filter above.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(done, 0);
}

/// Rank 0 gets no memory for a page that it touches.
fn run_out_of_memory(mut rank: Rank) -> Result<ExitCode> {
    ignore_sigterm();
    let page = rank.dsm.alloc::<u8>(PAGE)?;
    if rank.is(0) {
        eprintln!("about to touch {:p}", page.as_ptr());
        refuse_memory();
        page.set(&rank.dsm, 0, 1);
    }
    rank.dsm.barrier()?;
    Ok(ExitCode::SUCCESS)
}

/// Two threads of rank 0 are in the barrier at once: the other ranks come when one of the two was refused.
fn meet_twice(mut rank: Rank) -> Result<ExitCode> {
    let (me, size) = (rank.dsm.rank(), rank.dsm.size());
    let numbers = rank.dsm.alloc::<usize>(size)?;
    numbers.set(&rank.dsm, me, me + 1);
    if rank.is(0) {
        let (runtime, refused) = (rank.untyped(), note(&rank.notes, "refused", 0));
        let meet = || runtime.barrier().inspect_err(|_| std::fs::write(&refused, "").expect("a directory"));
        let told = thread::scope(|scope| {
            [scope.spawn(meet), scope.spawn(meet)].map(|thread| thread.join().expect("no panic"))
        });
        told.into_iter().filter(Result::is_err).for_each(|told| rank.say(told));
    } else {
        rank.wait_for("refused", 0);
        rank.dsm.barrier()?;
    }
    let right = (0..size).all(|r| numbers.get(&rank.dsm, r) == r + 1);
    rank.dsm.finalize()?;
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::from(99) })
}

/// Touches what is not there: rank 0 alone, so that it is the one that ends the job.
fn touch_wrongly(mut rank: Rank, mistake: &str) -> Result<ExitCode> {
    let page = rank.dsm.alloc::<u8>(PAGE)?;
    page.set(&rank.dsm, rank.dsm.rank(), 1);
    rank.dsm.barrier()?;
    match mistake {
        "freed" => rank.dsm.free(page)?,
        _ => rank.dsm.barrier()?,
    }
    if !rank.is(0) {
        stay();
    }
    eprintln!("about to touch {:p}", page.as_ptr());
    let address: *mut u8 = match mistake {
        "freed" => page.as_ptr(),
        "beyond" => page.as_ptr().wrapping_add(PAGE),
        _ => std::ptr::without_provenance_mut(0),
    };
    // SAFETY: not sound: the system ends the process here, which is what the program is for.
    unsafe { address.write_volatile(1) };
    Ok(ExitCode::SUCCESS)
}

/// Rank 0 touches what it had, after `dsm_finalize`.
fn touch_after_the_end(mut rank: Rank) -> Result<ExitCode> {
    let pages = rank.dsm.alloc::<u8>(2 * PAGE)?;
    pages.set(&rank.dsm, 0, 1);
    let is_first = rank.is(0);
    rank.dsm.finalize()?;
    if is_first {
        eprintln!("about to touch {:p}", pages.as_ptr());
        touch(pages, 0);
    }
    Ok(ExitCode::SUCCESS)
}

/// Uses each object of synchronisation in ways that it is not for: rank 0 says what it was told, and all end
/// well.
fn use_objects_wrongly(rank: Rank) -> Result<ExitCode> {
    let it = rank.untyped();
    let lock = it.make_locks(2)?;
    let rwlock = it.make_objects(ObjectKind::RwLock, 1)?;
    let semaphore = it.make_objects(ObjectKind::Semaphore(1), 1)?;
    let condition = it.make_objects(ObjectKind::Condition, 1)?;
    let flag = it.make_objects(ObjectKind::Flag, 1)?;
    if rank.is(0) {
        it.lock(lock)?;
        rank.say(it.lock(lock));
        rank.say(it.unlock(lock + 1));
        it.read_lock(rwlock)?;
        rank.say(it.write_lock(rwlock));
        it.rw_unlock(rwlock)?;
        it.write_lock(rwlock)?;
        rank.say(it.read_lock(rwlock));
        it.rw_unlock(rwlock)?;
        rank.say(it.rw_unlock(rwlock));
        rank.say(it.condition_wait(condition, lock + 1));
        rank.say(it.lock(rwlock));
        rank.say(it.read_lock(lock));
        rank.say(it.semaphore_wait(flag));
        rank.say(it.flag_raise(semaphore, 1));
        rank.say(it.condition_signal(semaphore));
        rank.say(it.try_lock(flag + 1).map(drop));
        rank.say(it.semaphore_post(semaphore, 0));
        rank.say(it.make_objects(ObjectKind::Flag, 0).map(drop));
        it.unlock(lock)?;
    }
    it.semaphore_wait(semaphore)?;
    it.semaphore_post(semaphore, 1)?;
    rank.dsm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

/// A thread of rank 0 waits while another one comes to the memory barrier: whoever is later of the two is
/// refused. The other ranks come to the barrier then.
fn wait_and_meet(mut rank: Rank) -> Result<ExitCode> {
    let (it, semaphore) = (rank.untyped(), rank.dsm.semaphores(1, 0)?[0]);
    if !rank.is(0) {
        rank.wait_for("refused", 0);
        rank.dsm.barrier()?;
        rank.dsm.finalize()?;
        return Ok(ExitCode::SUCCESS);
    }
    let refused = note(&rank.notes, "refused", 0);
    let waiting = thread::spawn(move || {
        it.semaphore_wait(0).inspect_err(|_| std::fs::write(&refused, "").expect("a directory"))
    });
    let told = rank.dsm.barrier();
    if told.is_err() {
        rank.note("refused");
        semaphore.post(&rank.dsm)?;
        waiting.join().expect("no panic")?;
        rank.dsm.barrier()?;
        rank.say(told);
    } else {
        rank.say(waiting.join().expect("no panic"));
    }
    rank.dsm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

/// Ranks 0 and 1 take two locks, each in its own order; rank 2 waits for them in a memory barrier.
fn lock_each_other_out(mut rank: Rank) -> Result<ExitCode> {
    let runtime = rank.untyped();
    rank.dsm.locks(2)?;
    let me = rank.dsm.rank();
    if me < 2 {
        let lock = |number: usize| runtime.lock(u32::try_from(number).expect("0 or 1"));
        lock(me)?;
        rank.note("locked");
        rank.wait_for("locked", 1 - me);
        lock(1 - me)?;
    }
    rank.dsm.barrier()?;
    Ok(ExitCode::SUCCESS)
}

/// One of two threads waits for the other, which makes another collective call. (With one rank, that call
/// waits for nobody.)
fn stay_away_from_the_crew(rank: Rank) -> Result<ExitCode> {
    let (here, there) = (rank.untyped(), rank.untyped());
    let waits = thread::spawn(move || there.barrier_threads());
    let told = std::iter::repeat_with(|| here.barrier()).find(Result::is_err);
    rank.say(told.expect("an endless sequence"));
    here.barrier_threads()?;
    waits.join().expect("no panic")?;
    rank.dsm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

/// Two threads of rank 0 come, which has one; rank 1 comes when one of them was refused.
fn crowd(rank: Rank) -> Result<ExitCode> {
    if rank.is(0) {
        let (it, refused) = (rank.untyped(), note(&rank.notes, "refused", 0));
        let come = move || {
            let told = it.barrier_threads();
            if told.is_err() {
                std::fs::write(&refused, "").expect("a directory");
            }
            told
        };
        let other = thread::spawn(come.clone());
        let told = come();
        rank.say(told.and(other.join().expect("no panic")));
    } else {
        rank.wait_for("refused", 0);
        rank.untyped().barrier_threads()?;
    }
    rank.dsm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

/// One of two threads never comes.
fn never_come(rank: &Rank) -> Result<ExitCode> {
    rank.untyped().barrier_threads()?;
    Ok(ExitCode::SUCCESS)
}

/// A thread of rank 0 goes on doing something while another one is in the memory barrier, until it is
/// refused.
fn do_and_meet(rank: &mut Rank, it: impl Fn() -> Result<()> + Send + 'static) -> Result<()> {
    if rank.is(0) {
        let refused = note(&rank.notes, "refused", 0);
        let doing = thread::spawn(move || {
            let told = std::iter::repeat_with(it).find(Result::is_err);
            std::fs::write(&refused, "").expect("a directory");
            told.expect("an endless sequence")
        });
        rank.dsm.barrier()?;
        rank.say(doing.join().expect("no panic"));
    } else {
        rank.wait_for("refused", 0);
        rank.dsm.barrier()?;
    }
    Ok(())
}

fn post_and_meet(mut rank: Rank) -> Result<ExitCode> {
    let (it, semaphore) = (rank.untyped(), rank.dsm.semaphores(1, 0)?[0]);
    do_and_meet(&mut rank, move || it.semaphore_post(0, 1))?;
    semaphore.post(&rank.dsm)?;
    semaphore.wait(&rank.dsm)?;
    rank.dsm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

fn operate_and_meet(mut rank: Rank) -> Result<ExitCode> {
    let (it, word) = (rank.untyped(), rank.dsm.alloc::<u64>(1)?);
    let address = word.as_ptr() as usize;
    let add = Atomic::U64(Rmw::Add(1));
    do_and_meet(&mut rank, move || it.atomic(std::ptr::without_provenance(address), add).map(drop))?;
    let before = word.fetch_add(&rank.dsm, 0, 1)?;
    rank.dsm.barrier()?;
    let right = word.get(&rank.dsm, 0) > before;
    rank.dsm.finalize()?;
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::from(99) })
}

fn run(mistake: &str, notes: PathBuf) -> Result<ExitCode> {
    let mut rank = Rank { dsm: Dsm::init()?, notes };
    match mistake {
        "sizes" | "frees" | "ends" | "broadcasts" | "publishes" | "semaphores" => {
            return disagree(rank, mistake);
        }
        "turns to others" | "turns alone" | "types" | "shapes" | "divisions" | "values" => {
            return owners::disagree(rank, mistake);
        }
        "destroys" | "destroys others" => return destroy::alone(rank, mistake),
        "destroy what is in use" => return destroy::what_is_in_use(rank),
        "destroy what is gone" => return destroy::what_is_gone(rank),
        "fork" => return fork::use_everything(rank),
        "publish in vain, and go on" => return publish::and_go_on(rank),
        "sizes, then leave" => return disagree_and_leave(rank),
        "meet twice" => return meet_twice(rank),
        "die in barriers" => return die_in_barriers(rank),
        "die in frees" => return holders::die_in_frees(rank),
        _ if mistake.starts_with("die with the guard of ") => {
            return holders::die_with_guard(rank, mistake.trim_start_matches("die with the guard of "));
        }
        _ if mistake.starts_with("die with ") => {
            return holders::die_with(rank, mistake.trim_start_matches("die with "));
        }
        "die while fetched from" => return die_while_fetched_from(rank),
        "objects" => return use_objects_wrongly(rank),
        "wait and meet" => return wait_and_meet(rank),
        "lock each other out" => return lock_each_other_out(rank),
        "lock and meet" => return stall::lock_and_meet(rank),
        "compute for long" => return stall::compute_for_long(rank),
        "stay away from the crew" => return stay_away_from_the_crew(rank),
        "crowd" => return crowd(rank),
        "never come" => return never_come(&rank),
        "post and meet" => return post_and_meet(rank),
        "operate and meet" => return operate_and_meet(rank),
        "out of memory" => return run_out_of_memory(rank),
        "finalized" => return touch_after_the_end(rank),
        "freed" | "beyond" | "null" => return touch_wrongly(rank, mistake),
        "much" => drop(rank.dsm.alloc::<u8>(2 << 20)?),
        "leave" => return Ok(ExitCode::SUCCESS),
        "wild free" => {
            let mut here = 0;
            rank.untyped().free(&raw mut here)?;
        }
        "inner free" => {
            let pages = rank.dsm.alloc::<u8>(2 * PAGE)?;
            rank.untyped().free(pages.as_ptr().wrapping_add(PAGE))?;
        }
        "double free" => {
            let page = rank.dsm.alloc::<u8>(PAGE)?;
            rank.dsm.free(page)?;
            rank.untyped().free(page.as_ptr())?;
        }
        _ => {
            let page = rank.dsm.alloc::<u8>(PAGE)?;
            touch(page, 0);
        }
    }
    rank.dsm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let mistake = words.next().unwrap_or_default();
    run(&mistake, words.next().unwrap_or_default().into()).unwrap_or_else(|error| {
        eprintln!("wrong: {error}");
        ExitCode::FAILURE
    })
}
