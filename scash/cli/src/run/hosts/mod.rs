//! Jobs on several hosts: an agent on each starts its ranks and serves their boot lines; the launcher
//! decides.
//!
//! ```text
//!                        stdin, stdout
//!  front ── launcher ──┬──── rsh a ═════ agent on a ──┬── rank 0
//!                      │                              └── rank 1
//!                      └──── rsh b ═════ agent on b ───── rank 2
//! ```
//!
//! The launcher runs the agents by the user's remote shell ([`link`]) and talks to each through that
//! command's stdin and stdout ([`frames`]). Nothing else is needed: no port, no file, no daemon. The job's
//! secret travels there and nowhere else.
//!
//! # From call to end
//! 1. Each agent greets with its version. The launcher answers with what is to be run ([`assignment`]). If
//!    the program is to be copied (`--copy`), it follows in parts, as fast as the pipe takes them
//!    ([`program_copy`]).
//! 2. The agent looks whether it can be: the directory, the program, an address that others can reach
//!    ([`address`]). It is ready, or refuses.
//! 3. When all are ready, the launcher lets them go: no rank runs before.
//! 4. What ranks say on their boot lines, and how they end, goes to the launcher
//!    ([`scash_join::boot::HostRelay`]); what it decides goes to all agents
//!    ([`scash_join::boot::LauncherRelay`]), each of which keeps the job page of its host.
//! 5. When its ranks have ended and all that they printed is out, an agent is done.
//!
//! # How nothing is left behind
//! - An agent whose stdin ends kills its ranks and what they left: that is how it learns of the launcher's
//!   death. It ends, too; where ranks may die, it first waits for another launcher ([`succession`]), unless
//!   the last word was that the job is over.
//! - Within a host all is as in a job on one: the agent has a front of its own, and the kernel kills ranks
//!   whose agent dies.
//! - An agent that is gone takes its ranks with it; the launcher says so to all others, and ends the job.
//! - A host that is switched off or cut off closes no pipe. So both sides send a frame every [`BEAT`]; an
//!   agent that is silent for [`SILENCE`] is taken for gone, and an agent whose launcher is silent for
//!   [`TIMEOUT`] ends. In a network of their own the launcher knows sooner ([`heartbeat`]).
//! - The command of the remote shell is a child of the launcher, and dies with it.
//!
//! # When ranks die
//! With `--replicas`, stores, output and what ranks say to their user are kept by the agent of their host.
//! The launcher decides when and from where all ranks go on ([`recall`]): it has agents end all ranks, hears
//! what their stores say, tells them what to write there, and has them start all ranks again, with a new
//! secret, and so new relays. Ranks of a host that is lost come back on another ([`placement`]), to which
//! their stores are copied if they are not there ([`transfer`]).
//!
//! # Output
//! An agent may have [`uplink::WINDOW`] bytes of each stream on their way, and waits for word that they are
//! out before it sends more. So a slow reader of the command's output holds up the ranks and nothing else:
//! exits and signals travel beside. Where ranks may die, an agent sends what belongs to an epoch that all
//! ranks have: rank 0 tells its agent, that the launcher, and that all agents.

mod address;
mod agent;
mod assignment;
mod fields;
mod frames;
mod heartbeat;
mod job;
mod link;
pub(super) mod list;
mod placement;
mod printer;
mod program_copy;
mod quorum;
mod recall;
mod relay;
mod standby;
mod stores;
mod succession;
mod transfer;
mod uplink;

pub(super) use heartbeat::Heartbeat;
pub(super) use job::run;
pub(crate) use relay::{AgentArgs, agent, orphans};
pub(super) use relay::{Search, resume};
pub(super) use succession::{JobName, Succession};

use super::{Refusal, status};
use placement::CopyRule;
use scash_join::boot::Layout;
use std::path::PathBuf;
use std::time::Duration;

/// How often launcher and agents tell each other that they are there.
const BEAT: Duration = Duration::from_secs(3);
/// How long an agent may say nothing. Ending processes that a rank has left can take it half as long.
const SILENCE: Duration = Duration::from_secs(20);
/// How long the launcher may say nothing. Longer, because somebody may look at it with a debugger.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Where a job is to run, checked.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) names: Vec<String>,
    pub(super) layout: Layout,
    /// By host: its rack; empty if none is named.
    pub(super) racks: Vec<u32>,
    /// The command that runs another on a host, and its arguments.
    pub(super) rsh: Vec<String>,
    /// Where scash lies there.
    pub(super) agent: PathBuf,
    /// Whether the program is sent there.
    pub(super) copy: bool,
    /// How long hosts may be silent; `None`: only pipes tell.
    pub(super) heartbeat: Option<Heartbeat>,
    /// The job that is gone on with, which has lost its launcher.
    pub(super) former: Option<Succession>,
}

impl Hosts {
    /// Where so many copies of each store are.
    fn copy_rule(&self, count: u32) -> CopyRule {
        CopyRule { count, racks: self.racks.clone() }
    }

    /// Hosts of these names, reached by the command `rsh`, where scash lies at `agent`, or else where it lies
    /// here.
    pub(super) fn new(
        names: Vec<String>,
        layout: Layout,
        rsh: &str,
        agent: Option<PathBuf>,
        copy: bool,
    ) -> Result<Hosts, Refusal> {
        let rsh: Vec<String> = rsh.split_whitespace().map(str::to_owned).collect();
        if rsh.is_empty() {
            let why = "--rsh: which command? it is called as CMD HOST COMMAND…, as ssh is";
            return Err(Refusal::new(status::USAGE, why));
        }
        let agent = match agent {
            Some(path) => path,
            None => std::env::current_exe().map_err(|error| {
                let why = format!(
                    "asking where scash lies: {error}; say where it is on the hosts with --agent PATH"
                );
                Refusal::new(status::LAUNCHER, why)
            })?,
        };
        Ok(Hosts { names, layout, rsh, agent, copy, racks: Vec::new(), heartbeat: None, former: None })
    }
}
