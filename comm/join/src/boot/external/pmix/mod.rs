//! The library PMIx, by which Open MPI's `mpirun` and `srun --mpi=pmix` keep words for their processes
//! (Castain et al., "PMIx: Process Management for Exascale Environments", EuroMPI 2017). It is loaded when
//! the environment says that such a launcher is there, and never unloaded: it has a thread.

mod library;
mod sys;

use super::arrivals;
use super::space::Space;
use crate::setting::setting;
use library::Library;
use scash_comm::{Error, Result, SecretText, wipe};
use std::ffi::OsString;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

/// This process as a client of PMIx.
#[derive(Debug)]
pub(super) struct Pmix {
    library: &'static Library,
    namespace: String,
    rank: u32,
    size: u32,
    /// Keeps other processes from being this one.
    _sign: Option<OwnedFd>,
}

impl Pmix {
    /// Greets the server that the environment tells of, if there is one.
    pub(super) fn find(var: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<Pmix>> {
        let namespace = setting("PMIX_NAMESPACE", var("PMIX_NAMESPACE"))?;
        let (Some(namespace), Some(rank)) = (namespace, setting("PMIX_RANK", var("PMIX_RANK"))?) else {
            return Ok(None);
        };
        let library = Library::get()?;
        // The library does not tell off a second process.
        let sign = arrivals::be_alone(&format!("PMIx {namespace} {rank}"))?;
        Pmix::greet(library, sign).map(Some)
    }

    fn greet(library: &'static Library, sign: Option<OwnedFd>) -> Result<Pmix> {
        let mut me = sys::Proc { nspace: [0; sys::NAMESPACE], rank: 0 };
        // SAFETY: `me` is a structure to be filled in, and there are no directives.
        let status = super::without_signals(|| unsafe { (library.init)(&mut me, std::ptr::null_mut(), 0) })?;
        library.check("joining the job", status)?;
        // SAFETY: the library has filled it in with a name and its zero; the array lives as long as `me`.
        let namespace = unsafe { CStr::from_ptr(me.nspace.as_ptr()) }.to_string_lossy().into_owned();
        let mut pmix = Pmix { library, namespace, rank: me.rank, size: 0, _sign: sign };
        pmix.size = pmix.look_up(sys::WILDCARD, "pmix.job.size", |value| match value.r#type {
            // SAFETY: the type says which member it is.
            sys::UINT32 => Some(unsafe { value.data.uint32 }),
            _ => None,
        })?;
        if pmix.rank >= pmix.size {
            return Err(Error::Invalid(format!("PMIx calls this process {} of {}", pmix.rank, pmix.size)));
        }
        Ok(pmix)
    }

    /// A process of this job, as the library names it.
    fn process(&self, rank: u32) -> sys::Proc {
        let mut nspace = [0; sys::NAMESPACE];
        copy(&mut nspace, &self.namespace);
        sys::Proc { nspace, rank }
    }

    /// What `owner` has put under `key`, as `read` understands it.
    fn look_up<T>(&self, owner: u32, key: &str, read: impl Fn(&sys::Value) -> Option<T>) -> Result<T> {
        let (process, name) = (self.process(owner), text(key)?);
        let mut value = std::ptr::null_mut();
        // SAFETY: all arguments live during the call, which stores a value of its own making.
        let status = unsafe { (self.library.get)(&process, name.as_ptr(), std::ptr::null(), 0, &mut value) };
        self.library.check(&format!("asking for {key} of process {owner}"), status)?;
        // SAFETY: null, or the value that the library has made, which is this process's now.
        let found = unsafe { value.as_ref() }.and_then(&read);
        library::release(value);
        found.ok_or_else(|| Error::Invalid(format!("PMIx gives something odd for {key} of process {owner}")))
    }
}

impl Space for Pmix {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> &str {
        &self.namespace
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let (key, text) = (text(key)?, text(value)?);
        let mut value =
            sys::Value { r#type: sys::STRING, data: sys::Data { string: text.as_ptr().cast_mut() } };
        // SAFETY: key and value live during the call, which copies them.
        let status = unsafe { (self.library.put)(sys::GLOBAL, key.as_ptr(), &mut value) };
        // It may have had the job's secret in it.
        wipe(&mut text.into_bytes());
        self.library.check("giving a word to other processes", status)
    }

    fn fence(&mut self, deadline: Instant) -> Result<bool> {
        // SAFETY: takes nothing.
        let status = unsafe { (self.library.commit)() };
        self.library.check("giving words to other processes", status)?;
        let all = self.process(sys::WILDCARD);
        let mut collect = sys::Info {
            key: [0; sys::KEY],
            flags: 0,
            value: sys::Value { r#type: sys::BOOL, data: sys::Data { flag: true } },
        };
        copy(&mut collect.key, "pmix.collect");
        let (sender, receiver) = sync_channel::<c_int>(1);
        let sender = Box::into_raw(Box::new(sender));
        // SAFETY: arguments live during the call; `done` gets the sender, which it alone frees. It is called
        // once, or never if this fails.
        let status = unsafe { (self.library.fence)(&all, 1, &collect, 1, done, sender.cast()) };
        if status != sys::SUCCESS {
            // SAFETY: the library has refused, and calls nobody.
            drop(unsafe { Box::from_raw(sender) });
            self.library.check("waiting for the other processes", status)?;
        }
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(status) => self.library.check("waiting for the other processes", status).map(|()| true),
            Err(_) => Ok(false),
        }
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<SecretText> {
        self.look_up(owner, key, |value| {
            if value.r#type != sys::STRING {
                return None;
            }
            // SAFETY: the type says which member it is.
            let string = unsafe { value.data.string };
            // SAFETY: null, or a C string that is part of the value.
            let text = (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) });
            text.map(|text| SecretText::from(text.to_string_lossy().into_owned()))
        })
    }

    fn finalize(&mut self) -> Result<()> {
        // SAFETY: there are no directives; nothing of the library is used afterwards but `abort`, which then
        // fails.
        let status = unsafe { (self.library.finalize)(std::ptr::null(), 0) };
        self.library.check("leaving the job", status)
    }

    fn abort(&mut self) {
        let why = c"the job has failed";
        // SAFETY: the text lives during the call; no processes means all of the job. If it fails, nobody is
        // there to end it.
        unsafe { (self.library.abort)(1, why.as_ptr(), std::ptr::null_mut(), 0) };
    }
}

/// All processes have come, or will not.
extern "C" fn done(status: c_int, sender: *mut c_void) {
    // SAFETY: `fence` has given this box away to be freed here.
    let sender = unsafe { Box::from_raw(sender.cast::<SyncSender<c_int>>()) };
    // Nobody waits any more if it was late.
    let _ = sender.try_send(status);
}

fn text(text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::Invalid("a word for other processes has a zero byte in it".to_owned()))
}

/// Copies a name into an array, whose last byte stays zero.
fn copy(into: &mut [c_char], text: &str) {
    let room = into.len() - 1;
    for (to, from) in into[..room].iter_mut().zip(text.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_cut_before_the_zero() {
        let mut array = [1; 4];
        array[3] = 0;
        copy(&mut array, "abcdef");
        assert_eq!(array.map(|c| u8::from_ne_bytes(c.to_ne_bytes())), *b"abc\0");
    }

    #[test]
    fn without_its_variables_there_is_no_pmix() {
        assert!(Pmix::find(&|name| (name == "PMIX_RANK").then(|| "0".into())).unwrap().is_none());
    }
}
