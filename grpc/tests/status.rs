//! How a server is, as those see it who ask by the gRPC Health Checking Protocol.

use fabricbench_grpc::StatusServer;
use tonic::{Code, transport::Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

fn asked(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn health_is_told_when_asked_and_when_it_changes() {
    let server = StatusServer::start("127.0.0.1:0".parse().unwrap(), String::new).unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    let checked = client.check(asked("")).await.unwrap().into_inner();
    assert_eq!(checked.status(), ServingStatus::Serving);
    assert_eq!(client.check(asked("other")).await.unwrap_err().code(), Code::NotFound);
    let mut watched = client.watch(asked("")).await.unwrap().into_inner();
    let mut next = async || watched.message().await.unwrap().unwrap().status();
    assert_eq!(next().await, ServingStatus::Serving);
    server.close();
    assert_eq!(next().await, ServingStatus::NotServing);
    let checked = client.check(asked("")).await.unwrap().into_inner();
    assert_eq!(checked.status(), ServingStatus::NotServing);
    // It ends although somebody watches.
    tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
    assert!(watched.message().await.is_err());
}
