//! What a rank is started with.

use crate::run::output::RankOutput;
use std::os::fd::RawFd;

/// What a rank is started with besides what each rank of any job has.
#[derive(Debug, Default)]
pub(in crate::run) struct RankSetup {
    pub(in crate::run) output: RankOutput,
    pub(in crate::run) env: Vec<(&'static str, String)>,
    /// Descriptors of this process that it inherits under their numbers; they stay open here.
    pub(in crate::run) inherited: Vec<RawFd>,
}

impl RankSetup {
    /// That of a rank that prints there, and has nothing else.
    pub(in crate::run) fn plain(output: RankOutput) -> RankSetup {
        RankSetup { output, env: Vec::new(), inherited: Vec::new() }
    }
}
