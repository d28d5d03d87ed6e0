//! How a work request ended, with the likely cure.

use std::fmt;

/// `enum ibv_wc_status` as an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

/// Name and likely cure of the statuses 0 to 23, in the order of `enum ibv_wc_status`.
const STATUSES: [(&str, &str); 24] = [
    ("success", "nothing to do"),
    ("local length error", "a message was longer than the receive posted for it: post larger ones"),
    (
        "local queue pair operation error",
        "the request is malformed, or (soft-RoCE) a message was longer than the receive posted \
         for it",
    ),
    ("local EE context operation error", "reliable datagram is not supported"),
    (
        "local protection error",
        "the local range is not registered for this use: register receive buffers with \
         LOCAL_WRITE",
    ),
    (
        "request flushed",
        "the queue pair is in the error state: look for the first failure before this one",
    ),
    ("memory window bind error", "the memory window or its region does not allow this"),
    ("bad response", "the peer answered with an unexpected packet"),
    ("local access error", "the region does not allow the RDMA write with immediate"),
    (
        "remote invalid request",
        "the peer refused the request: its receive was too small, or its queue pair does not \
         allow this operation",
    ),
    (
        "remote access error",
        "the peer's device refused the address or key: exchange the region again, and register \
         it with REMOTE_WRITE or REMOTE_READ",
    ),
    ("remote operation error", "the peer failed to finish the request: look at its own error"),
    (
        "transport retry counter exceeded",
        "the peer does not answer: it is gone, its link is down, or GID, LID or queue pair number \
         do not belong together; ping the GID's address and compare GID indexes of both sides",
    ),
    (
        "RNR retry counter exceeded",
        "the peer is alive but posted no receive: post receives before sending, or raise rnr_retry",
    ),
    ("local RDD violation", "reliable datagram is not supported"),
    ("remote invalid RD request", "reliable datagram is not supported"),
    ("remote aborted", "the peer's device gave up the request"),
    ("invalid EE context number", "reliable datagram is not supported"),
    ("invalid EE context state", "reliable datagram is not supported"),
    ("fatal error", "the device failed: look at the kernel log"),
    ("response timeout", "the peer does not answer: check its link"),
    ("general error", "the device gives no reason but the vendor error"),
    ("tag matching error", "look at the kernel log"),
    ("tag matching rendezvous incomplete", "finish the rendezvous in software"),
];

impl Status {
    /// `IBV_WC_SUCCESS`.
    pub const SUCCESS: Self = Self(0);
    /// `IBV_WC_LOC_LEN_ERR`.
    pub const LOCAL_LENGTH: Self = Self(1);
    /// `IBV_WC_LOC_PROT_ERR`.
    pub const LOCAL_PROTECTION: Self = Self(4);
    /// `IBV_WC_WR_FLUSH_ERR`.
    pub const FLUSHED: Self = Self(5);
    /// `IBV_WC_REM_INV_REQ_ERR`.
    pub const REMOTE_INVALID_REQUEST: Self = Self(9);
    /// `IBV_WC_REM_ACCESS_ERR`.
    pub const REMOTE_ACCESS: Self = Self(10);
    /// `IBV_WC_REM_OP_ERR`.
    pub const REMOTE_OPERATION: Self = Self(11);
    /// `IBV_WC_RETRY_EXC_ERR`.
    pub const RETRY_EXCEEDED: Self = Self(12);
    /// `IBV_WC_RNR_RETRY_EXC_ERR`.
    pub const RNR_RETRY_EXCEEDED: Self = Self(13);

    fn words(self) -> (&'static str, &'static str) {
        const UNKNOWN: (&str, &str) =
            ("status newer than this program", "look at the vendor error");
        STATUSES.get(self.0 as usize).copied().unwrap_or(UNKNOWN)
    }

    /// What the status means.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What is likely to help.
    #[must_use]
    pub fn cure(self) -> &'static str {
        self.words().1
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (status {})", self.name(), self.0)
    }
}

/// A work request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "work request {id} of queue pair {queue_pair} failed: {status}, vendor error \
     {vendor_error:#x}; {}", status.cure()
)]
pub struct CompletionError {
    /// The request's id.
    pub id: u64,
    /// The local queue pair's number.
    pub queue_pair: u32,
    /// Why.
    pub status: Status,
    /// The device's own code for it.
    pub vendor_error: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ibv_wc_status as wc;

    #[test]
    fn words_line_up_with_the_codes_of_the_header() {
        for (code, words) in [
            (wc::IBV_WC_SUCCESS, "success"),
            (wc::IBV_WC_LOC_LEN_ERR, "local length"),
            (wc::IBV_WC_LOC_PROT_ERR, "local protection"),
            (wc::IBV_WC_WR_FLUSH_ERR, "flushed"),
            (wc::IBV_WC_REM_INV_REQ_ERR, "remote invalid request"),
            (wc::IBV_WC_REM_ACCESS_ERR, "remote access"),
            (wc::IBV_WC_RETRY_EXC_ERR, "transport retry"),
            (wc::IBV_WC_RNR_RETRY_EXC_ERR, "RNR retry"),
            (wc::IBV_WC_FATAL_ERR, "fatal"),
            (wc::IBV_WC_GENERAL_ERR, "general"),
            (wc::IBV_WC_TM_RNDV_INCOMPLETE, "rendezvous"),
        ] {
            assert!(Status(code).name().contains(words), "{code}: {}", Status(code).name());
        }
    }
}
