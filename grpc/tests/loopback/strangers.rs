//! Peers that speak HTTP/2 and no proper gRPC, to the lean stack: it says what is wrong, and goes on
//! where it can.

use std::net::SocketAddr;
use std::slice::from_ref;

use bytes::{BufMut, Bytes, BytesMut};
use fabricbench_grpc::{Client, ConnectOptions, ECHO, Error, FETCH, PUSH, Tuning};
use h2::{RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, Request, Response};

use crate::support::{Running, run};

fn tuning() -> Tuning {
    Tuning::lean(1000, 1).unwrap()
}

fn framed(flag: u8, length: u32, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(flag);
    bytes.put_u32(length);
    bytes.put_slice(payload);
    bytes.freeze()
}

fn status(code: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static(code));
    trailers
}

type Respond = SendResponse<Bytes>;

/// Answers the first call well, which is that of connecting, and every further one with `answer`.
/// Returns what the client's echo came to.
fn echo_from(answer: impl Fn(Respond) + Send + 'static) -> Error {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let mut is_first = true;
            while let Some(Ok((_, respond))) = connection.accept().await {
                match std::mem::take(&mut is_first) {
                    true => good(respond),
                    false => answer(respond),
                }
            }
        });
        let client = Client::connect(&ConnectOptions::new(address), &tuning()).await.unwrap();
        let error = client.echo(Bytes::from_static(b"hello")).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&address.to_string()) && text.contains(ECHO), "{text}");
        serving.abort();
        error
    })
}

fn begin(mut respond: Respond) -> SendStream<Bytes> {
    respond.send_response(Response::new(()), false).unwrap()
}

fn good(respond: Respond) {
    let mut stream = begin(respond);
    stream.send_data(framed(0, 0, &[]), false).unwrap();
    stream.send_trailers(status("0")).unwrap();
}

#[track_caller]
fn assert_says(error: &Error, words: &str) {
    assert!(error.to_string().contains(words), "{words:?} is missing in: {error}");
}

#[test]
fn an_answer_of_headers_only_is_its_status() {
    let error = echo_from(|mut respond| {
        let mut response = Response::new(());
        *response.headers_mut() = status("8");
        response.headers_mut().insert("grpc-message", "no%20more%20room".parse().unwrap());
        respond.send_response(response, true).unwrap();
    });
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert_says(&error, "no more room");
}

#[test]
fn headers_only_that_say_that_all_is_well_bring_no_message() {
    let error = echo_from(|mut respond| {
        let mut response = Response::new(());
        *response.headers_mut() = status("0");
        respond.send_response(response, true).unwrap();
    });
    assert!(matches!(error, Error::Protocol { .. } | Error::Refused { .. }), "{error}");
}

#[test]
fn a_status_after_a_message_counts() {
    let error = echo_from(|respond| {
        let mut stream = begin(respond);
        stream.send_data(framed(0, 5, b"hello"), false).unwrap();
        stream.send_trailers(status("13")).unwrap();
    });
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

#[test]
fn answers_that_are_no_grpc_are_named() {
    type Case = (&'static str, fn(Respond));
    let cases: [Case; 8] = [
        ("404", |mut respond| {
            let mut response = Response::new(());
            *response.status_mut() = http::StatusCode::NOT_FOUND;
            respond.send_response(response, true).unwrap();
        }),
        ("without a gRPC status", |respond| {
            begin(respond).send_data(framed(0, 5, b"hello"), true).unwrap();
        }),
        ("no message", |respond| begin(respond).send_trailers(status("0")).unwrap()),
        ("several messages", |respond| {
            let mut stream = begin(respond);
            stream.send_data(framed(0, 1, b"1"), false).unwrap();
            stream.send_data(framed(0, 1, b"2"), false).unwrap();
            stream.send_trailers(status("0")).unwrap();
        }),
        ("within a message", |respond| {
            let mut stream = begin(respond);
            stream.send_data(framed(0, 5, b"hel"), false).unwrap();
            stream.send_trailers(status("0")).unwrap();
        }),
        ("compression flag", |respond| {
            begin(respond).send_data(framed(9, 5, b"hello"), true).unwrap();
        }),
        ("compressed", |respond| {
            begin(respond).send_data(framed(1, 5, b"hello"), true).unwrap();
        }),
        ("4294967295", |respond| {
            begin(respond).send_data(framed(0, u32::MAX, b"hello"), true).unwrap();
        }),
    ];
    for (words, answer) in cases {
        let error = echo_from(answer);
        assert!(matches!(error, Error::Protocol { .. } | Error::Refused { .. }), "{error}");
        assert_says(&error, words);
    }
}

#[test]
fn a_stream_that_is_reset_is_lost() {
    let error = echo_from(|mut respond| respond.send_reset(h2::Reason::INTERNAL_ERROR));
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
    let error = echo_from(|respond| {
        let mut stream = begin(respond);
        stream.send_data(framed(0, 5, b"hel"), false).unwrap();
        stream.send_reset(h2::Reason::CANCEL);
    });
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
}

/// What a server answers to `frames` sent to `path`: the HTTP status, and gRPC's.
async fn answer_to(
    server: SocketAddr,
    path: &str,
    content_type: &str,
    frames: &[Bytes],
) -> (u16, Option<String>) {
    let stream = tokio::net::TcpStream::connect(server).await.unwrap();
    let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{server}{path}"))
        .header("content-type", content_type)
        .header("te", "trailers")
        .body(())
        .unwrap();
    let (response, mut body) = requests.send_request(request, frames.is_empty()).unwrap();
    for (at, frame) in frames.iter().enumerate() {
        // The server may have said no already.
        let _ = body.send_data(frame.clone(), at + 1 == frames.len());
    }
    let (head, mut reply): (_, RecvStream) = response.await.unwrap().into_parts();
    while reply.data().await.transpose().unwrap().is_some() {}
    let trailers = reply.trailers().await.unwrap().unwrap_or(head.headers);
    let code = trailers.get("grpc-status").map(|code| code.to_str().unwrap().to_owned());
    (head.status.as_u16(), code)
}

#[test]
fn a_server_says_what_a_client_does_wrong_and_serves_on() {
    let server = Running::start(&tuning());
    let one = framed(0, 5, b"hello");
    type Case<'a> = (&'a str, &'a str, &'a [Bytes], (u16, Option<&'a str>));
    let cases: [Case<'_>; 12] = [
        (ECHO, "application/grpc", from_ref(&one), (200, Some("0"))),
        (ECHO, "application/grpc+proto", from_ref(&one), (200, Some("0"))),
        (ECHO, "text/plain", from_ref(&one), (415, None)),
        (ECHO, "application/grpc-web", from_ref(&one), (415, None)),
        ("/fabricbench.Raw/Nothing", "application/grpc", from_ref(&one), (200, Some("12"))),
        (ECHO, "application/grpc", &[], (200, Some("13"))),
        (ECHO, "application/grpc", &[one.clone(), one.clone()], (200, Some("13"))),
        (ECHO, "application/grpc", &[one.slice(..7)], (200, Some("13"))),
        (ECHO, "application/grpc", &[framed(1, 5, b"hello")], (200, Some("12"))),
        (PUSH, "application/grpc", &[framed(0, 1001, &[0; 1001])], (200, Some("11"))),
        (PUSH, "application/grpc", &[one.clone(), framed(7, 0, &[])], (200, Some("13"))),
        (FETCH, "application/grpc", from_ref(&one), (200, Some("3"))),
    ];
    for (path, content_type, frames, (http, grpc)) in cases {
        let answer = run(answer_to(server.address, path, content_type, frames));
        assert_eq!(answer, (http, grpc.map(str::to_owned)), "{path} {content_type} {frames:?}");
    }
    run(async {
        let client = Client::connect(&ConnectOptions::new(server.address), &tuning()).await;
        client.unwrap().echo(Bytes::from_static(b"still there")).await.unwrap();
    });
    server.stop().unwrap();
}

#[test]
fn bytes_that_are_no_http2_end_their_connection_alone() {
    use std::io::{Read as _, Write as _};
    let server = Running::start(&tuning());
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff"]
    {
        let mut stream = std::net::TcpStream::connect(server.address).unwrap();
        let _ = stream.write_all(garbage);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    run(async {
        let client = Client::connect(&ConnectOptions::new(server.address), &tuning()).await;
        client.unwrap().echo(Bytes::from_static(b"still there")).await.unwrap();
    });
}
