//! A rank that is its whole job: a program that nobody has started as one of several. Under MPI such a
//! process is a job of one rank, and so it is here.
//!
//! It has no launcher, and so no line. What it gives in an exchange comes back to it; it draws the job's
//! secret, and writes its own end into the job page. The page is a memfd: nothing is left when the process
//! ends, in whatever way.

use super::frame::Share;
use super::io;
use super::page::{JobPage, PageWriter, RankState};
use crate::setting::setting;
use scash_comm::descriptors::out_of_the_way;
use scash_comm::{Error, Result};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};

/// What a launcher would be to the only rank of a job.
#[derive(Debug)]
pub(super) struct Alone {
    page: PageWriter,
}

impl Alone {
    /// A job of this process.
    pub(super) fn new() -> Result<Alone> {
        let page = PageWriter::new(1).map_err(io("making the job page (a memfd)"))?;
        Ok(Alone { page })
    }

    /// The job page, as a rank sees it.
    pub(super) fn job_page(&self) -> Result<JobPage> {
        JobPage::open(self.page.fd().as_fd(), 1).map_err(io("mapping the job page"))
    }

    /// What all ranks gave: this one's blob, and duplicates of its descriptors.
    pub(super) fn gather(blob: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Vec<Share>> {
        let duplicate = |fd: &BorrowedFd<'_>| fd.try_clone_to_owned().map(out_of_the_way);
        let fds: std::io::Result<Vec<_>> = fds.iter().map(duplicate).collect();
        let fds = fds.map_err(|source| Error::Io {
            what: "duplicating file descriptors (raise `ulimit -n`)".to_owned(),
            source,
        })?;
        Ok(vec![(blob.to_vec(), fds)])
    }

    /// The rank is done.
    pub(super) fn finalized(&self) {
        self.page.mark(0, RankState::Finalized);
    }
}

/// Variables by which launchers say how many processes they have started.
const SIZES: [&str; 3] = ["SLURM_STEP_NUM_TASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"];

/// How many processes a launcher has started of which this one is one, if it says so and there are several.
pub fn started_with_others(var: &dyn Fn(&str) -> Option<OsString>) -> Option<u32> {
    let several = |name: &&str| var(name)?.to_str()?.parse().ok().filter(|count: &u32| *count > 1);
    SIZES.iter().find_map(several)
}

/// An error if a launcher has started this process as one of several, and has left no way by which they find
/// each other: each would be a job of its own, and do all of the work.
pub(super) fn check_launcher(var: &dyn Fn(&str) -> Option<OsString>) -> Result<()> {
    for name in SIZES {
        let value = setting(name, var(name))?;
        let Some(count) = value.and_then(|value| value.parse().ok()).filter(|count: &u32| *count > 1) else {
            continue;
        };
        let advice = match name {
            "SLURM_STEP_NUM_TASKS" => {
                "have srun keep words for its processes (`srun --mpi=pmi2 PROGRAM`), or use"
            }
            _ => "use",
        };
        return Err(Error::Invalid(format!(
            "{name}={count}: a launcher has started this process as one of {count}, and does not tell it of the \
             others: {advice} `scash run -n {count} PROGRAM`; if it is to be a job of its own, unset {name}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::boot::{Identity, Member, vars};
    use scash_comm::Exchange;
    use std::os::fd::AsRawFd;

    fn member(variables: &[(&str, &str)]) -> Result<Member> {
        Member::from_vars(&|asked| {
            variables.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into())
        })
    }

    fn identity() -> Identity {
        Identity { path: "/bin/test".into(), build: vec![1], version: "1".into(), abi: 1 }
    }

    #[test]
    fn a_process_without_a_launcher_is_rank_0_of_1_and_gets_back_what_it_gives() {
        let mut member = member(&[]).unwrap();
        assert_eq!((member.rank(), member.size(), member.host(0)), (0, 1, 0));
        assert_eq!((member.threads(), member.provider()), (1, "auto"));
        member.hello(&identity()).unwrap();
        let file = tempfile::tempfile().unwrap();
        for blob in [&b"small"[..], &vec![7; 1 << 20]] {
            let all = member.all_gather(blob, &[file.as_fd()]).unwrap();
            assert!(all.len() == 1 && all[0].0 == blob && all[0].1.len() == 1);
            assert_ne!(all[0].1[0].as_raw_fd(), file.as_raw_fd());
        }
        assert!(member.page().alive(0));
        member.finalized().unwrap();
        assert_eq!((member.page().state(0), member.page().died(0)), (RankState::Finalized, false));
    }

    #[test]
    fn each_job_has_a_secret_of_its_own() {
        let (first, second) = (member(&[]).unwrap(), member(&[]).unwrap());
        assert!(first.secret() != second.secret());
    }

    #[test]
    fn threads_and_provider_are_settings_and_wrong_ones_are_named() {
        let settings = [(vars::THREADS, "3"), (vars::PROVIDER, "tcp")];
        let member_with = member(&settings).unwrap();
        assert_eq!((member_with.threads(), member_with.provider()), (3, "tcp"));
        let error = member(&[(vars::THREADS, "0")]).unwrap_err().to_string();
        assert!(error.contains("SCASH_THREADS=0"), "{error}");
    }

    #[test]
    fn one_of_several_processes_without_words_of_the_others_is_refused() {
        for name in SIZES {
            let error = member(&[(name, "3")]).unwrap_err().to_string();
            assert!(error.contains(&format!("{name}=3")) && error.contains("-n 3 PROGRAM"), "{error}");
            assert_eq!(error.contains("srun --mpi=pmi2 PROGRAM"), name.starts_with("SLURM"), "{error}");
            assert_eq!(member(&[(name, "1")]).unwrap().size(), 1);
        }
    }
}
