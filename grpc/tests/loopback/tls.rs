//! Over TLS: the certificate that was told is trusted, and no other.

use bytes::Bytes;
use fabricbench_grpc::{
    Client, ConnectOptions, Error, Identity, ListenOptions, Observer, Server, Tuning,
};

use crate::support::{Running, run};

fn server(identity: &Identity, tuning: &Tuning) -> Running {
    let options = ListenOptions::new("127.0.0.1:0".parse().unwrap()).identity(identity.clone());
    Running::start_with(&options, tuning, Observer::new())
}

#[test]
fn messages_pass_and_pushes_are_confirmed() {
    let identity = Identity::generate().unwrap();
    for tuning in [Tuning::stock(5 << 20).unwrap(), Tuning::tuned(5 << 20, 2).unwrap()] {
        let server = server(&identity, &tuning);
        let options = ConnectOptions::new(server.address).certificate(identity.certificate());
        run(async {
            let client = Client::connect(&options, &tuning).await.unwrap();
            for size in [0, 1, 5 << 20] {
                let message = Bytes::from(vec![7; size]);
                assert_eq!(client.echo(message.clone()).await.unwrap(), message);
            }
            let mut push = client.push();
            for _ in 0..100 {
                push.send(Bytes::from(vec![7; 1000])).await.unwrap();
            }
            assert_eq!(push.finish().await.unwrap().messages, 100);
        });
    }
}

#[test]
fn another_certificate_or_none_is_no_connection() {
    let identity = Identity::generate().unwrap();
    let tuning = Tuning::tuned(64, 1).unwrap();
    let server = server(&identity, &tuning);
    let other = Identity::generate().unwrap();
    for options in [
        ConnectOptions::new(server.address).certificate(other.certificate()),
        ConnectOptions::new(server.address).certificate("no certificate"),
        ConnectOptions::new(server.address),
    ] {
        let error = run(Client::connect(&options, &tuning)).unwrap_err();
        assert!(matches!(error, Error::NotThisService { .. }), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    assert!(!format!("{identity:?}").contains("PRIVATE"));
}

#[test]
fn what_the_lean_stack_has_not_is_refused() {
    let lean = Tuning::lean(64, 1).unwrap();
    let identity = Identity::generate().unwrap();
    let listen = ListenOptions::new("127.0.0.1:0".parse().unwrap()).identity(identity.clone());
    let server = server(&identity, &Tuning::tuned(64, 1).unwrap());
    let options = ConnectOptions::new(server.address).certificate(identity.certificate());
    let refusals = [
        Server::bind(&listen, &lean).map(drop),
        run(Client::connect(&options, &lean)).map(drop),
        lean.serialized(true).map(drop),
    ];
    for refused in refusals {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::NotLean { .. }), "{error}");
    }
}
