//! The raw bindings: the only module that names `rdma_sys`.
//!
//! Everything else in the crate reaches libibverbs through the names re-exported here, so that
//! another binding (or a hand-written one) is a change to one file. The bindings load
//! `libibverbs.so.1` when the program starts; without it every entry point fails softly, which
//! [`library_loaded`] tells apart from a kernel without RDMA.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::mem::{align_of, offset_of, size_of};

pub(crate) use rdma_sys::{
    atomic_t, ibv_access_flags, ibv_ack_async_event, ibv_ah_attr, ibv_alloc_dm, ibv_alloc_dm_attr,
    ibv_alloc_pd, ibv_async_event, ibv_close_device, ibv_context, ibv_cq, ibv_cq_ex,
    ibv_cq_init_attr_ex, ibv_create_cq, ibv_create_cq_ex, ibv_create_cq_wc_flags, ibv_create_qp,
    ibv_create_qp_ex, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_cq, ibv_destroy_qp, ibv_device,
    ibv_device_attr, ibv_device_attr_ex, ibv_dm, ibv_end_poll, ibv_free_device_list, ibv_free_dm,
    ibv_get_async_event, ibv_get_device_list, ibv_gid, ibv_gid_entry, ibv_global_route,
    ibv_memcpy_from_dm, ibv_memcpy_to_dm, ibv_modify_qp, ibv_mr, ibv_next_poll,
    ibv_odp_general_caps, ibv_odp_transport_cap_bits, ibv_open_device, ibv_pd, ibv_poll_cq,
    ibv_poll_cq_attr, ibv_port_attr, ibv_post_recv, ibv_post_send, ibv_qp, ibv_qp_attr,
    ibv_qp_attr_mask, ibv_qp_cap, ibv_qp_create_send_ops_flags, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, ibv_qp_init_attr_mask, ibv_qp_state, ibv_qp_to_qp_ex, ibv_qp_type,
    ibv_query_device, ibv_query_device_ex, ibv_query_gid, ibv_query_gid_table, ibv_query_port,
    ibv_query_qp, ibv_query_rt_values_ex, ibv_recv_wr, ibv_reg_dm_mr, ibv_reg_mr, ibv_rx_hash_conf,
    ibv_send_flags, ibv_send_wr, ibv_sge, ibv_start_poll, ibv_values_ex, ibv_values_mask, ibv_wc,
    ibv_wc_flags, ibv_wc_opcode, ibv_wc_read_byte_len, ibv_wc_read_completion_ts,
    ibv_wc_read_imm_data, ibv_wc_read_opcode, ibv_wc_read_qp_num, ibv_wc_read_src_qp,
    ibv_wc_read_vendor_err, ibv_wc_read_wc_flags, ibv_wr_abort, ibv_wr_atomic_cmp_swp,
    ibv_wr_atomic_fetch_add, ibv_wr_complete, ibv_wr_opcode, ibv_wr_rdma_read, ibv_wr_rdma_write,
    ibv_wr_rdma_write_imm, ibv_wr_send, ibv_wr_send_imm, ibv_wr_set_inline_data, ibv_wr_set_sge,
    ibv_wr_set_ud_addr, ibv_wr_start, rdma_accept, rdma_ack_cm_event, rdma_bind_addr,
    rdma_cm_event, rdma_cm_event_type, rdma_cm_id, rdma_conn_param, rdma_connect,
    rdma_create_event_channel, rdma_create_id, rdma_destroy_event_channel, rdma_destroy_id,
    rdma_disconnect, rdma_establish, rdma_event_channel, rdma_get_cm_event, rdma_init_qp_attr,
    rdma_listen, rdma_migrate_id, rdma_port_space, rdma_reject, rdma_resolve_addr,
    rdma_resolve_route, rdma_set_option, rdma_t, rdma_ud_param, wr_t,
};

// Only laid out: libibverbs' inline functions call a provider through it.
#[cfg(target_pointer_width = "64")]
use rdma_sys::ibv_context_ops;

// Completion events.
pub(crate) use rdma_sys::{
    ibv_ack_cq_events, ibv_comp_channel, ibv_create_comp_channel, ibv_destroy_comp_channel,
    ibv_get_cq_event, ibv_req_notify_cq,
};

// Shared receive queues.
pub(crate) use rdma_sys::{
    ibv_create_srq, ibv_destroy_srq, ibv_modify_srq, ibv_post_srq_recv, ibv_srq, ibv_srq_attr,
    ibv_srq_attr_mask, ibv_srq_init_attr,
};

// Datagrams.
pub(crate) use rdma_sys::{ibv_ah, ibv_create_ah, ibv_destroy_ah, ud_t};

#[cfg(test)]
pub(crate) use rdma_sys::{ibv_grh, ibv_wc_status};

/// A C structure whose all-zero byte pattern is a valid value, which is how libibverbs expects
/// attribute structures to start.
///
/// # Safety
///
/// Implement only for types in which every field accepts zero: integers, raw pointers, options
/// of function pointers, and unions and arrays of those.
pub(crate) unsafe trait Zeroed: Sized {
    /// The all-zero value.
    #[inline]
    fn zeroed() -> Self {
        // SAFETY: the implementor of the trait promises that all-zero bytes are a valid `Self`.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! zeroed {
    ($($name:ty),* $(,)?) => {$(
        // SAFETY: a C structure of integers, raw pointers and unions of those.
        unsafe impl Zeroed for $name {}
    )*};
}

zeroed!(
    ibv_ah_attr,
    ibv_device_attr,
    ibv_device_attr_ex,
    ibv_gid_entry,
    ibv_port_attr,
    ibv_qp_attr,
    ibv_qp_init_attr,
    ibv_recv_wr,
    ibv_send_wr,
    ibv_sge,
    ibv_srq_attr,
    ibv_srq_init_attr,
    ibv_wc,
    AsyncEvent,
);

/// `struct ibv_async_event` with the event type as the integer it is in C: the bindings declare
/// a Rust enum, for which a value newer than the header would be undefined behaviour.
#[repr(C)]
pub(crate) struct AsyncEvent {
    pub(crate) element: AsyncElement,
    pub(crate) event_type: c_int,
}

/// The object an event concerns; which member is set depends on the event type.
#[repr(C)]
pub(crate) union AsyncElement {
    pub(crate) cq: *mut ibv_cq,
    pub(crate) qp: *mut ibv_qp,
    pub(crate) port_num: c_int,
}

const _: () = assert!(size_of::<AsyncEvent>() == size_of::<ibv_async_event>());
const _: () = assert!(align_of::<AsyncEvent>() == align_of::<ibv_async_event>());
const _: () =
    assert!(offset_of!(AsyncEvent, event_type) == offset_of!(ibv_async_event, event_type));

// The hand-written structures of the bindings (those with unions) against the C ABI of a 64-bit
// rdma-core, which has not changed since libibverbs 1.1: a wrong offset here corrupts silently.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<ibv_wc>() == 48);
    assert!(offset_of!(ibv_wc, status) == 8);
    assert!(offset_of!(ibv_wc, opcode) == 12);
    assert!(offset_of!(ibv_wc, byte_len) == 20);
    assert!(offset_of!(ibv_wc, imm_data_invalidated_rkey_union) == 24);
    assert!(offset_of!(ibv_wc, qp_num) == 28);
    assert!(offset_of!(ibv_wc, src_qp) == 32);
    assert!(offset_of!(ibv_wc, wc_flags) == 36);
    assert!(size_of::<ibv_comp_channel>() == 16);
    assert!(offset_of!(ibv_comp_channel, fd) == 8);
    assert!(offset_of!(ibv_context, ops) == 8);
    assert!(offset_of!(ibv_context_ops, poll_cq) == 88);
    assert!(offset_of!(ibv_context_ops, req_notify_cq) == 96);
    assert!(offset_of!(ibv_context_ops, post_srq_recv) == 160);
    assert!(offset_of!(ibv_context_ops, post_send) == 200);
    assert!(offset_of!(ibv_context_ops, post_recv) == 208);
    assert!(offset_of!(ibv_srq, context) == 0);
    assert!(offset_of!(ibv_qp, context) == 0);
    assert!(offset_of!(ibv_cq, context) == 0);
    assert!(offset_of!(ibv_cq, cq_context) == 16);
    assert!(offset_of!(ibv_cq, cqe) == 28);
    assert!(size_of::<ibv_srq_attr>() == 12);
    assert!(offset_of!(ibv_srq_attr, srq_limit) == 8);
    assert!(size_of::<ibv_srq_init_attr>() == 24);
    assert!(offset_of!(ibv_srq_init_attr, attr) == 8);
    assert!(offset_of!(ibv_qp_init_attr, srq) == 24);
    assert!(offset_of!(ibv_qp_init_attr, cap) == 32);
    assert!(offset_of!(ibv_qp_init_attr, qp_type) == 52);
    assert!(size_of::<ibv_send_wr>() == 128);
    assert!(offset_of!(ibv_send_wr, next) == 8);
    assert!(offset_of!(ibv_send_wr, sg_list) == 16);
    assert!(offset_of!(ibv_send_wr, num_sge) == 24);
    assert!(offset_of!(ibv_send_wr, opcode) == 28);
    assert!(offset_of!(ibv_send_wr, send_flags) == 32);
    assert!(offset_of!(ibv_send_wr, imm_data_invalidated_rkey_union) == 36);
    assert!(offset_of!(ibv_send_wr, wr) == 40);
    assert!(size_of::<ibv_recv_wr>() == 32);
    assert!(size_of::<ibv_sge>() == 16);
    assert!(size_of::<ibv_gid>() == 16);
    assert!(size_of::<ibv_gid_entry>() == 32);
    assert!(size_of::<ibv_ah_attr>() == 32);
    assert!(offset_of!(ibv_ah_attr, dlid) == 24);
    assert!(offset_of!(ibv_ah_attr, is_global) == 29);
    assert!(offset_of!(ibv_ah_attr, port_num) == 30);
    assert!(size_of::<ibv_global_route>() == 24);
    assert!(offset_of!(ibv_global_route, sgid_index) == 20);
    assert!(size_of::<wr_t>() == 32);
    assert!(size_of::<ud_t>() == 16);
    assert!(offset_of!(ud_t, remote_qpn) == 8);
    assert!(offset_of!(ud_t, remote_qkey) == 12);
    assert!(size_of::<ibv_qp_cap>() == 20);
    assert!(size_of::<ibv_qp_attr>() == 144);
    assert!(size_of::<ibv_qp_init_attr>() == 64);
    assert!(size_of::<ibv_device_attr>() == 232);
};

// The extended interface's functions are called through these structures, at the offsets that
// rdma-core has had since version 22: later fields were added at the end.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(offset_of!(ibv_qp_ex, comp_mask) == size_of::<ibv_qp>());
    assert!(size_of::<ibv_qp>() == 160);
    assert!(offset_of!(ibv_qp_ex, wr_id) == 168);
    assert!(offset_of!(ibv_qp_ex, wr_flags) == 176);
    assert!(offset_of!(ibv_qp_ex, wr_atomic_cmp_swp) == 184);
    assert!(offset_of!(ibv_qp_ex, wr_atomic_fetch_add) == 192);
    assert!(offset_of!(ibv_qp_ex, wr_rdma_read) == 216);
    assert!(offset_of!(ibv_qp_ex, wr_rdma_write) == 224);
    assert!(offset_of!(ibv_qp_ex, wr_rdma_write_imm) == 232);
    assert!(offset_of!(ibv_qp_ex, wr_send) == 240);
    assert!(offset_of!(ibv_qp_ex, wr_send_imm) == 248);
    assert!(offset_of!(ibv_qp_ex, wr_set_ud_addr) == 272);
    assert!(offset_of!(ibv_qp_ex, wr_set_inline_data) == 288);
    assert!(offset_of!(ibv_qp_ex, wr_set_sge) == 304);
    assert!(offset_of!(ibv_qp_ex, wr_start) == 320);
    assert!(offset_of!(ibv_qp_ex, wr_complete) == 328);
    assert!(offset_of!(ibv_qp_ex, wr_abort) == 336);
    assert!(offset_of!(ibv_cq_ex, cqe) == offset_of!(ibv_cq, cqe));
    assert!(offset_of!(ibv_cq_ex, status) == 132);
    assert!(offset_of!(ibv_cq_ex, wr_id) == 136);
    assert!(offset_of!(ibv_cq_ex, start_poll) == 144);
    assert!(offset_of!(ibv_cq_ex, next_poll) == 152);
    assert!(offset_of!(ibv_cq_ex, end_poll) == 160);
    assert!(offset_of!(ibv_cq_ex, read_opcode) == 168);
    assert!(offset_of!(ibv_cq_ex, read_vendor_err) == 176);
    assert!(offset_of!(ibv_cq_ex, read_byte_len) == 184);
    assert!(offset_of!(ibv_cq_ex, read_imm_data) == 192);
    assert!(offset_of!(ibv_cq_ex, read_qp_num) == 200);
    assert!(offset_of!(ibv_cq_ex, read_src_qp) == 208);
    assert!(offset_of!(ibv_cq_ex, read_wc_flags) == 216);
    assert!(offset_of!(ibv_cq_ex, read_completion_ts) == 248);
    assert!(size_of::<ibv_cq_init_attr_ex>() == 56);
    assert!(offset_of!(ibv_cq_init_attr_ex, wc_flags) == 32);
    assert!(size_of::<ibv_qp_init_attr_ex>() == 136);
    assert!(offset_of!(ibv_qp_init_attr_ex, comp_mask) == 60);
    assert!(offset_of!(ibv_qp_init_attr_ex, send_ops_flags) == 128);
    assert!(size_of::<ibv_device_attr_ex>() == 400);
    assert!(size_of::<ibv_alloc_dm_attr>() == 16);
    assert!(size_of::<ibv_values_ex>() == 24);
};

// The same for the connection manager's, whose unions the bindings write by hand.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(offset_of!(rdma_cm_id, verbs) == 0);
    assert!(offset_of!(rdma_cm_id, qp) == 24);
    assert!(offset_of!(rdma_cm_id, route) == 32);
    assert!(offset_of!(rdma_cm_id, ps) == 344);
    assert!(offset_of!(rdma_cm_id, port_num) == 348);
    assert!(offset_of!(rdma_cm_id, event) == 352);
    assert!(size_of::<rdma_cm_id>() == 416);
    assert!(offset_of!(rdma_cm_event, listen_id) == 8);
    assert!(offset_of!(rdma_cm_event, event) == 16);
    assert!(offset_of!(rdma_cm_event, status) == 20);
    assert!(offset_of!(rdma_cm_event, param) == 24);
    assert!(size_of::<rdma_cm_event>() == 80);
    assert!(offset_of!(rdma_conn_param, private_data_len) == 8);
    assert!(offset_of!(rdma_conn_param, qp_num) == 16);
    assert!(size_of::<rdma_conn_param>() == 24);
    assert!(offset_of!(rdma_ud_param, private_data_len) == 8);
    assert!(offset_of!(rdma_ud_param, ah_attr) == 16);
    assert!(offset_of!(rdma_ud_param, qp_num) == 48);
    assert!(offset_of!(rdma_ud_param, qkey) == 52);
    assert!(size_of::<rdma_ud_param>() == 56);
};

/// Whether `libibverbs.so.1` is in this process: the bindings try to load it at start-up.
pub(crate) fn library_loaded() -> bool {
    is_loaded(c"libibverbs.so.1")
}

/// The same for `librdmacm.so.1`, which has the connection manager.
pub(crate) fn cm_library_loaded() -> bool {
    is_loaded(c"librdmacm.so.1")
}

fn is_loaded(name: &CStr) -> bool {
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
    // SAFETY: the name is a NUL-terminated string; NOLOAD runs no constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if handle.is_null() {
        return false;
    }
    // SAFETY: `handle` came from dlopen just above and is given back once.
    unsafe { libc::dlclose(handle) };
    true
}
