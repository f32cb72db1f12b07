//! Finds the program to run, as a shell would, but with errors that say what is wrong.

use super::{Refusal, status};
use nix::unistd::{AccessFlags, access};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A program that exists and may be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Where it lies.
    pub(super) path: PathBuf,
    /// What the user called it, which becomes its `argv[0]`.
    pub(super) name: OsString,
}

/// The program that the user calls `name`: a path if there is a slash in it, else looked up in `PATH`.
pub(super) fn find(name: &OsStr) -> Result<Program, Refusal> {
    find_in(name, &std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()))
}

fn find_in(name: &OsStr, path: &OsStr) -> Result<Program, Refusal> {
    if name.is_empty() {
        return Err(Refusal::new(status::NOT_FOUND, "the program's name is empty"));
    }
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        vec![PathBuf::from(name)]
    } else {
        std::env::split_paths(path).map(|directory| directory.join(name)).collect()
    };
    if let Some(path) = candidates.iter().find(|path| obstacle(path).is_none()) {
        return Ok(Program { path: path.clone(), name: name.to_owned() });
    }
    // One that exists but cannot be executed explains more than the many that do not exist.
    let refused = candidates.iter().find_map(|path| Some((path, obstacle(path).filter(|why| why.there)?)));
    Err(match refused {
        Some((path, obstacle)) => {
            Refusal::new(status::NOT_EXECUTABLE, format!("{}: {}", path.display(), obstacle.why))
        }
        None => Refusal::new(status::NOT_FOUND, missing(name)),
    })
}

/// Looks whether a program that was found elsewhere is here too.
pub(super) fn check(path: &Path) -> Result<(), Refusal> {
    obstacle(path).map_or(Ok(()), |obstacle| {
        let status = if obstacle.there { status::NOT_EXECUTABLE } else { status::NOT_FOUND };
        Err(Refusal::new(status, format!("{}: {}", path.display(), obstacle.why)))
    })
}

/// Why a file cannot be executed.
struct Obstacle {
    /// Whether it exists at all.
    there: bool,
    why: String,
}

fn obstacle(path: &Path) -> Option<Obstacle> {
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some(Obstacle { there: false, why: "no such file".into() })
        }
        Err(error) => Some(Obstacle { there: true, why: error.to_string() }),
        Ok(file) if file.is_dir() => {
            Some(Obstacle { there: true, why: "is a directory, not a program".into() })
        }
        Ok(_) if access(path, AccessFlags::X_OK).is_err() => {
            Some(Obstacle { there: true, why: "is not executable: set its x bit with `chmod +x`".into() })
        }
        Ok(_) => None,
    }
}

fn missing(name: &OsStr) -> String {
    let shown = name.to_string_lossy();
    if shown.contains('/') {
        return format!("{shown}: there is no such program");
    }
    let hint = if Path::new(name).is_file() {
        format!(" (the one in this directory is ./{shown})")
    } else {
        String::new()
    };
    format!("{shown}: there is no such program in PATH{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn file(directory: &Path, name: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_first_executable_in_path_wins_over_files_that_are_not() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        file(first.path(), "tool", 0o644);
        let good = file(second.path(), "tool", 0o755);
        let path = std::env::join_paths([first.path(), second.path()]).unwrap();
        assert_eq!(find_in("tool".as_ref(), &path).unwrap().path, good);
        let refusal = find_in("tool".as_ref(), first.path().as_os_str()).unwrap_err();
        assert_eq!(refusal.status, status::NOT_EXECUTABLE);
        assert!(refusal.why.contains("chmod +x"), "{}", refusal.why);
    }

    #[test]
    fn a_directory_is_no_program() {
        let refusal = find_in("/tmp/".as_ref(), "".as_ref()).unwrap_err();
        assert_eq!(refusal.status, status::NOT_EXECUTABLE);
        assert!(refusal.why.contains("is a directory"), "{}", refusal.why);
    }

    #[test]
    fn what_does_not_exist_is_said_to_be_missing() {
        for name in ["./no-such-program", "no-such-program", ""] {
            assert_eq!(find_in(name.as_ref(), "/bin".as_ref()).unwrap_err().status, status::NOT_FOUND);
        }
    }
}
