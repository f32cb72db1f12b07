//! MPI libraries to compare with: whether they are here, the shim for each, and how its ranks are started on
//! this machine.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI library, as Debian packages it, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Open MPI with its own transports (vader, tcp).
    OpenMpi,
    /// Open MPI on UCX.
    OpenMpiUcx,
    /// MPICH.
    Mpich,
}

/// What carries messages between ranks of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Shared memory.
    Shm,
    /// TCP through the loopback interface, as between hosts.
    Tcp,
}

/// For any job of Open MPI here.
const OPEN_MPI: [&str; 2] = ["--allow-run-as-root", "--oversubscribe"];

const SOURCE: &str = include_str!("../mpi/shim.c");

impl Rival {
    /// All that are known.
    pub const ALL: [Rival; 3] = [Rival::OpenMpi, Rival::OpenMpiUcx, Rival::Mpich];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Rival::OpenMpi => "Open MPI",
            Rival::OpenMpiUcx => "Open MPI, UCX",
            Rival::Mpich => "MPICH",
        }
    }

    /// Its compiler.
    fn compiler(self) -> &'static str {
        match self {
            Rival::OpenMpi | Rival::OpenMpiUcx => "mpicc.openmpi",
            Rival::Mpich => "mpicc.mpich",
        }
    }

    /// Its launcher.
    fn launcher(self) -> &'static str {
        match self {
            Rival::OpenMpi | Rival::OpenMpiUcx => "mpirun.openmpi",
            Rival::Mpich => "mpiexec.mpich",
        }
    }

    /// What of it is missing here, and how to get it; nothing, if it is there.
    pub fn missing(self) -> Option<String> {
        let packages = match self {
            Rival::OpenMpi | Rival::OpenMpiUcx => "openmpi-bin libopenmpi-dev",
            Rival::Mpich => "mpich libmpich-dev",
        };
        let absent = |name: &&str| {
            let tried = Command::new(name).arg("--version").output();
            tried.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let name = [self.compiler(), self.launcher()].into_iter().find(absent)?;
        Some(format!("{}: there is no {name} (Debian: apt-get install {packages})", self.name()))
    }

    /// Compiles the shim into a directory; for [`MessageLibrary::Mpi`](crate::MessageLibrary::Mpi).
    ///
    /// # Errors
    /// What the compiler says.
    pub fn shim(self, directory: &Path) -> Result<PathBuf, String> {
        // The compiler's name, which has a dot itself, tells the shims of several libraries apart.
        let file = |ending| directory.join(format!("{}.{ending}", self.compiler()));
        let (source, library) = (file("c"), file("so"));
        std::fs::write(&source, SOURCE)
            .map_err(|error| format!("cannot write {}: {error}", source.display()))?;
        let mut compiler = Command::new(self.compiler());
        compiler.args(["-O2", "-Wall", "-shared", "-fPIC", "-o"]).args([&library, &source]);
        let done = compiler.output().map_err(|error| format!("cannot start {}: {error}", self.compiler()))?;
        if done.status.success() {
            return Ok(library);
        }
        Err(format!(
            "{} cannot compile the MPI shim: {}",
            self.compiler(),
            String::from_utf8_lossy(&done.stderr)
        ))
    }

    /// The command that starts so many ranks on this machine, whose program and arguments are to be added.
    /// More ranks than processors are allowed, as with scash.
    pub fn launch(self, ranks: u32, network: Network) -> Command {
        let mut command = Command::new(self.launcher());
        match self {
            Rival::OpenMpi => {
                // Its own choice would be the same for shared memory, and may be another transport for a
                // network that is not there.
                command.args(OPEN_MPI).args(["--mca", "pml", "ob1", "--mca", "btl"]);
                match network {
                    Network::Shm => command.arg("self,vader"),
                    Network::Tcp => command.args(["self,tcp", "--mca", "btl_tcp_if_include", "lo"]),
                };
            }
            Rival::OpenMpiUcx => {
                // As environment variables of the ranks.
                let transports = match network {
                    Network::Shm => "UCX_TLS=self,sm",
                    Network::Tcp => "UCX_TLS=self,tcp",
                };
                command.args(OPEN_MPI).args(["--mca", "pml", "ucx", "-x", transports]);
                // It would not be chosen where there is no network card of its own.
                for setting in ["opal_common_ucx_tls", "opal_common_ucx_devices"] {
                    command.args(["--mca", setting, "any"]);
                }
                if network == Network::Tcp {
                    command.args(["-x", "UCX_NET_DEVICES=lo"]);
                }
            }
            // Debian's MPICH is built on UCX.
            Rival::Mpich => {
                if network == Network::Tcp {
                    command
                        .env("MPIR_CVAR_NOLOCAL", "1")
                        .env("UCX_TLS", "self,tcp")
                        .env("UCX_NET_DEVICES", "lo");
                }
            }
        }
        command.args(["-n", &ranks.to_string()]);
        command
    }
}
