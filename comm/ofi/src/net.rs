//! libfabric's objects, and the calls on them that move bytes.
//!
//! All calls are made under the lock of [`super::engine`], as `FI_THREAD_DOMAIN` demands: so no provider
//! locks a second time.

use super::OfiOptions;
use super::choice::{adapt, choose};
use super::library::{InfoList, Library};
use super::sys::{
    self, AvAttr, CqAttr, CqErrEntry, CqMsgEntry, Fid, FidAv, FidCq, FidDomain, FidEp, FidFabric, FidMr,
};
use scash_comm::{Error, Result};
use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

/// A function of an operation table, if the table is long enough to have it and does.
macro_rules! operation {
    ($library:expr, $table:expr, $kind:ty, $field:ident) => {{
        let table: *const $kind = $table;
        if table.is_null() {
            return Err(lacks($library, stringify!($field)));
        }
        // SAFETY: not null, so a table of the provider's, which never ends; every table begins with its size.
        let size = unsafe { table.cast::<usize>().read() };
        if size < std::mem::offset_of!($kind, $field) + size_of::<usize>() {
            return Err(lacks($library, stringify!($field)));
        }
        // SAFETY: the table is long enough for this field; the address is computed, nothing read.
        let field = unsafe { &raw const (*table).$field };
        // SAFETY: as above, and its type is that of the header.
        unsafe { field.read() }.ok_or_else(|| lacks($library, stringify!($field)))?
    }};
}

fn lacks(library: &Library, operation: &str) -> Error {
    Error::Invalid(format!(
        "libfabric {} gives this provider no operation {operation:?}: choose another by SCASH_OFI",
        library.version()
    ))
}

/// Reads a field of an object.
macro_rules! field {
    ($object:expr, $kind:ty, $field:ident) => {{
        // SAFETY: the object is live and of this kind; the address is computed, nothing read.
        let field = unsafe { &raw const (*$object.cast::<$kind>()).$field };
        // SAFETY: as above; objects are fully made when their opening returns.
        unsafe { field.read() }
    }};
}

/// Something that libfabric opened: closed when this value ends.
struct Object(*mut Fid);

impl Object {
    /// Calls what opens an object.
    fn open(library: &Library, what: &str, open: impl FnOnce(*mut *mut Fid) -> c_int) -> Result<Object> {
        let mut object = ptr::null_mut();
        match open(&mut object) {
            0 => Ok(Object(object)),
            status => Err(library.error(what, status)),
        }
    }

    fn bind(&self, library: &Library, to: &Object, flags: u64) -> Result<()> {
        let bind = operation!(library, field!(self.0, Fid, ops), sys::Ops, bind);
        // SAFETY: both are live objects of one domain.
        match unsafe { bind(self.0, to.0, flags) } {
            0 => Ok(()),
            status => Err(library.error("joining two of libfabric's objects", status)),
        }
    }

    /// Gives a command, whose argument is what the command says.
    fn control(&self, library: &Library, command: c_int, argument: *mut c_void) -> Result<()> {
        let control = operation!(library, field!(self.0, Fid, ops), sys::Ops, control);
        // SAFETY: a live object; callers give the argument that the command wants.
        match unsafe { control(self.0, command, argument) } {
            0 => Ok(()),
            status => Err(library.error("commanding one of libfabric's objects", status)),
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let ops = field!(self.0, Fid, ops);
        let close = field!(ops.cast_mut(), sys::Ops, close);
        if let Some(close) = close {
            // SAFETY: opened once, closed once, and what was opened of it is closed before.
            unsafe { close(self.0) };
        }
    }
}

/// Where registered memory is, as peers name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteAddress {
    pub(super) address: u64,
    pub(super) key: u64,
}

/// A buffer of this rank, in registered memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    pub(super) start: *mut u8,
    pub(super) len: usize,
    /// What its completion names.
    pub(super) context: *mut c_void,
}

/// What became of an operation that was handed over.
pub(super) enum PostOutcome {
    /// Its completion will come.
    Yes,
    /// Not now: later, after progress.
    Busy,
    /// It failed, with this status.
    Failed(c_int),
}

/// What a completion queue had.
pub(super) enum Reaped {
    /// So many entries.
    Done(usize),
    Nothing,
    /// An operation that failed: its context, and why.
    Failed(*mut c_void, c_int),
}

/// The operations that move bytes, looked up once. Providers settle on their tables when an endpoint is
/// enabled.
struct Calls {
    send: sys::Transfer,
    recv: sys::Transfer,
    read: sys::Remote,
    write: sys::Remote,
    reap: sys::ReadCq,
    read_error: sys::ReadError,
    trywait: sys::TryWait,
    register: sys::Register,
}

/// A rank's endpoint with what belongs to it. Fields are closed in their order.
pub(super) struct Net {
    regions: Vec<Object>,
    endpoint: Object,
    queue: Object,
    vector: Object,
    domain: Object,
    fabric: Object,
    calls: Calls,
    info: InfoList,
    library: &'static Library,
    /// Becomes readable when there may be completions; not every provider has one.
    wait: Option<RawFd>,
    /// Memory of local operations.
    local: *mut c_void,
    /// Whether what is posted after a write, to the same peer, takes effect after it.
    pub(super) ordered: bool,
}

// SAFETY: libfabric's objects belong to no thread. They are used by one thread at a time, under the engine's
// lock.
unsafe impl Send for Net {}

impl Net {
    /// Opens everything, with a queue for `depth` operations.
    pub(super) fn open(options: &OfiOptions, depth: usize) -> Result<Net> {
        let library = Library::get()?;
        let mut info = choose(library, options)?;
        let ordered = adapt(&mut info);
        let fabric = Object(library.fabric(&info)?);
        let open = operation!(library, field!(fabric.0, FidFabric, ops), sys::OpsFabric, domain);
        let domain = Object::open(library, "opening the domain", |result| {
            // SAFETY: a live fabric, and the description that it was opened by.
            unsafe { open(fabric.0, info.as_ptr(), result, ptr::null_mut()) }
        })?;
        let domain_ops = field!(domain.0, FidDomain, ops);
        let vector = open_vector(library, &domain)?;
        let (queue, wait) = open_queue(library, &domain, depth)?;
        let open = operation!(library, domain_ops, sys::OpsDomain, endpoint);
        let endpoint = Object::open(library, "opening the endpoint", |result| {
            // SAFETY: a live domain, and the description that it was opened by.
            unsafe { open(domain.0, info.as_ptr(), result, ptr::null_mut()) }
        })?;
        endpoint.bind(library, &vector, 0)?;
        endpoint.bind(library, &queue, sys::SEND | sys::RECV)?;
        endpoint.control(library, sys::ENABLE, ptr::null_mut())?;
        let calls = Calls::of(library, &fabric, &domain, &endpoint, &queue)?;
        let (regions, local) = (Vec::new(), ptr::null_mut());
        Ok(Net {
            regions,
            endpoint,
            queue,
            vector,
            domain,
            fabric,
            calls,
            info,
            library,
            wait,
            local,
            ordered,
        })
    }

    /// The name of libfabric's provider.
    pub(super) fn provider(&self) -> String {
        self.info.provider()
    }

    /// What libfabric calls an error.
    pub(super) fn text(&self, status: c_int) -> String {
        self.library.text(status)
    }

    /// This rank's address, as peers need it.
    pub(super) fn address(&self) -> Result<Vec<u8>> {
        let cm = field!(self.endpoint.0, FidEp, cm);
        let getname = operation!(self.library, cm, sys::OpsCm, getname);
        let mut len = 0;
        // SAFETY: a live endpoint; no bytes are stored in a buffer of none.
        let status = unsafe { getname(self.endpoint.0, ptr::null_mut(), &mut len) };
        if status != 0 && status != -sys::ETOOSMALL {
            return Err(self.library.error("asking for this rank's address", status));
        }
        let mut address = vec![0; len];
        // SAFETY: a live endpoint, and `len` bytes.
        let status = unsafe { getname(self.endpoint.0, address.as_mut_ptr().cast(), &mut len) };
        if status != 0 {
            return Err(self.library.error("asking for this rank's address", status));
        }
        address.truncate(len);
        Ok(address)
    }

    /// Whether bytes that a peer gave have the shape of an address of this provider.
    pub(super) fn is_address(&self, bytes: &[u8], own: &[u8]) -> bool {
        match self.info.get().addr_format {
            sys::ADDR_STR => bytes.last() == Some(&0),
            _ => bytes.len() == own.len(),
        }
    }

    /// Enters a peer's address, which [`Self::is_address`], and gives its number.
    pub(super) fn enter(&mut self, address: &[u8]) -> Result<u64> {
        let insert = operation!(self.library, field!(self.vector.0, FidAv, ops), sys::OpsAv, insert);
        let mut number = sys::ANYBODY;
        // SAFETY: a live vector; one address of the right shape, which is copied, and one number.
        let count =
            unsafe { insert(self.vector.0, address.as_ptr().cast(), 1, &mut number, 0, ptr::null_mut()) };
        match count {
            1 => Ok(number),
            0 => Err(Error::Invalid("libfabric does not take a peer's address".into())),
            status => Err(self.library.error("entering a peer's address", status)),
        }
    }

    /// Makes memory of this rank reachable by peers.
    ///
    /// # Safety
    /// The memory is mapped until this value ends, and there are no references to it.
    pub(super) unsafe fn register(
        &mut self,
        base: *mut u8,
        len: usize,
        access: u64,
    ) -> Result<RemoteAddress> {
        // SAFETY: passed on to the caller.
        let region = unsafe { self.open_region(base, len, access) }?;
        let domain = self.info.attributes(|info| info.domain_attr);
        let is_virtual = domain.is_some_and(|domain| domain.mr_mode & sys::MR_VIRT_ADDR != 0);
        let address = if is_virtual { base.expose_provenance() as u64 } else { 0 };
        Ok(RemoteAddress { address, key: field!(region, FidMr, key) })
    }

    /// Registers memory.
    ///
    /// # Safety
    /// As for [`Self::register`].
    unsafe fn open_region(&mut self, base: *mut u8, len: usize, access: u64) -> Result<*mut FidMr> {
        let domain = self.info.attributes(|info| info.domain_attr);
        let (mode, key_size) = domain.map_or((0, 8), |domain| (domain.mr_mode, domain.mr_key_size));
        let key = random_key(key_size)?;
        let mut region: *mut FidMr = ptr::null_mut();
        // SAFETY: a live domain; the memory is the caller's promise.
        let status = unsafe {
            (self.calls.register)(
                self.domain.0,
                base.cast(),
                len,
                access,
                0,
                key,
                0,
                &mut region,
                ptr::null_mut(),
            )
        };
        if status != 0 {
            return Err(self.library.error(
                &format!(
                    "registering {len} bytes (with a network card: locking them in memory, see `ulimit -l`)"
                ),
                status,
            ));
        }
        let object = Object(region.cast());
        if mode & sys::MR_ENDPOINT != 0 {
            object.bind(self.library, &self.endpoint, 0)?;
            object.control(self.library, sys::ENABLE, ptr::null_mut())?;
        }
        // Closed before the endpoint that it is bound to.
        self.regions.push(object);
        Ok(region)
    }

    /// Makes memory of this rank known as what local operations use.
    ///
    /// # Safety
    /// As for [`Self::register`].
    pub(super) unsafe fn register_local(&mut self, base: *mut u8, len: usize) -> Result<()> {
        let mode = self.info.attributes(|info| info.domain_attr).map_or(0, |domain| domain.mr_mode);
        if mode & sys::MR_LOCAL != 0 {
            let access = sys::SEND | sys::RECV | sys::READ | sys::WRITE;
            // SAFETY: passed on to the caller.
            let region = unsafe { self.open_region(base, len, access) }?;
            self.local = field!(region, FidMr, mem_desc);
        }
        Ok(())
    }

    /// Sends a buffer to a peer.
    ///
    /// # Safety
    /// Of this and the next three: the buffer is in the local memory, and nobody else uses it until its
    /// completion.
    pub(super) unsafe fn send(&self, to: u64, buffer: Buffer) -> PostOutcome {
        let Buffer { start, len, context } = buffer;
        // SAFETY: a live endpoint; the buffer is the caller's promise.
        posted(unsafe { (self.calls.send)(self.endpoint.0, start.cast(), len, self.local, to, context) })
    }

    /// Gives a buffer to whatever anybody sends.
    ///
    /// # Safety
    /// See [`Self::send`].
    pub(super) unsafe fn receive(&self, buffer: Buffer) -> PostOutcome {
        let Buffer { start, len, context } = buffer;
        // SAFETY: a live endpoint; the buffer is the caller's promise.
        posted(unsafe {
            (self.calls.recv)(self.endpoint.0, start.cast(), len, self.local, sys::ANYBODY, context)
        })
    }

    /// Writes a buffer into a peer's memory.
    ///
    /// # Safety
    /// See [`Self::send`].
    pub(super) unsafe fn write(&self, to: u64, place: RemoteAddress, buffer: Buffer) -> PostOutcome {
        let (Buffer { start, len, context }, RemoteAddress { address, key }) = (buffer, place);
        // SAFETY: a live endpoint; the buffer is the caller's promise.
        posted(unsafe {
            (self.calls.write)(self.endpoint.0, start.cast(), len, self.local, to, address, key, context)
        })
    }

    /// Reads a peer's memory into a buffer.
    ///
    /// # Safety
    /// See [`Self::send`].
    pub(super) unsafe fn read(&self, from: u64, place: RemoteAddress, buffer: Buffer) -> PostOutcome {
        let (Buffer { start, len, context }, RemoteAddress { address, key }) = (buffer, place);
        // SAFETY: a live endpoint; the buffer is the caller's promise.
        posted(unsafe {
            (self.calls.read)(self.endpoint.0, start.cast(), len, self.local, from, address, key, context)
        })
    }

    /// Makes progress, and takes completions.
    pub(super) fn reap(&self, entries: &mut [CqMsgEntry]) -> Reaped {
        // SAFETY: a live queue of entries of this format, and room for as many as said.
        let count = unsafe { (self.calls.reap)(self.queue.0, entries.as_mut_ptr().cast(), entries.len()) };
        match usize::try_from(count) {
            Ok(0) => Reaped::Nothing,
            Ok(count) => Reaped::Done(count),
            Err(_) if count == -(sys::EAVAIL as isize) => self.reap_error(),
            Err(_) => Reaped::Nothing,
        }
    }

    fn reap_error(&self) -> Reaped {
        // SAFETY: numbers and pointers, for which zero is a value.
        let mut entry: CqErrEntry = unsafe { std::mem::zeroed() };
        // SAFETY: a live queue, and an entry that gives no room for the provider's own data.
        match unsafe { (self.calls.read_error)(self.queue.0, &mut entry, 0) } {
            1 => Reaped::Failed(entry.op_context, entry.err),
            _ => Reaped::Nothing,
        }
    }

    /// What to sleep on until there may be completions, if it is safe to sleep at all.
    pub(super) fn sleeper(&self) -> Option<BorrowedFd<'_>> {
        let wait = self.wait?;
        let queue = self.queue.0;
        // SAFETY: a live fabric, and one object of it.
        if unsafe { (self.calls.trywait)(self.fabric.0, &queue, 1) } != 0 {
            return None;
        }
        // SAFETY: the queue has this descriptor as long as it lives.
        Some(unsafe { BorrowedFd::borrow_raw(wait) })
    }

    /// Whether the provider has something to sleep on.
    pub(super) fn can_sleep(&self) -> bool {
        self.wait.is_some()
    }
}

impl Calls {
    fn of(
        library: &Library,
        fabric: &Object,
        domain: &Object,
        endpoint: &Object,
        queue: &Object,
    ) -> Result<Calls> {
        let (msg, rma) = (field!(endpoint.0, FidEp, msg), field!(endpoint.0, FidEp, rma));
        let queue = field!(queue.0, FidCq, ops);
        let fabric = field!(fabric.0, FidFabric, ops);
        let domain = field!(domain.0, FidDomain, mr);
        Ok(Calls {
            send: operation!(library, msg, sys::OpsMsg, send),
            recv: operation!(library, msg, sys::OpsMsg, recv),
            read: operation!(library, rma, sys::OpsRma, read),
            write: operation!(library, rma, sys::OpsRma, write),
            reap: operation!(library, queue, sys::OpsCq, read),
            read_error: operation!(library, queue, sys::OpsCq, readerr),
            trywait: operation!(library, fabric, sys::OpsFabric, trywait),
            register: operation!(library, domain, sys::OpsMr, reg),
        })
    }
}

fn posted(status: isize) -> PostOutcome {
    match c_int::try_from(status) {
        Ok(0) => PostOutcome::Yes,
        Ok(status) if status == -sys::EAGAIN => PostOutcome::Busy,
        Ok(status) => PostOutcome::Failed(status),
        Err(_) => PostOutcome::Failed(-libc::EIO),
    }
}

fn open_vector(library: &Library, domain: &Object) -> Result<Object> {
    let open = operation!(library, field!(domain.0, FidDomain, ops), sys::OpsDomain, av_open);
    let mut attributes = AvAttr {
        r#type: sys::AV_TABLE,
        rx_ctx_bits: 0,
        count: 0,
        ep_per_node: 0,
        name: ptr::null(),
        map_addr: ptr::null_mut(),
        flags: 0,
    };
    Object::open(library, "opening the address vector", |result| {
        // SAFETY: a live domain, and attributes that are read during the call.
        unsafe { open(domain.0, &mut attributes, result, ptr::null_mut()) }
    })
}

/// A completion queue, and what to sleep on if the provider has such a thing.
fn open_queue(library: &Library, domain: &Object, depth: usize) -> Result<(Object, Option<RawFd>)> {
    let open = operation!(library, field!(domain.0, FidDomain, ops), sys::OpsDomain, cq_open);
    let queue = |wait_obj| {
        let mut attributes = CqAttr {
            size: depth,
            flags: 0,
            format: sys::CQ_FORMAT_MSG,
            wait_obj,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
        };
        Object::open(library, "opening the completion queue", |result| {
            // SAFETY: a live domain, and attributes that are read during the call.
            unsafe { open(domain.0, &mut attributes, result, ptr::null_mut()) }
        })
    };
    let Ok(with) = queue(sys::WAIT_FD) else { return Ok((queue(sys::WAIT_NONE)?, None)) };
    let mut fd: RawFd = -1;
    let wait = with.control(library, sys::GETWAIT, (&raw mut fd).cast()).is_ok() && fd >= 0;
    Ok((with, wait.then_some(fd)))
}

/// A key that strangers do not guess, where there is room for one.
fn random_key(bytes: usize) -> Result<u64> {
    let mut key = [0; 8];
    let used = bytes.clamp(1, 8);
    getrandom::fill(&mut key[..used]).map_err(|error| Error::Io {
        what: "drawing a key from the system's random numbers".into(),
        source: std::io::Error::other(error.to_string()),
    })?;
    // The highest bit stays free: some providers keep it for themselves.
    Ok(u64::from_le_bytes(key) >> 1)
}
