//! Which of libfabric's providers carries a job.

use super::OfiOptions;
use super::library::{InfoList, Library, c_text};
use super::sys;
use scash_comm::{Error, Result};

/// What is asked of any provider.
fn hints(library: &'static Library, provider: Option<&str>) -> Result<InfoList> {
    let mut hints = library.hints()?;
    let info = hints.get_mut();
    info.caps = sys::MSG | sys::RMA;
    // Every operation has a context of its own, which the provider may write.
    info.mode = sys::CONTEXT | sys::CONTEXT2;
    if let Some(endpoint) = hints.attributes_mut(|info| info.ep_attr) {
        endpoint.r#type = sys::EP_RDM;
    }
    if let Some(domain) = hints.attributes_mut(|info| info.domain_attr) {
        domain.threading = sys::THREAD_DOMAIN;
        domain.resource_mgmt = sys::RM_ENABLED;
        domain.mr_mode =
            sys::MR_LOCAL | sys::MR_VIRT_ADDR | sys::MR_ALLOCATED | sys::MR_PROV_KEY | sys::MR_ENDPOINT;
    }
    if let Some(sending) = hints.attributes_mut(|info| info.tx_attr) {
        sending.msg_order = sys::ORDER_SAS;
    }
    if let Some(receiving) = hints.attributes_mut(|info| info.rx_attr) {
        receiving.msg_order = sys::ORDER_SAS;
    }
    if let Some(name) = provider {
        hints.set_provider(&c_text("the name of libfabric's provider", name)?)?;
    }
    Ok(hints)
}

/// The provider to use: the one that is asked for, or the one that libfabric thinks the best.
pub(super) fn choose(library: &'static Library, options: &OfiOptions) -> Result<InfoList> {
    let provider = options.provider.as_deref();
    let hints = hints(library, provider)?;
    let found = library.info(None, &hints)?.ok_or_else(|| nothing(library, provider))?;
    let is_ip = sys::SOCKET_ADDRESSES.contains(&found.get().addr_format);
    let Some(interface) = options.interface.as_deref().filter(|_| is_ip) else { return Ok(found) };
    let node = c_text("the interface", interface)?;
    library.info(Some(&node), &hints)?.ok_or_else(|| {
        Error::Invalid(format!(
            "libfabric's provider {} cannot use the interface {interface}: give an address of this host",
            found.provider()
        ))
    })
}

fn nothing(library: &'static Library, provider: Option<&str>) -> Error {
    let usable = providers().map(|names| names.join(", ")).unwrap_or_default();
    let asked = provider.map_or_else(String::new, |name| format!(" {name:?}"));
    Error::Invalid(format!(
        "libfabric {} has no usable provider{asked} here; usable are: {usable}. Name one by SCASH_OFI, or none for the best",
        library.version()
    ))
}

/// Settles what the provider leaves open. Returns whether what follows a write takes effect after it.
pub(super) fn adapt(info: &mut InfoList) -> bool {
    let Some(sending) = info.attributes_mut(|info| info.tx_attr) else { return false };
    let wanted = sys::ORDER_WAW | sys::ORDER_SAW;
    let ordered = sending.msg_order & wanted == wanted;
    if !ordered {
        // Then a write is waited for, and its completion must say that it is in the peer's memory.
        sending.op_flags |= sys::DELIVERY_COMPLETE;
    }
    ordered
}

/// Names of the providers of this machine's libfabric that would serve, best first.
pub(super) fn providers() -> Result<Vec<String>> {
    let library = Library::get()?;
    let mut names: Vec<String> = Vec::new();
    if let Some(found) = library.info(None, &hints(library, None)?)? {
        for name in found.names() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}
