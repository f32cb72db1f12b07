//! Which processors the ranks of an MPI library are bound to, where it is compared with scash: to cores, as
//! its users would. Left to itself, a library binds or not by rules of its version's, and figures of two
//! machines would not be comparable.

use crate::rival::Rival;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where ranks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Each on a core that no other rank has.
    Core,
    /// Where the kernel puts them: there are more ranks than cores.
    Unbound,
}

impl Binding {
    /// That of so many ranks on this machine.
    pub fn of(ranks: u32) -> Binding {
        Binding::on(cores(), ranks)
    }

    fn on(cores: usize, ranks: u32) -> Binding {
        if ranks as usize <= cores { Binding::Core } else { Binding::Unbound }
    }

    /// What stands in tables.
    pub fn name(self) -> &'static str {
        match self {
            Binding::Core => "core",
            Binding::Unbound => "none",
        }
    }

    /// Adds it to a launcher's command, before the program.
    pub fn apply(self, rival: Rival, launcher: &mut Command) {
        match rival {
            Rival::OpenMpi | Rival::OpenMpiUcx => launcher.args(["--bind-to", self.name()]),
            Rival::Mpich => launcher.args(["-bind-to", self.name()]),
        };
    }
}

/// Cores that this process may use, each counted once whatever hardware threads it has, as MPI libraries
/// count.
pub fn cores() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let siblings = |cpu: u32| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        // Where the system does not say, a processor is a core.
        fs::read_to_string(Path::new(&path)).unwrap_or_else(|_| cpu.to_string())
    };
    let cores: BTreeSet<String> = processors(allowed.unwrap_or_default()).map(siblings).collect();
    cores.len().max(1)
}

/// The numbers of a list such as `0-3,8`.
fn processors(list: &str) -> impl Iterator<Item = u32> {
    list.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read_as_the_kernel_writes_them() {
        assert_eq!(processors("\t0-3,8\n").collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(processors("5").collect::<Vec<_>>(), [5]);
        assert_eq!(processors("").count(), 0);
        assert!(cores() >= 1);
    }

    #[test]
    fn ranks_are_bound_to_cores_while_there_are_enough() {
        assert_eq!([1, 2, 3].map(|ranks| Binding::on(2, ranks).name()), ["core", "core", "none"]);
        let words = |rival| {
            let mut command = Command::new("launcher");
            Binding::Core.apply(rival, &mut command);
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words(Rival::OpenMpi), ["--bind-to", "core"]);
        assert_eq!(words(Rival::OpenMpiUcx), ["--bind-to", "core"]);
        assert_eq!(words(Rival::Mpich), ["-bind-to", "core"]);
    }
}
