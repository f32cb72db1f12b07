//! The declarations against the headers: a C program says where each field lies.

use super::*;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

/// Expressions of C, and what they must give. The last field of each structure is enough to find a wrong one
/// in front of it; all are asked for so that the message names it.
macro_rules! layout {
    ($($ours:ident = $theirs:literal { $($field:ident $(as $name:literal)?),* })*) => {
        vec![$($((
            format!("offsetof({}, {})", $theirs, [$($name,)? stringify!($field)][0]),
            offset_of!($ours, $field) as u64,
        )),*),*]
    };
}

fn offsets() -> Vec<(String, u64)> {
    layout! {
        TxAttr = "struct fi_tx_attr" { caps, mode, op_flags, msg_order, comp_order, inject_size, size }
        RxAttr = "struct fi_rx_attr" { caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size }
        EpAttr = "struct fi_ep_attr" { r#type as "type", protocol, protocol_version, max_msg_size }
        DomainAttr = "struct fi_domain_attr" {
            domain, name, threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode, mr_key_size
        }
        FabricAttr = "struct fi_fabric_attr" { fabric, name, prov_name, prov_version }
        Info = "struct fi_info" {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle, tx_attr, rx_attr, ep_attr,
            domain_attr, fabric_attr
        }
        Fid = "struct fid" { fclass, context, ops }
        FidFabric = "struct fid_fabric" { fid, ops }
        FidDomain = "struct fid_domain" { fid, ops, mr }
        FidAv = "struct fid_av" { fid, ops }
        FidCq = "struct fid_cq" { fid, ops }
        FidMr = "struct fid_mr" { fid, mem_desc, key }
        FidEp = "struct fid_ep" { fid, ops, cm, msg, rma }
        AvAttr = "struct fi_av_attr" { r#type as "type", rx_ctx_bits, count, ep_per_node, name, map_addr, flags }
        CqAttr = "struct fi_cq_attr" { size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set }
        CqMsgEntry = "struct fi_cq_msg_entry" { op_context, flags, len }
        CqErrEntry = "struct fi_cq_err_entry" {
            op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size
        }
        Ops = "struct fi_ops" { size, close, bind, control }
        OpsFabric = "struct fi_ops_fabric" { size, domain, trywait }
        OpsDomain = "struct fi_ops_domain" { size, av_open, cq_open, endpoint }
        OpsMr = "struct fi_ops_mr" { size, reg }
        OpsAv = "struct fi_ops_av" { size, insert }
        OpsCq = "struct fi_ops_cq" { size, read, readerr }
        OpsCm = "struct fi_ops_cm" { size, getname }
        OpsMsg = "struct fi_ops_msg" { size, recv, send }
        OpsRma = "struct fi_ops_rma" { size, read, write }
    }
}

/// The sizes of what the library reads or writes whole, and all constants.
fn values() -> Vec<(String, u64)> {
    let sizes = [
        ("struct fi_av_attr", size_of::<AvAttr>()),
        ("struct fi_cq_attr", size_of::<CqAttr>()),
        ("struct fi_cq_msg_entry", size_of::<CqMsgEntry>()),
        ("struct fi_cq_err_entry", size_of::<CqErrEntry>()),
    ];
    let flags = [
        ("FI_VERSION(1, 17)", u64::from(API)),
        ("FI_MSG", MSG),
        ("FI_RMA", RMA),
        ("FI_READ", READ),
        ("FI_WRITE", WRITE),
        ("FI_RECV", RECV),
        ("FI_SEND", SEND),
        ("FI_REMOTE_READ", REMOTE_READ),
        ("FI_REMOTE_WRITE", REMOTE_WRITE),
        ("FI_DELIVERY_COMPLETE", DELIVERY_COMPLETE),
        ("FI_SOURCE", SOURCE),
        ("FI_CONTEXT", CONTEXT),
        ("FI_CONTEXT2", CONTEXT2),
        ("FI_ORDER_WAW", ORDER_WAW),
        ("FI_ORDER_SAW", ORDER_SAW),
        ("FI_ORDER_SAS", ORDER_SAS),
        ("FI_ADDR_UNSPEC", ANYBODY),
        ("FI_SOCKADDR", u64::from(*SOCKET_ADDRESSES.start())),
        ("FI_SOCKADDR_IN6", u64::from(*SOCKET_ADDRESSES.end())),
        ("FI_ADDR_STR", u64::from(ADDR_STR)),
    ];
    let numbers = [
        ("FI_MR_LOCAL", MR_LOCAL),
        ("FI_MR_VIRT_ADDR", MR_VIRT_ADDR),
        ("FI_MR_ALLOCATED", MR_ALLOCATED),
        ("FI_MR_PROV_KEY", MR_PROV_KEY),
        ("FI_MR_ENDPOINT", MR_ENDPOINT),
        ("FI_EP_RDM", EP_RDM),
        ("FI_THREAD_DOMAIN", THREAD_DOMAIN),
        ("FI_RM_ENABLED", RM_ENABLED),
        ("FI_AV_TABLE", AV_TABLE),
        ("FI_CQ_FORMAT_MSG", CQ_FORMAT_MSG),
        ("FI_WAIT_NONE", WAIT_NONE),
        ("FI_WAIT_FD", WAIT_FD),
        ("FI_GETWAIT", GETWAIT),
        ("FI_ENABLE", ENABLE),
        ("FI_EAGAIN", EAGAIN),
        ("FI_ENODATA", ENODATA),
        ("FI_ETOOSMALL", ETOOSMALL),
        ("FI_EAVAIL", EAVAIL),
    ];
    let sizes = sizes.map(|(name, size)| (format!("sizeof({name})"), size as u64));
    let flags = flags.map(|(name, value)| (name.to_owned(), value));
    let numbers = numbers.map(|(name, value)| (name.to_owned(), u64::try_from(value).unwrap()));
    [&sizes[..], &flags, &numbers].concat()
}

#[test]
fn what_is_declared_here_lies_where_the_headers_say() {
    if !Path::new("/usr/include/rdma/fabric.h").exists() {
        eprintln!("skipped: no headers of libfabric to compare with (Debian: apt-get install libfabric-dev)");
        return;
    }
    let expected = [offsets(), values()].concat();
    let lines: String = expected
        .iter()
        .map(|(what, _)| format!("printf(\"%llu\\n\", (unsigned long long)({what}));\n"))
        .collect();
    let includes = [
        "stdio.h",
        "rdma/fabric.h",
        "rdma/fi_domain.h",
        "rdma/fi_endpoint.h",
        "rdma/fi_cm.h",
        "rdma/fi_rma.h",
    ]
    .map(|header| format!("#include <{header}>\n"))
    .concat();
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("layout.c"), directory.path().join("layout"));
    std::fs::write(&source, format!("{includes}int main(void) {{\n{lines}return 0;\n}}\n")).unwrap();
    let compiled =
        Command::new("cc").arg(&source).arg("-o").arg(&program).status().expect("cc is needed, see README");
    assert!(compiled.success(), "the program does not compile: a field's name is wrong");
    let said = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    let said: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(said.len(), expected.len());
    for ((what, ours), theirs) in expected.iter().zip(said) {
        assert_eq!(*ours, theirs, "{what}");
    }
}
