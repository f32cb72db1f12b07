//! libfabric's C interface, as far as it is used here: structures, operation tables and constants of API
//! version 1.17.
//!
//! Newer libraries append to structures and tables and change nothing in front, so what is declared here is a
//! prefix of what there is. Structures that the library reads are therefore made by the library
//! (`fi_dupinfo`), except small attributes whose layout is older than 1.0. Tables begin with their size,
//! which [`super::net`] checks. Names are those of the C headers without `fi_`.

use std::ffi::{c_char, c_int, c_void};

/// `FI_VERSION(1, 17)`: what Debian 12 has, and what 2.x serves, too.
pub(super) const API: u32 = 1 << 16 | 17;

pub(super) const MSG: u64 = 1 << 1;
pub(super) const RMA: u64 = 1 << 2;
pub(super) const READ: u64 = 1 << 8;
pub(super) const WRITE: u64 = 1 << 9;
pub(super) const RECV: u64 = 1 << 10;
pub(super) const SEND: u64 = 1 << 11;
pub(super) const REMOTE_READ: u64 = 1 << 12;
pub(super) const REMOTE_WRITE: u64 = 1 << 13;
pub(super) const DELIVERY_COMPLETE: u64 = 1 << 28;
/// Flag of `fi_getinfo`: node and service are this end's.
pub(super) const SOURCE: u64 = 1 << 57;

pub(super) const CONTEXT: u64 = 1 << 59;
pub(super) const CONTEXT2: u64 = 1 << 52;

pub(super) const MR_LOCAL: c_int = 1 << 2;
pub(super) const MR_VIRT_ADDR: c_int = 1 << 4;
pub(super) const MR_ALLOCATED: c_int = 1 << 5;
pub(super) const MR_PROV_KEY: c_int = 1 << 6;
pub(super) const MR_ENDPOINT: c_int = 1 << 9;

pub(super) const ORDER_WAW: u64 = 1 << 4;
pub(super) const ORDER_SAW: u64 = 1 << 7;
pub(super) const ORDER_SAS: u64 = 1 << 8;

pub(super) const EP_RDM: c_int = 3;
pub(super) const THREAD_DOMAIN: c_int = 3;
pub(super) const RM_ENABLED: c_int = 2;
pub(super) const AV_TABLE: c_int = 2;
pub(super) const CQ_FORMAT_MSG: c_int = 2;
pub(super) const WAIT_NONE: c_int = 0;
pub(super) const WAIT_FD: c_int = 3;
/// Commands of `fi_control`.
pub(super) const GETWAIT: c_int = 5;
pub(super) const ENABLE: c_int = 6;

/// Address formats `FI_SOCKADDR`, `FI_SOCKADDR_IN` and `FI_SOCKADDR_IN6`.
pub(super) const SOCKET_ADDRESSES: std::ops::RangeInclusive<u32> = 1..=3;
/// Address format of text.
pub(super) const ADDR_STR: u32 = 9;

pub(super) const EAGAIN: c_int = libc::EAGAIN;
pub(super) const ENODATA: c_int = libc::ENODATA;
pub(super) const ETOOSMALL: c_int = 257;
pub(super) const EAVAIL: c_int = 259;

#[repr(C)]
pub(super) struct TxAttr {
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) op_flags: u64,
    pub(super) msg_order: u64,
    pub(super) comp_order: u64,
    pub(super) inject_size: usize,
    pub(super) size: usize,
}

#[repr(C)]
pub(super) struct RxAttr {
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) op_flags: u64,
    pub(super) msg_order: u64,
    pub(super) comp_order: u64,
    pub(super) total_buffered_recv: usize,
    pub(super) size: usize,
}

#[repr(C)]
pub(super) struct EpAttr {
    pub(super) r#type: c_int,
    pub(super) protocol: u32,
    pub(super) protocol_version: u32,
    pub(super) max_msg_size: usize,
}

#[repr(C)]
pub(super) struct DomainAttr {
    pub(super) domain: *mut Fid,
    pub(super) name: *mut c_char,
    pub(super) threading: c_int,
    pub(super) control_progress: c_int,
    pub(super) data_progress: c_int,
    pub(super) resource_mgmt: c_int,
    pub(super) av_type: c_int,
    pub(super) mr_mode: c_int,
    pub(super) mr_key_size: usize,
}

#[repr(C)]
pub(super) struct FabricAttr {
    pub(super) fabric: *mut Fid,
    pub(super) name: *mut c_char,
    pub(super) prov_name: *mut c_char,
    pub(super) prov_version: u32,
}

#[repr(C)]
pub(super) struct Info {
    pub(super) next: *mut Info,
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) addr_format: u32,
    pub(super) src_addrlen: usize,
    pub(super) dest_addrlen: usize,
    pub(super) src_addr: *mut c_void,
    pub(super) dest_addr: *mut c_void,
    pub(super) handle: *mut Fid,
    pub(super) tx_attr: *mut TxAttr,
    pub(super) rx_attr: *mut RxAttr,
    pub(super) ep_attr: *mut EpAttr,
    pub(super) domain_attr: *mut DomainAttr,
    pub(super) fabric_attr: *mut FabricAttr,
}

/// What every object begins with.
#[repr(C)]
pub(super) struct Fid {
    pub(super) fclass: usize,
    pub(super) context: *mut c_void,
    pub(super) ops: *const Ops,
}

#[repr(C)]
pub(super) struct FidFabric {
    pub(super) fid: Fid,
    pub(super) ops: *const OpsFabric,
}

#[repr(C)]
pub(super) struct FidDomain {
    pub(super) fid: Fid,
    pub(super) ops: *const OpsDomain,
    pub(super) mr: *const OpsMr,
}

#[repr(C)]
pub(super) struct FidAv {
    pub(super) fid: Fid,
    pub(super) ops: *const OpsAv,
}

#[repr(C)]
pub(super) struct FidCq {
    pub(super) fid: Fid,
    pub(super) ops: *const OpsCq,
}

#[repr(C)]
pub(super) struct FidMr {
    pub(super) fid: Fid,
    pub(super) mem_desc: *mut c_void,
    pub(super) key: u64,
}

#[repr(C)]
pub(super) struct FidEp {
    pub(super) fid: Fid,
    pub(super) ops: *const c_void,
    pub(super) cm: *const OpsCm,
    pub(super) msg: *const OpsMsg,
    pub(super) rma: *const OpsRma,
}

#[repr(C)]
pub(super) struct AvAttr {
    pub(super) r#type: c_int,
    pub(super) rx_ctx_bits: c_int,
    pub(super) count: usize,
    pub(super) ep_per_node: usize,
    pub(super) name: *const c_char,
    pub(super) map_addr: *mut c_void,
    pub(super) flags: u64,
}

#[repr(C)]
pub(super) struct CqAttr {
    pub(super) size: usize,
    pub(super) flags: u64,
    pub(super) format: c_int,
    pub(super) wait_obj: c_int,
    pub(super) signaling_vector: c_int,
    pub(super) wait_cond: c_int,
    pub(super) wait_set: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CqMsgEntry {
    pub(super) op_context: *mut c_void,
    pub(super) flags: u64,
    pub(super) len: usize,
}

#[repr(C)]
pub(super) struct CqErrEntry {
    pub(super) op_context: *mut c_void,
    pub(super) flags: u64,
    pub(super) len: usize,
    pub(super) buf: *mut c_void,
    pub(super) data: u64,
    pub(super) tag: u64,
    pub(super) olen: usize,
    pub(super) err: c_int,
    pub(super) prov_errno: c_int,
    pub(super) err_data: *mut c_void,
    pub(super) err_data_size: usize,
}

/// An entry of a table that is not used here.
type Unused = *const c_void;

#[repr(C)]
pub(super) struct Ops {
    pub(super) size: usize,
    pub(super) close: Option<unsafe extern "C" fn(*mut Fid) -> c_int>,
    pub(super) bind: Option<unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int>,
    pub(super) control: Option<unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int>,
}

pub(super) type Open<Attr> = unsafe extern "C" fn(*mut Fid, *mut Attr, *mut *mut Fid, *mut c_void) -> c_int;

#[repr(C)]
pub(super) struct OpsFabric {
    pub(super) size: usize,
    pub(super) domain: Option<Open<Info>>,
    pub(super) passive_ep: Unused,
    pub(super) eq_open: Unused,
    pub(super) wait_open: Unused,
    pub(super) trywait: Option<TryWait>,
}

pub(super) type TryWait = unsafe extern "C" fn(*mut Fid, *const *mut Fid, c_int) -> c_int;

#[repr(C)]
pub(super) struct OpsDomain {
    pub(super) size: usize,
    pub(super) av_open: Option<Open<AvAttr>>,
    pub(super) cq_open: Option<Open<CqAttr>>,
    pub(super) endpoint: Option<Open<Info>>,
}

#[repr(C)]
pub(super) struct OpsMr {
    pub(super) size: usize,
    pub(super) reg: Option<Register>,
}

/// Domain, address, length, access, offset, wanted key, flags, result, context.
pub(super) type Register = unsafe extern "C" fn(
    *mut Fid,
    *const c_void,
    usize,
    u64,
    u64,
    u64,
    u64,
    *mut *mut FidMr,
    *mut c_void,
) -> c_int;

#[repr(C)]
pub(super) struct OpsAv {
    pub(super) size: usize,
    pub(super) insert: Option<Insert>,
}

/// Address vector, addresses, how many, results, flags, context.
pub(super) type Insert =
    unsafe extern "C" fn(*mut Fid, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int;

#[repr(C)]
pub(super) struct OpsCq {
    pub(super) size: usize,
    pub(super) read: Option<ReadCq>,
    pub(super) readfrom: Unused,
    pub(super) readerr: Option<ReadError>,
}

pub(super) type ReadCq = unsafe extern "C" fn(*mut Fid, *mut c_void, usize) -> isize;
pub(super) type ReadError = unsafe extern "C" fn(*mut Fid, *mut CqErrEntry, u64) -> isize;

#[repr(C)]
pub(super) struct OpsCm {
    pub(super) size: usize,
    pub(super) setname: Unused,
    pub(super) getname: Option<unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int>,
}

#[repr(C)]
pub(super) struct OpsMsg {
    pub(super) size: usize,
    pub(super) recv: Option<Transfer>,
    pub(super) recvv: Unused,
    pub(super) recvmsg: Unused,
    pub(super) send: Option<Transfer>,
}

/// Endpoint, buffer, length, descriptor, peer's address (of a receive: from anybody), context.
pub(super) type Transfer =
    unsafe extern "C" fn(*mut Fid, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize;

#[repr(C)]
pub(super) struct OpsRma {
    pub(super) size: usize,
    pub(super) read: Option<Remote>,
    pub(super) readv: Unused,
    pub(super) readmsg: Unused,
    pub(super) write: Option<Remote>,
}

/// Endpoint, buffer, length, descriptor, peer's address, address and key of its memory, context.
pub(super) type Remote =
    unsafe extern "C" fn(*mut Fid, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize;

/// `FI_ADDR_UNSPEC`.
pub(super) const ANYBODY: u64 = u64::MAX;

#[cfg(test)]
mod layout;
