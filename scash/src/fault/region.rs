//! The region: one sparse file in memory, mapped twice.
//!
//! The **application view** is where the program's pointers lead; its engine opens and closes it page by
//! page. The **runtime view** shows the same frames and is always readable and writable, so an incoming page
//! or diff is put in place without opening the application view, and a peer on the same host that maps the
//! file can read a page without help.
//!
//! A region of any size costs nothing until its pages get frames: the file is sparse and no memory is set
//! aside for it.
//!
//! The file may be one that [outlives](Region::create_in) the process, so that the one which takes its place
//! finds the frames again.
//!
//! Ranks of one host may [share](Region::adopt) one file: then there is one frame a page on the host, which
//! the views of all of them show.
//!
//! **Invariant:** both views map exactly the file's pages, from the first to the last, for as long as the
//! region lives; the file's size is sealed, so that no holder of its descriptor can cut it short under a
//! reader.

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::fstat;
use nix::unistd::{SysconfVar, ftruncate, sysconf};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::{EngineError, PAGE};
use scash_comm::descriptors::out_of_the_way;

/// Shared memory of one rank: frames, and two views of them.
#[derive(Debug)]
pub struct Region {
    file: OwnedFd,
    app: View,
    runtime: View,
    pages: u32,
}

impl Region {
    /// A region of `pages` pages whose application view is at `app_base`, where nothing may be mapped yet.
    pub fn create(app_base: usize, pages: u32) -> Result<Self, EngineError> {
        if app_base == 0 || !app_base.is_multiple_of(PAGE) {
            let what = format!("map the region at {app_base:#x} (choose a multiple of {PAGE})");
            return Err(EngineError::invalid(what, "not the address of a page"));
        }
        Self::build(None, Some(app_base), pages)
    }

    /// The same in a file that outlives this process: an empty one, or that of a process whose place this one
    /// takes. Then its frames have what they had there.
    pub fn create_in(file: OwnedFd, app_base: usize, pages: u32) -> Result<Self, EngineError> {
        Self::build(Some(file), Some(app_base), pages)
    }

    /// A region whose application view is wherever there is room: for probing and tests.
    pub fn anywhere(pages: u32) -> Result<Self, EngineError> {
        Self::build(None, None, pages)
    }

    fn build(file: Option<OwnedFd>, app_base: Option<usize>, pages: u32) -> Result<Self, EngineError> {
        check_page_size(os_page_size())?;
        if pages == 0 {
            return Err(EngineError::invalid("create the region (ask for one page at least)", "no pages"));
        }
        let len = pages as usize * PAGE;
        let file = match file {
            None => sealed_file(memory_file()?, len)?,
            // Whoever made it a region's may have been killed before it was sealed.
            Some(file) if !is_sealed(&file)? => sealed_file(file, len)?,
            Some(file) => file_of_region(file, len)?,
        };
        let app = View::map(&file, len, app_base)?;
        let runtime = View::map(&file, len, None)?;
        let region = Self { file, app, runtime, pages };
        region.set_up_views()?;
        Ok(region)
    }

    /// What both views are like when nothing is open.
    fn set_up_views(&self) -> Result<(), EngineError> {
        // A child made by fork would see the frames without an engine, and its writes would be lost or be
        // seen by nobody. Better that it has neither view, and dies of its own access.
        self.app.advise(libc::MADV_DONTFORK)?;
        self.runtime.advise(libc::MADV_DONTFORK)?;
        // A core file shows the application view; the same bytes twice help nobody.
        self.runtime.advise(libc::MADV_DONTDUMP)?;
        let all = 0..self.runtime.len;
        self.runtime.protect(all, libc::PROT_READ | libc::PROT_WRITE).map_err(not_opened)
    }

    /// Takes the frames of another rank's region in place of its own, of which none was used: from here on
    /// both views show that file. It must be as long as this region, and sealed as all regions' files are.
    pub fn adopt(&mut self, file: OwnedFd) -> Result<(), EngineError> {
        let file = file_of_region(file, self.app.len)?;
        self.app.show(&file)?;
        self.runtime.show(&file)?;
        self.set_up_views()?;
        self.file = file;
        Ok(())
    }

    /// Where the program's pointers lead. Only the engine decides what may be accessed there.
    pub fn app_base(&self) -> *mut u8 {
        self.app.base
    }

    /// The same frames, always readable and writable.
    pub fn runtime_base(&self) -> *mut u8 {
        self.runtime.base
    }

    /// The file that holds the frames, for peers on this host.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// How many pages the region has.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The page that an address of the application view lies in.
    pub fn page_of(&self, addr: usize) -> Option<u32> {
        let offset = addr.checked_sub(self.app.base as usize)?;
        u32::try_from(offset / PAGE).ok().filter(|page| *page < self.pages)
    }

    /// The addresses of the application view.
    pub(crate) fn app_range(&self) -> Range<usize> {
        let base = self.app.base as usize;
        base..base + self.app.len
    }

    /// A run of pages in the application view, as address and length; an error when it leaves the region.
    pub(crate) fn app_span(&self, pages: &Range<u32>) -> Result<(*mut u8, usize), EngineError> {
        self.check(pages)?;
        let len = pages.len() * PAGE;
        Ok((self.app.base.wrapping_add(pages.start as usize * PAGE), len))
    }

    /// A page's bytes in the runtime view.
    pub(crate) fn runtime_page(&self, page: u32) -> *mut u8 {
        self.runtime.base.wrapping_add(page as usize * PAGE)
    }

    /// Sets the protection of the whole application view.
    pub(crate) fn protect_app(&self, protection: i32) -> Result<(), EngineError> {
        self.protect_pages(&(0..self.pages), protection, not_opened)
    }

    /// Sets the protection of pages in the application view; `failed` says what the system refused.
    pub(crate) fn protect_pages(
        &self,
        pages: &Range<u32>,
        protection: i32,
        failed: impl FnOnce(io::Error) -> EngineError,
    ) -> Result<(), EngineError> {
        self.check(pages)?;
        let bytes = pages.start as usize * PAGE..pages.end as usize * PAGE;
        self.app.protect(bytes, protection).map_err(failed)
    }

    /// Gives frames to pages of the open application view that have none, and puts the pages into this
    /// process's page table, so that their first accesses do not fault. What the system cannot do now, it
    /// does at those.
    pub(crate) fn populate(&self, pages: &Range<u32>) -> Result<(), EngineError> {
        let (at, len) = self.app_span(pages)?;
        // SAFETY: the range is this region's own mapping, and no byte of it changes.
        unsafe { libc::madvise(at.cast(), len, libc::MADV_POPULATE_WRITE) };
        Ok(())
    }

    /// Gives frames back to the system, whoever maps them.
    pub(crate) fn punch(&self, pages: &Range<u32>) -> Result<(), EngineError> {
        self.check(pages)?;
        if pages.is_empty() {
            return Ok(());
        }
        let (start, len) = (i64::from(pages.start) * PAGE as i64, pages.len() as i64 * PAGE as i64);
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        loop {
            // No Rust reference leads into frames: they are only reached by pointers, whose holders know that
            // frames come and go.
            match fallocate(&self.file, mode, start, len) {
                Ok(()) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    let what = format!("give back the frames of pages {pages:?}");
                    return Err(EngineError::new(what, errno.into()));
                }
            }
        }
    }

    fn check(&self, pages: &Range<u32>) -> Result<(), EngineError> {
        if pages.start <= pages.end && pages.end <= self.pages {
            return Ok(());
        }
        let what = format!("use pages {pages:?} of a region of {} pages", self.pages);
        Err(EngineError::invalid(what, "outside the region"))
    }
}

/// One mapping of the whole file, unmapped when dropped.
#[derive(Debug)]
struct View {
    base: *mut u8,
    len: usize,
}

// SAFETY: a view is an address range. What is done with its bytes, and by which thread, is up to those who
// take its pointers; the calls below are safe from any thread.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// Maps the file without any access, at `base` or anywhere.
    fn map(file: &OwnedFd, len: usize, base: Option<usize>) -> Result<Self, EngineError> {
        let hint = std::ptr::without_provenance_mut(base.unwrap_or(0));
        let fixed = if base.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 };
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | fixed;
        // SAFETY: a new mapping; MAP_FIXED_NOREPLACE keeps it off existing ones.
        let at = unsafe { libc::mmap(hint, len, libc::PROT_NONE, flags, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(map_error(base, len));
        }
        let view = Self { base: at.cast(), len };
        // A kernel before 4.17 takes the fixed address as a hint.
        match base {
            Some(wanted) if wanted != at as usize => Err(taken(wanted, len, io::ErrorKind::AddrInUse.into())),
            _ => Ok(view),
        }
    }

    /// Shows another file of the same length in place of this one, without any access.
    fn show(&self, file: &OwnedFd) -> Result<(), EngineError> {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: takes the place of this view's own mapping, of which nobody has a pointer to a byte in use.
        let at =
            unsafe { libc::mmap(self.base.cast(), self.len, libc::PROT_NONE, flags, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED { Err(not_adopted(io::Error::last_os_error())) } else { Ok(()) }
    }

    fn advise(&self, advice: i32) -> Result<(), EngineError> {
        // SAFETY: the range is this view's own mapping, and the advices used here change no byte of it.
        let answer = unsafe { libc::madvise(self.base.cast(), self.len, advice) };
        if answer == 0 { Ok(()) } else { Err(EngineError::last("set up a view of the region (madvise)")) }
    }

    /// Sets the protection of the bytes from here to there.
    fn protect(&self, bytes: Range<usize>, protection: i32) -> io::Result<()> {
        assert!(bytes.start <= bytes.end && bytes.end <= self.len, "{bytes:?} of a view of {}", self.len);
        let at = self.base.wrapping_add(bytes.start);
        // SAFETY: a part of this view's own mapping, which no Rust reference points into. Opening and closing
        // it is what engines are for.
        let answer = unsafe { libc::mprotect(at.cast(), bytes.len(), protection) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: this view made the mapping; whoever took pointers into it was told that it ends with the
        // region.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

fn not_adopted(error: io::Error) -> EngineError {
    EngineError::new("map a file that it was given as its region", error)
}

fn not_opened(error: io::Error) -> EngineError {
    EngineError::new("open a view of the region (mprotect)", error)
}

/// Checks that a file is that of a region of `len` bytes.
fn file_of_region(file: OwnedFd, len: usize) -> Result<OwnedFd, EngineError> {
    let size = fstat(&file).map_err(|errno| not_adopted(errno.into()))?.st_size;
    if usize::try_from(size) != Ok(len) || !is_sealed(&file)? {
        return Err(not_adopted(io::ErrorKind::InvalidData.into()));
    }
    Ok(out_of_the_way(file))
}

/// Whether nobody can change a file's size.
fn is_sealed(file: &OwnedFd) -> Result<bool, EngineError> {
    let seals = fcntl(file, FcntlArg::F_GET_SEALS).map_err(|errno| not_adopted(errno.into()))?;
    Ok(seals & sealed().bits() == sealed().bits())
}

/// Makes a file in memory, which has no frames, `len` bytes long, so that nobody can change its size.
fn sealed_file(file: OwnedFd, len: usize) -> Result<OwnedFd, EngineError> {
    check_file_limit(len)?;
    let size = i64::try_from(len).map_err(|_| too_large(len, io::ErrorKind::FileTooLarge.into()))?;
    ftruncate(&file, size).map_err(|errno| too_large(len, errno.into()))?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(sealed()))
        .map_err(|errno| EngineError::new("seal the size of the region's file", errno.into()))?;
    Ok(out_of_the_way(file))
}

/// The seals of a region's file.
fn sealed() -> SealFlag {
    SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL
}

fn memory_file() -> Result<OwnedFd, EngineError> {
    let name = c"scash-region";
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Systems with vm.memfd_noexec=2 insist on it; kernels before 6.3 do not know it.
    let noexec = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    let file = match memfd_create(name, flags | noexec) {
        Err(Errno::EINVAL) => memfd_create(name, flags),
        answer => answer,
    };
    file.map_err(|errno| EngineError::new("create the region's file in memory (memfd_create)", errno.into()))
}

/// A file above `ulimit -f` would not be refused but kill the process by SIGXFSZ: ask first.
fn check_file_limit(len: usize) -> Result<(), EngineError> {
    if getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(most, _)| most < len as u64) {
        return Err(too_large(len, io::ErrorKind::FileTooLarge.into()));
    }
    Ok(())
}

fn too_large(len: usize, source: io::Error) -> EngineError {
    EngineError::new(
        format!(
            "reserve {} MiB for the region (ask for less by SCASH_REGION and SCASH_HEAP, or raise `ulimit -f`)",
            len >> 20
        ),
        source,
    )
}

fn map_error(base: Option<usize>, len: usize) -> EngineError {
    let source = io::Error::last_os_error();
    match (base, source.raw_os_error()) {
        (Some(base), Some(libc::EEXIST)) => taken(base, len, source),
        (Some(base), Some(libc::EPERM | libc::EINVAL)) => EngineError::new(
            format!("map {} MiB at {base:#x}: not an address that this system gives to programs", len >> 20),
            source,
        ),
        _ => EngineError::new(
            format!(
                "map {} MiB of address space (ask for less by SCASH_REGION and SCASH_HEAP, or raise `ulimit -v`)",
                len >> 20
            ),
            source,
        ),
    }
}

/// The address is taken: by whom helps more than the fact.
fn taken(base: usize, len: usize, source: io::Error) -> EngineError {
    let end = base.saturating_add(len);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let holder =
        maps.lines().find(|line| mapped_range(line).is_some_and(|at| at.start < end && base < at.end));
    let holder = holder.map(|line| format!("; there is: {line}")).unwrap_or_default();
    EngineError::new(
        format!("map the region at {base:#x}..{end:#x}: that address is taken (choose another base){holder}"),
        source,
    )
}

/// The addresses that a line of `/proc/self/maps` is about.
fn mapped_range(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

fn os_page_size() -> usize {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0)
}

/// A DSM page is an OS page: an engine cannot protect half of one.
fn check_page_size(os_page: usize) -> Result<(), EngineError> {
    if os_page == PAGE {
        return Ok(());
    }
    let what = format!(
        "use this system's pages of {os_page} bytes: scash needs pages of {PAGE} (boot a kernel that is built with them)"
    );
    Err(EngineError::new(what, io::ErrorKind::Unsupported.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_with_large_pages_is_refused_by_name() {
        let error = check_page_size(65536).unwrap_err().to_string();
        assert!(error.contains("65536") && error.contains("4096"), "{error}");
        assert!(check_page_size(4096).is_ok());
    }

    #[test]
    fn both_views_show_the_same_frames() {
        let region = Region::anywhere(3).unwrap();
        region.protect_app(libc::PROT_READ).unwrap();
        // SAFETY: page 2 lies in the runtime view, which no other thread knows.
        unsafe { region.runtime_page(2).write(7) };
        let there = region.app_base().wrapping_add(2 * PAGE);
        // SAFETY: page 2 lies in the application view, which was just opened.
        let seen = unsafe { there.read() };
        assert_eq!(seen, 7);
    }

    #[test]
    fn regions_that_share_a_file_show_the_same_frames_and_open_their_views_apart() {
        let (first, mut second) = (Region::anywhere(3).unwrap(), Region::anywhere(3).unwrap());
        second.adopt(first.fd().try_clone_to_owned().unwrap()).unwrap();
        first.protect_pages(&(1..2), libc::PROT_READ | libc::PROT_WRITE, not_opened).unwrap();
        first.populate(&(1..2)).unwrap();
        // SAFETY: page 1 lies in the first application view, and was just opened.
        unsafe { first.app_base().wrapping_add(PAGE).write(9) };
        // SAFETY: page 1 lies in the second runtime view.
        let seen = unsafe { second.runtime_page(1).read() };
        assert_eq!(seen, 9);
        first.punch(&(1..2)).unwrap();
        // SAFETY: as above.
        let seen = unsafe { second.runtime_page(1).read() };
        assert_eq!(seen, 0);
        let error = second.adopt(Region::anywhere(2).unwrap().file.try_clone().unwrap()).unwrap_err();
        assert!(error.to_string().contains("as its region"), "{error}");
    }

    #[test]
    fn a_region_in_a_file_that_was_one_before_shows_its_frames() {
        let file = memory_file().unwrap();
        let given = || file.try_clone().unwrap();
        let at = Region::anywhere(2).unwrap().app_base() as usize;
        let first = Region::create_in(given(), at, 2).unwrap();
        // SAFETY: page 1 lies in the runtime view, which no other thread knows.
        unsafe { first.runtime_page(1).write(5) };
        drop(first);
        let second = Region::create_in(given(), at, 2).unwrap();
        // SAFETY: as above.
        let seen = unsafe { second.runtime_page(1).read() };
        assert_eq!(seen, 5);
        drop(second);
        let half_made = memory_file().unwrap();
        ftruncate(&half_made, 2 * PAGE as i64).unwrap();
        Region::create_in(half_made, at, 2).unwrap();
        let error = Region::create_in(given(), at, 3).unwrap_err().to_string();
        assert!(error.contains("as its region"), "{error}");
    }

    #[test]
    fn addresses_outside_the_region_have_no_page() {
        let region = Region::anywhere(2).unwrap();
        let base = region.app_base() as usize;
        assert_eq!(region.page_of(base), Some(0));
        assert_eq!(region.page_of(base + 2 * PAGE - 1), Some(1));
        assert_eq!(region.page_of(base + 2 * PAGE), None);
        assert_eq!(region.page_of(base - 1), None);
        assert_eq!(region.page_of(usize::MAX), None);
    }

    #[test]
    fn a_taken_address_is_named_with_its_holder() {
        let first = Region::anywhere(4).unwrap();
        let base = first.app_base() as usize;
        let error = Region::create(base + PAGE, 1).unwrap_err().to_string();
        assert!(error.contains(&format!("{:#x}", base + PAGE)) && error.contains("taken"), "{error}");
        assert!(error.contains("scash-region"), "{error}");
    }

    #[test]
    fn a_base_that_is_no_page_is_refused() {
        assert!(Region::create(0x1_2345_6789, 1).is_err());
        assert!(Region::create(0, 1).is_err());
        assert!(Region::anywhere(0).is_err());
    }

    #[test]
    fn a_huge_region_is_reserved_without_memory() {
        let pages = u32::try_from((64usize << 30) / PAGE).unwrap();
        let region = Region::anywhere(pages).unwrap();
        let stat = nix::sys::stat::fstat(region.fd()).unwrap();
        assert_eq!((stat.st_size, stat.st_blocks), (64 << 30, 0));
    }

    #[test]
    fn the_size_of_the_file_cannot_be_changed() {
        let region = Region::anywhere(2).unwrap();
        assert_eq!(ftruncate(region.fd(), 0), Err(Errno::EPERM));
    }
}
