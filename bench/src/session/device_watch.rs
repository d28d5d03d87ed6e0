//! An eye on the RDMA device while a slice is measured over it: a driver that cannot take a device
//! from its users lets traffic go on after its removal, and a loop that polls sees nothing.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use fabricbench_verbs::{Context, Error};

use crate::transport::{StopReason, StopSignal, TransportError};

/// How often the device is looked for. A look is a few system calls on a thread of its own, which may
/// have to share the measuring thread's processor.
const INTERVAL: Duration = Duration::from_millis(200);

/// Watches until it is dropped.
#[derive(Debug)]
pub(super) struct DeviceWatch {
    stop: StopSignal,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl DeviceWatch {
    /// Begins to watch. Gives `stop` when the device is gone, and when `outer` is given.
    pub(super) fn begin(
        context: Context,
        stop: StopSignal,
        outer: StopSignal,
    ) -> Result<Self, TransportError> {
        let (end, ended) = mpsc::channel::<()>();
        let thread = thread::Builder::new()
            .name("device-watch".to_owned())
            .spawn({
                let stop = stop.clone();
                move || {
                    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(INTERVAL) {
                        if let Some(reason) = outer.reason() {
                            return stop.give(reason);
                        }
                        if !context.is_present() {
                            let removed = Error::Removed { device: context.name().to_owned() };
                            return stop.give(StopReason::DeviceLost(removed.to_string()));
                        }
                    }
                }
            })
            .map_err(|error| {
                TransportError::Failed(format!("no thread to watch the device: {error}"))
            })?;
        Ok(Self { stop, thread: Some((end, thread)) })
    }

    /// The signal that ends the slice's waits.
    pub(super) fn stop(&self) -> &StopSignal {
        &self.stop
    }
}

impl Drop for DeviceWatch {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}
