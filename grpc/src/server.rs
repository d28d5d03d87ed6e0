//! The server: a listening socket of ours under tonic's HTTP/2 server, or under the lean one.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::door::{Door, TurnedAway};
use crate::error::{Error, Result};
use crate::incoming::Incoming;
use crate::lean;
use crate::observer::Observer;
use crate::service::{RawService, Shared};
use crate::socket::{self, Binding, ListenOptions};
use crate::tls::Identity;
use crate::tuning::{Profile, Tuning};

/// Time that calls under way have to finish after the shutdown signal; then their connections are
/// closed.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// A server that listens, but does not serve yet: connections wait in the backlog.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    binding: Binding,
    tuning: Tuning,
    identity: Option<Identity>,
    door: Option<Door<TcpStream>>,
}

impl Server {
    /// Listens. Needs no runtime.
    ///
    /// # Errors
    /// [`Error::Listen`], [`Error::NoSuchInterface`], [`Error::InvalidInterfaceName`],
    /// [`Error::BindDevice`], [`Error::NotLean`].
    pub fn bind(options: &ListenOptions, tuning: &Tuning) -> Result<Server> {
        if tuning.profile() == Profile::Lean && options.identity.is_some() {
            return Err(Error::NotLean { what: "TLS" });
        }
        let (listener, binding) = socket::listen(options)?;
        let address = listener.local_addr().map_err(|cause| Error::Listen {
            address: options.address,
            interface: options.interface.clone(),
            cause,
        })?;
        let identity = options.identity.clone();
        let door = options.door.clone().map(|(key, places)| Door::new(key, places));
        Ok(Server { listener, address, binding, tuning: tuning.clone(), identity, door })
    }

    /// Address and port it listens on; the port is the real one where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What ties the listening socket, and each accepted one, to an interface.
    pub fn binding(&self) -> &Binding {
        &self.binding
    }

    /// Who is not let in, where a key is asked for.
    pub fn turned_away(&self) -> Option<TurnedAway> {
        self.door.as_ref().map(Door::turned_away)
    }

    /// Serves until `shutdown` resolves; then gives the calls under way [`SHUTDOWN_GRACE`], and
    /// closes every connection.
    ///
    /// Runs on any tokio runtime with time and I/O enabled; a current-thread one is enough and has
    /// the lowest latency. If the returned future is dropped, connections live on until their
    /// runtime is dropped.
    ///
    /// # Errors
    /// [`Error::Serve`] if tokio cannot take the socket over, or tonic gives up.
    pub async fn serve(
        self,
        observer: Arc<Observer>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        let address = self.address;
        let failed = |detail: String| Error::Serve { address, detail };
        let listener =
            TcpListener::from_std(self.listener).map_err(|error| failed(error.to_string()))?;
        let sealed = self.identity.is_some();
        let incoming =
            Incoming::new(listener, self.door, self.tuning.clone(), observer.clone(), sealed);
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            // An error means that `stop` is gone, which is a reason to stop as well.
            let _ = stopped.await;
        };
        let shared = Arc::new(Shared { observer: observer.clone(), tuning: self.tuning });
        let mut serving = pin!(async {
            match shared.tuning.profile() {
                Profile::Lean => {
                    lean::serve(incoming, shared, stopped).await;
                    Ok(())
                }
                Profile::Stock | Profile::Tuned => {
                    serve_tonic(incoming, shared, self.identity.as_ref(), stopped).await
                }
            }
        });
        tokio::select! {
            ended = &mut serving => return ended.map_err(|error| failed(error.to_string())),
            () = shutdown => {}
        }
        // The receiver is gone only if `serving` has ended by itself.
        let _ = stop.send(());
        let ended = match timeout(SHUTDOWN_GRACE, &mut serving).await {
            Ok(ended) => ended,
            Err(_) => {
                observer.shut_down_connections();
                serving.await
            }
        };
        ended.map_err(|error| failed(error.to_string()))
    }
}

async fn serve_tonic(
    incoming: Incoming,
    shared: Arc<Shared>,
    identity: Option<&Identity>,
    stopped: impl Future<Output = ()>,
) -> std::result::Result<(), tonic::transport::Error> {
    let mut builder = tonic::transport::Server::builder();
    if let Some(http2) = shared.tuning.http2() {
        builder = builder
            .initial_stream_window_size(http2.window)
            .initial_connection_window_size(http2.connection_window)
            .max_frame_size(http2.frame);
    }
    if let Some(identity) = identity {
        builder = builder.tls_config(identity.server())?;
    }
    builder.serve_with_incoming_shutdown(RawService::new(shared), incoming, stopped).await
}
