//! What a server shows of itself to those who watch it: whether it is well, by the gRPC Health Checking
//! Protocol, and the same with its figures over HTTP, on one port.
//!
//! `grpc.health.v1.Health` answers for the whole server (the empty name); `GET /health` is 200 or 503, and
//! `GET /metrics` OpenMetrics text. It runs on a thread of its own, which sleeps until somebody asks.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::{Semaphore, watch},
    time::sleep,
};
use tonic::{body::Body, codegen::Service as _};
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::health_reporter,
};

/// Connections at once; who comes then is closed.
const MOST_CONNECTIONS: usize = 32;

/// Time until the first request of a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a peer that watches is asked whether it is there, and how long it has to say so.
const PING: Duration = Duration::from_secs(20);

/// Pause after a failed accept. Without it a process out of file descriptors would spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The media type of "OpenMetrics 1.0".
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A server's figures as OpenMetrics text.
type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Shows a server until it is dropped.
#[derive(Debug)]
pub struct StatusServer {
    address: SocketAddr,
    serving: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl StatusServer {
    /// Listens on `address`, and shows a server that is well and has the figures of `metrics`.
    ///
    /// # Errors
    /// The address is not to be had, or there is no thread.
    pub fn start(
        address: SocketAddr,
        metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (serving, watched) = watch::channel(true);
        let thread = thread::Builder::new()
            .name("status".to_owned())
            .spawn(move || runtime.block_on(show(listener, Arc::new(metrics), watched)))?;
        Ok(Self { address, serving: Some(serving), thread: Some(thread) })
    }

    /// Where it listens; the port is the real one where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on the server takes no more work.
    pub fn close(&self) {
        if let Some(serving) = &self.serving {
            serving.send_replace(false);
        }
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        drop(self.serving.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Until the sender of `serving` is gone.
async fn show(listener: TcpListener, metrics: Metrics, mut serving: watch::Receiver<bool>) {
    let (reporter, health) = health_reporter();
    reporter.set_service_status("", ServingStatus::Serving).await;
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        tokio::select! {
            changed = serving.changed() => match changed {
                Ok(()) => {
                    let status = match *serving.borrow_and_update() {
                        true => ServingStatus::Serving,
                        false => ServingStatus::NotServing,
                    };
                    reporter.set_service_status("", status).await;
                }
                Err(_) => return,
            },
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let Ok(place) = places.clone().try_acquire_owned() else { continue };
                    let shown = Shown { metrics: metrics.clone(), serving: serving.clone() };
                    let answering = answer_all(stream, health.clone(), shown);
                    tokio::spawn(async move {
                        answering.await;
                        drop(place);
                    });
                }
                Err(_) => sleep(ACCEPT_RETRY).await,
            },
        }
    }
}

#[derive(Clone)]
struct Shown {
    metrics: Metrics,
    serving: watch::Receiver<bool>,
}

/// One connection, HTTP/1.1 or HTTP/2 as it begins.
async fn answer_all(stream: TcpStream, health: HealthServer<impl Health>, shown: Shown) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PATIENCE)
        .max_concurrent_streams(8);
    let asked = Arc::new(AtomicBool::new(false));
    let service = TowerToHyperService::new(tower::service_fn({
        let asked = asked.clone();
        move |request| {
            asked.store(true, Ordering::Relaxed);
            answer(request, health.clone(), shown.clone())
        }
    }));
    tokio::select! {
        // Whatever ended it is the peer's to know.
        _ = builder.serve_connection(TokioIo::new(stream), service) => {}
        // Which protocol it is shows in its first bytes, and hyper waits for them without end.
        () = async {
            sleep(PATIENCE).await;
            if asked.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        } => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    mut health: HealthServer<impl Health>,
    shown: Shown,
) -> Result<Response<Body>, Infallible> {
    if request.uri().path().starts_with("/grpc.health.v1.Health/") {
        return health.call(request.map(Body::new)).await;
    }
    let is_serving = *shown.serving.borrow();
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            text(StatusCode::OK, OPENMETRICS, (shown.metrics)())
        }
        (&Method::GET | &Method::HEAD, "/health") if is_serving => {
            text(StatusCode::OK, "text/plain", "serving\n".to_owned())
        }
        (&Method::GET | &Method::HEAD, "/health") => {
            text(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "stopping\n".to_owned())
        }
        (_, "/metrics" | "/health") => {
            text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".to_owned())
        }
        _ => text(
            StatusCode::NOT_FOUND,
            "text/plain",
            "there are /metrics, /health and grpc.health.v1.Health\n".to_owned(),
        ),
    })
}

fn text(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
