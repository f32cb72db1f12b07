//! Of which program and on which processor an image was taken: neither may have changed when it is gone on
//! from. Code that was compiled anew has its data elsewhere; and what the C library has chosen for one
//! processor, another one may not execute.

use super::Refusal;
use super::contents::Contents;
use super::description::{NoRoom, Reader, Writer};
use super::maps::{self, Mapping};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Why a file does not do.
const ANOTHER: &str =
    "is not what it was: it has been built or installed anew since, or is another one on this host";

/// See [the module](self).
#[derive(Clone, Debug)]
pub(super) struct Identity {
    processor: u64,
    files: BTreeMap<Box<[u8]>, MappedFile>,
}

/// A file of which parts are mapped.
#[derive(Clone, Copy, Debug)]
struct MappedFile {
    /// As mappings tell it: by the same name there may be another file later, or on another host.
    inode: u64,
    /// What was in it when it was mapped; nothing if it cannot be read.
    contents: Option<Contents>,
}

static IDENTITY: Mutex<Option<Arc<Identity>>> = Mutex::new(None);

impl Identity {
    /// That of this process, with the files that it has mapped when this is asked for the first time:
    /// program, libraries; and with those that were [learnt](Self::learn) since.
    pub(super) fn of_this_process() -> Result<Arc<Identity>, Refusal> {
        let known = IDENTITY.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.map_or_else(Identity::learn, Ok)
    }

    /// As [`of_this_process`](Self::of_this_process), with files that it has mapped since then, as they are
    /// now.
    pub(super) fn learn() -> Result<Arc<Identity>, Refusal> {
        let mut known = IDENTITY.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known
            .get_or_insert_with(|| Arc::new(Identity { processor: processor(), files: BTreeMap::new() }));
        let all = maps::read()?;
        let code: BTreeSet<&[u8]> =
            all.iter().filter(|mapping| is_code(mapping)).map(|mapping| mapping.name).collect();
        for mapping in all.iter().filter(|mapping| has_name(mapping)) {
            if !own.has_file_of(mapping) {
                let contents = Contents::of(path(mapping.name), code.contains(mapping.name)).ok();
                let file = MappedFile { inode: mapping.inode, contents };
                Arc::make_mut(own).files.insert(mapping.name.into(), file);
            }
        }
        Ok(Arc::clone(own))
    }

    /// Whether it has the files of all these mappings. Allocates nothing.
    pub(super) fn has_files_of(&self, mappings: &[Mapping<'_>]) -> bool {
        // The parts of one file lie one behind the other.
        let mut last: (&[u8], u64) = (b"", 0);
        mappings.iter().filter(|mapping| has_name(mapping)).all(|mapping| {
            let is_there = (mapping.name, mapping.inode) == last || self.has_file_of(mapping);
            last = (mapping.name, mapping.inode);
            is_there
        })
    }

    fn has_file_of(&self, mapping: &Mapping<'_>) -> bool {
        self.files.get(mapping.name).is_some_and(|file| file.inode == mapping.inode)
    }

    /// What of it is in these mappings: others may be other files by the time it is gone on from.
    pub(super) fn write(&self, writer: &mut Writer, mappings: &[Mapping<'_>]) -> Result<(), NoRoom> {
        let is_mapped = |name: &[u8], inode: u64| {
            mappings.iter().any(|mapping| mapping.inode == inode && mapping.name == name)
        };
        let files = || {
            let mapped = self.files.iter().filter(|(name, file)| is_mapped(name, file.inode));
            mapped.filter_map(|(name, file)| Some((name, file.contents?)))
        };
        writer.number(self.processor)?;
        writer.number(files().count() as u64)?;
        for (name, contents) in files() {
            writer.record(&contents)?;
            writer.bytes(name)?;
        }
        Ok(())
    }

    /// Checks that this process can become one that was so. Returns the names of the files that are here as
    /// they were there.
    pub(super) fn check<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, Refusal> {
        let damaged = || Refusal::new("its list of programs is damaged".to_owned());
        if reader.number().ok_or_else(damaged)? != processor() {
            return Err(Refusal::new("it was saved on a processor with other features".to_owned()));
        }
        let mut names = Vec::new();
        for _ in 0..reader.number().ok_or_else(damaged)? {
            let contents: Contents = reader.record().ok_or_else(damaged)?;
            let name = reader.bytes().ok_or_else(damaged)?;
            let path = path(name);
            let refuse = |why: &str| Refusal::new(format!("{} {why}", path.display()));
            if !contents.are_in(path).map_err(|e| refuse(&format!("cannot be read: {e}")))? {
                return Err(refuse(ANOTHER));
            }
            names.push(name);
        }
        Ok(names)
    }
}

fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

fn has_name(mapping: &Mapping<'_>) -> bool {
    // What is shared and written is in no image.
    let is_ours = !mapping.is_shared || mapping.protection & 2 == 0;
    mapping.has_file() && is_ours && !mapping.is_removed()
}

fn is_code(mapping: &Mapping<'_>) -> bool {
    mapping.protection & 4 != 0
}

/// A sum over what this processor can do, as programs and the C library ask for it.
#[cfg(target_arch = "x86_64")]
fn processor() -> u64 {
    use std::arch::x86_64::{__cpuid_count, __get_cpuid_max, CpuidResult};
    // Of a leaf that it does not know, a processor says anything.
    let leaf = |leaf: u32, sub: u32| {
        let is_known = leaf <= __get_cpuid_max(leaf & 0x8000_0000).0;
        if is_known { __cpuid_count(leaf, sub) } else { CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 } }
    };
    let (model, features, more) = (leaf(1, 0), leaf(7, 0), leaf(0x8000_0001, 0));
    // What is saved of a thread: with what the system has switched on, and how.
    let (state, how) = (leaf(0xd, 0), leaf(0xd, 1));
    let words = [
        // Not the number of the core.
        [model.eax, model.ecx, model.edx],
        [features.ebx, features.ecx, features.edx],
        [more.ecx, more.edx, how.eax],
        [state.eax, state.ebx, state.edx],
    ];
    let mut crc = crc32fast::Hasher::new();
    words.as_flattened().iter().for_each(|word| crc.update(&word.to_le_bytes()));
    crc.finalize().into()
}

/// A sum over what this processor can do, as the system tells it.
#[cfg(not(target_arch = "x86_64"))]
fn processor() -> u64 {
    // SAFETY: the calls take numbers.
    unsafe { libc::getauxval(libc::AT_HWCAP) ^ libc::getauxval(libc::AT_HWCAP2).rotate_left(32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a process says that reads this identity.
    fn refusal(identity: &Identity) -> Option<String> {
        let mut room = vec![0u64; 4096];
        // SAFETY: the room is this function's.
        let mut writer = unsafe { Writer::new((room.as_mut_ptr().cast(), room.len() * 8)) };
        let mapped = |name: &[u8]| format!("1000-2000 r-xp 0 00:00 7 {}\n", path(name).display());
        let names = identity.files.keys().filter(|name| !name.ends_with(b"unmapped"));
        let text: String = names.map(|name| mapped(name)).collect();
        identity.write(&mut writer, &maps::parse(text.as_bytes()).collect::<Vec<_>>()).unwrap();
        let len = writer.len();
        let bytes: Vec<u8> = room.iter().flat_map(|word| word.to_le_bytes()).take(len).collect();
        Identity::check(&mut Reader(&bytes)).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn another_processor_and_programs_that_were_built_anew_or_removed_are_refused() {
        let program = std::env::current_exe().unwrap();
        let contents = Contents::of(&program, true).unwrap();
        let name: Box<[u8]> = program.as_os_str().as_bytes().into();
        let file = |contents| MappedFile { inode: 7, contents: Some(contents) };
        let files = BTreeMap::from([(name.clone(), file(contents))]);
        let here = Identity { processor: processor(), files };
        assert_eq!(refusal(&here), None);

        let elsewhere = Identity { processor: here.processor ^ 1, ..here.clone() };
        assert_eq!(refusal(&elsewhere).unwrap(), "it was saved on a processor with other features");

        let mut anew = here.clone();
        let other = Contents::of("/proc/version".as_ref(), true).unwrap();
        anew.files.insert(name, file(other));
        assert_eq!(refusal(&anew).unwrap(), format!("{} {ANOTHER}", program.display()));

        let mut removed = here.clone();
        removed.files.insert(b"/no/such/library.so"[..].into(), file(contents));
        assert!(refusal(&removed).unwrap().starts_with("/no/such/library.so cannot be read: "));

        let mut unmapped = here.clone();
        unmapped.files.insert(b"/no/longer/unmapped"[..].into(), file(contents));
        let replaced = MappedFile { inode: 8, ..file(contents) };
        unmapped.files.insert(b"/no/such/file"[..].into(), replaced);
        let unread = MappedFile { inode: 7, contents: None };
        unmapped.files.insert(b"/no/such/other"[..].into(), unread);
        assert_eq!(refusal(&unmapped), None);

        assert_eq!(
            Identity::check(&mut Reader(&[0; 7])).unwrap_err().to_string(),
            "its list of programs is damaged"
        );
    }
}
