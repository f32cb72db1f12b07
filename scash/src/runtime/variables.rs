//! Variables of the program that are shared memory (`DSM_SHARED` of `scash_shared.h`).
//!
//! The compiler puts them into sections of their own, and the linker gives these addresses far from the rest
//! of the program, where the system loads nothing (`scash_shared.ld`). The region begins there, and the first
//! allocation of the job is as long as they are: so each variable lies in the region, and code that was
//! compiled for a variable needs nothing else. Rank 0 writes what they begin with.
//!
//! Idea: TreadMarks and PARMACS programs for processes made by fork, whose shared variables are static.

use super::Runtime;
use crate::error::{Error, Result};
use crate::fault::PAGE;
use scash_join::boot::ProgramSection;
use scash_proto::AllocOptions;
use std::io;

/// Variables that begin with something, and those that begin with zero.
const WITH_VALUES: &str = ".dsm_shared";
const ZEROED: &str = ".dsm_shared_zero";
/// What the latter are in as they are compiled, and still if the script was not used.
const ZEROED_BEFORE: &str = ".sbss.dsm_shared";

/// Bytes that are read of the file at a time.
const AT_A_TIME: usize = 1 << 20;

/// Where shared variables of this program lie, which are the same in all ranks as these run the same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedVariables {
    /// Where the page of the first begins.
    pub(super) base: usize,
    /// Bytes of all.
    bytes: usize,
    /// Those that begin with something.
    values: Option<ProgramSection>,
}

impl SharedVariables {
    /// Those of the running program, if it has any.
    ///
    /// # Errors
    /// It is not linked as such a program must be, or a library has some: these cannot be shared.
    pub(super) fn of_this_program() -> Result<Option<SharedVariables>> {
        let failed = |error| {
            Error::Join(format!("looking for shared variables in the program and its libraries: {error}"))
        };
        if let Some(library) = ProgramSection::library_with(&[WITH_VALUES, ZEROED_BEFORE]).map_err(failed)? {
            return Err(Error::Join(format!(
                "{} has variables that are to be shared (DSM_SHARED): those of a library cannot be; link its \
                 object files into the program",
                library.display()
            )));
        }
        let find = |names: &[&str]| -> Result<Option<ProgramSection>> {
            let section = ProgramSection::find(names).map_err(failed)?;
            Ok(section.filter(|section| section.size > 0))
        };
        SharedVariables::of(find(&[WITH_VALUES])?, find(&[ZEROED, ZEROED_BEFORE])?)
    }

    fn of(values: Option<ProgramSection>, zeroed: Option<ProgramSection>) -> Result<Option<SharedVariables>> {
        let all = || values.iter().chain(&zeroed);
        let (Some(base), Some(end)) = (
            all().map(|section| section.address).min(),
            all().map(|section| section.address.saturating_add(section.size)).max(),
        ) else {
            return Ok(None);
        };
        // Zeroed ones may follow in the middle of a page.
        let base = base / PAGE as u64 * PAGE as u64;
        let is_elsewhere = |section: &ProgramSection| section.is_loaded || section.is_movable;
        if base == 0 || all().any(is_elsewhere) {
            return Err(Error::Join(
                "the program has variables that are to be shared (DSM_SHARED), and is not linked so that they \
                 can be: link it by what `pkg-config --libs scash-shared` says, that is with -no-pie \
                 -Wl,-T,scash_shared.ld"
                    .to_owned(),
            ));
        }
        let [base, end] = [base, end].map(|address| usize::try_from(address).unwrap_or(usize::MAX));
        Ok(Some(SharedVariables { base, bytes: end - base, values }))
    }
}

impl Runtime {
    /// Makes the program's variables the first allocation, and gives them their values. Collective, before
    /// any other call.
    pub(super) fn share_variables(&self, variables: SharedVariables) -> Result<()> {
        let address = self.alloc(variables.bytes, AllocOptions::default())?;
        assert_eq!(address as usize, variables.base, "the first allocation begins the region");
        let Some(values) = variables.values else { return Ok(()) };
        if self.rank == 0 {
            let offset = usize::try_from(values.address).unwrap_or(usize::MAX) - variables.base;
            fill(address.wrapping_add(offset), &values).map_err(|error| {
                Error::Join(format!(
                    "reading what shared variables begin with from the program's file: {error}"
                ))
            })?;
        }
        self.barrier()
    }
}

/// Writes the contents of a section from an address on. Pages of zeros are left alone: they are at home where
/// they are used.
fn fill(to: *mut u8, section: &ProgramSection) -> io::Result<()> {
    let size = usize::try_from(section.size).unwrap_or(usize::MAX);
    let mut buffer = vec![0; AT_A_TIME.min(size)];
    for begin in (0..size).step_by(AT_A_TIME) {
        let length = AT_A_TIME.min(size - begin);
        section.read(begin as u64, &mut buffer[..length])?;
        for (number, page) in buffer[..length].chunks(PAGE).enumerate() {
            if page.iter().all(|byte| *byte == 0) {
                continue;
            }
            let to = to.wrapping_add(begin + number * PAGE);
            // SAFETY: the bytes are of the allocation, which is as long as all sections are. No thread of
            // this rank has a reference to them: the program has not come back from its first call yet.
            unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), to, page.len()) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_program_without_shared_variables_has_none() {
        assert_eq!(SharedVariables::of_this_program().unwrap(), None);
    }

    #[test]
    fn what_the_system_has_loaded_itself_is_refused() {
        // Any section of this program stands for one that the linker has left where it likes.
        let data = ProgramSection::find(&[".data"]).unwrap();
        assert!(data.is_some_and(|data| data.is_loaded));
        for (values, zeroed) in [(data, None), (None, data)] {
            let why = SharedVariables::of(values, zeroed).unwrap_err().to_string();
            assert!(why.contains("-no-pie -Wl,-T,scash_shared.ld"), "{why}");
        }
        // A section that is not loaded, of a program that may lie anywhere.
        let comment = ProgramSection::find(&[".comment"]).unwrap();
        assert!(comment.is_some_and(|comment| !comment.is_loaded));
        SharedVariables::of(comment, None).unwrap_err();
    }
}
