//! A server on its own thread with its own current-thread runtime, as a harness runs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fabricbench_grpc::{ListenOptions, Observer, Result, Server, Tuning};
use tokio::sync::oneshot;

/// Bound against hanging, for whatever should take milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs `test` on a current-thread runtime, and fails if it takes too long.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    runtime().block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("it hangs") })
}

pub struct Running {
    pub address: SocketAddr,
    pub observer: Arc<Observer>,
    stop: Option<oneshot::Sender<How>>,
    thread: Option<JoinHandle<Result<()>>>,
}

enum How {
    Gracefully,
    Dead,
}

impl Running {
    pub fn start(tuning: &Tuning) -> Running {
        Running::start_on("127.0.0.1:0", tuning)
    }

    pub fn start_on(address: &str, tuning: &Tuning) -> Running {
        let options = ListenOptions::new(address.parse().unwrap());
        Running::start_with(&options, tuning, Observer::new())
    }

    pub fn start_with(options: &ListenOptions, tuning: &Tuning, observer: Observer) -> Running {
        let server = Server::bind(options, tuning).unwrap();
        let address = server.local_addr();
        let observer = Arc::new(observer);
        let (stop, stopped) = oneshot::channel();
        let seen = observer.clone();
        let thread = std::thread::spawn(move || {
            // Dropped at the end of this thread, and with it every connection.
            runtime().block_on(async move {
                let (graceful, shutdown) = oneshot::channel::<()>();
                let serving = server.serve(seen, async move {
                    shutdown.await.unwrap_or(());
                });
                let mut serving = std::pin::pin!(serving);
                tokio::select! {
                    ended = &mut serving => return ended,
                    how = stopped => match how {
                        Ok(How::Dead) => return Ok(()),
                        Ok(How::Gracefully) | Err(_) => drop(graceful),
                    },
                }
                serving.await
            })
        });
        Running { address, observer, stop: Some(stop), thread: Some(thread) }
    }

    /// Ends the server as a crash would: all sockets close at once.
    pub fn kill(mut self) {
        self.end(How::Dead).unwrap();
    }

    /// Ends the server through its shutdown signal.
    pub fn stop(mut self) -> Result<()> {
        self.end(How::Gracefully)
    }

    fn end(&mut self, how: How) -> Result<()> {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(how);
        }
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end(How::Dead);
    }
}
