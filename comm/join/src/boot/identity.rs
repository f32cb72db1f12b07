//! Who a rank is: the program it runs and the version of scash inside it, so that two different ones never
//! share a job.

use super::frame::{Reader, Rubbish};
use std::hash::Hasher;
use std::io::Read;
use std::{fmt, fs, io};

/// The program that a rank runs, as it introduces itself to the launcher. Two ranks may share a job if their
/// build, version and ABI are equal; the path is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Where the program lies.
    pub path: String,
    /// What distinguishes this build of it from every other: its ELF build id, or a hash of its bytes.
    pub build: Vec<u8>,
    /// The version of scash that the program was built with.
    pub version: String,
    /// The number of the agreement between ranks (what is sent, and what lies in shared memory).
    pub abi: u32,
}

impl Identity {
    /// The identity of the running program, which contains scash `version` with agreement `abi`.
    pub fn of_this_program(version: &str, abi: u32) -> io::Result<Identity> {
        let path = fs::read_link("/proc/self/exe")?.to_string_lossy().into_owned();
        // The link itself, not where it points to: the file may have been replaced since the program started.
        let build = build_of(fs::File::open("/proc/self/exe")?)?;
        Ok(Identity { path, build, version: version.to_owned(), abi })
    }

    /// Whether a rank of this identity and one of the other can work together.
    pub(super) fn agrees_with(&self, other: &Identity) -> bool {
        (&self.build, &self.version, self.abi) == (&other.build, &other.version, other.abi)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.abi.to_le_bytes().to_vec();
        for field in [&self.build[..], self.version.as_bytes(), self.path.as_bytes()] {
            let length = u32::try_from(field.len()).expect("no path or build id has 4 GiB");
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(field);
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Identity, Rubbish> {
        let mut reader = Reader::new(bytes);
        let abi = reader.u32()?;
        let mut field = || {
            let length = reader.u32()? as usize;
            reader.take(length)
        };
        let build = field()?.to_vec();
        let version = text(field()?);
        let path = text(field()?);
        reader.end()?;
        Ok(Identity { path, build, version, abi })
    }
}

/// Bytes from elsewhere as text that a terminal can be trusted with.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (build ", self.path)?;
        for byte in self.build.iter().take(4) {
            write!(f, "{byte:02x}")?;
        }
        write!(f, ", scash {}, ABI {})", self.version, self.abi)
    }
}

/// What tells one build of a program from another: its build id, which the linker made from the contents, or
/// a hash of the whole file where the linker made none.
fn build_of(mut file: fs::File) -> io::Result<Vec<u8>> {
    use object::Object;
    let cache = object::ReadCache::new(&mut file);
    let build_id =
        object::File::parse(&cache).ok().and_then(|elf| elf.build_id().ok().flatten().map(<[u8]>::to_vec));
    match build_id {
        Some(id) => Ok(id),
        None => hash_of(file),
    }
}

/// A hash that is good enough to notice a mistake; nobody gains by forging it.
fn hash_of(mut file: fs::File) -> io::Result<Vec<u8>> {
    io::Seek::rewind(&mut file)?;
    let mut hasher = std::hash::DefaultHasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish().to_be_bytes().to_vec()),
            n => hasher.write(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_the_wire() {
        let me = Identity::of_this_program("0.1.0", 7).unwrap();
        assert_eq!(Identity::decode(&me.encode()).unwrap(), me);
        assert!(!me.build.is_empty());
        assert!(me.path.contains("scash_join"), "{}", me.path);
    }

    #[test]
    fn a_truncated_or_padded_identity_is_rubbish() {
        let bytes =
            Identity { path: "/bin/a".into(), build: vec![1; 20], version: "1".into(), abi: 1 }.encode();
        for length in 0..bytes.len() {
            Identity::decode(&bytes[..length]).unwrap_err();
        }
        Identity::decode(&[&bytes[..], &[0]].concat()).unwrap_err();
    }

    #[test]
    fn the_path_does_not_decide_but_build_version_and_abi_do() {
        let a = Identity { path: "/bin/a".into(), build: vec![1], version: "1".into(), abi: 1 };
        assert!(a.agrees_with(&Identity { path: "/bin/b".into(), ..a.clone() }));
        assert!(!a.agrees_with(&Identity { build: vec![2], ..a.clone() }));
        assert!(!a.agrees_with(&Identity { version: "2".into(), ..a.clone() }));
        assert!(!a.agrees_with(&Identity { abi: 2, ..a.clone() }));
    }

    #[test]
    fn a_file_without_a_build_id_is_told_by_its_contents() {
        let of = |contents: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, contents).unwrap();
            build_of(file).unwrap()
        };
        assert_eq!(of(b"#!/bin/sh\n"), of(b"#!/bin/sh\n"));
        assert_ne!(of(b"#!/bin/sh\n"), of(b"#!/bin/sh\ntrue\n"));
    }

    #[test]
    fn control_characters_of_a_stranger_do_not_reach_the_terminal() {
        assert_eq!(text(b"a\x1b[31mb\xff"), "a\u{FFFD}[31mb\u{FFFD}");
    }
}
