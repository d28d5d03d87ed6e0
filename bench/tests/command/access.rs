//! Who may use a server: those who share its token, and nobody sees that token.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    thread,
    time::{Duration, Instant},
};

use fabricbench::control::{PROTOCOL, Token, read_frame, write_frame};
use serde_json::{Value, json};

use crate::process::{Finished, PATIENCE, Running, Server, TOKEN, fabricbench};

const SHORT: &str = "--transport tcp@loopback -s 8 -n 1";
const OTHER: &str = "another-token-0123456789";

/// A client of `server` with what its environment holds.
fn client(server: &Server, options: &str, token: &str) -> Finished {
    Running::start(server.client(&format!("{SHORT} {options}")).env("FABRICBENCH_TOKEN", token))
        .end()
}

#[test]
fn a_server_lets_in_who_has_its_token_and_nobody_else() {
    let server = Server::start();
    server.serves();
    let address = server.address.to_string();
    client(&server, "", OTHER).failed(1, &[&address, "the token given is not the one"]);
    client(&server, "", "")
        .failed(1, &[&address, "asks for its token", "FABRICBENCH_TOKEN", "--token-file"]);
    client(&server, "--insecure", TOKEN).failed(1, &[&address, "asks for its token"]);
    for (token, words) in
        [("short", "16 to 256 characters"), ("with spaces in between", "without spaces")]
    {
        client(&server, "", token).failed(1, &["FABRICBENCH_TOKEN", words]);
    }
    for word in ["it has another token", "it has no token"] {
        server.process.says_word(word);
    }
    server.serves();
}

/// The client has the server show the token too: it may be somebody else's.
#[test]
fn a_client_with_a_token_uses_no_server_without() {
    let server = Server::open();
    let address = server.address.to_string();
    let without = format!("run {address} {SHORT}");
    Running::start(&mut fabricbench(&without))
        .end()
        .failed(1, &[&address, "does not show", "--insecure"]);
    server.serves();
    // On loopback nobody is asked for what was not set up.
    let server =
        Server::by(fabricbench("serve --port 0 --listen 127.0.0.1").env("FABRICBENCH_TOKEN", ""));
    client(&server, "", "").quietly(0);
}

#[test]
fn a_server_beyond_loopback_makes_a_token_and_says_it() {
    let mut serve = fabricbench("serve --port 0");
    let server = Server::by(serve.env("FABRICBENCH_TOKEN", ""));
    let line = server.process.prints(|text| text.lines().nth(1).map(str::to_owned));
    let token = line.rsplit('=').next().unwrap();
    assert!(Token::parse(token).is_ok() && line.contains("FABRICBENCH_TOKEN="), "{line}");
    let port = server.address.port();
    let run = |token| {
        let mut command = fabricbench(&format!("run 127.0.0.1:{port} {SHORT}"));
        Running::start(command.env("FABRICBENCH_TOKEN", token)).end()
    };
    run("").failed(1, &["asks for its token"]);
    run(token).quietly(0);
    // Only who says so does without.
    let server = Server::with("--insecure");
    assert_ne!(server.address.port(), port);
    let mut command =
        fabricbench(&format!("run 127.0.0.1:{} {SHORT} --insecure", server.address.port()));
    Running::start(&mut command).end().quietly(0);
}

#[test]
fn a_token_may_be_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(&file, format!("{OTHER}\n")).unwrap();
    mode(0o600);
    let server = Server::with(&format!("--listen 127.0.0.1 --token-file {}", file.display()));
    let with_file = format!("--token-file {}", file.display());
    client(&server, &with_file, "").quietly(0);
    // What is named comes before what is set.
    client(&server, &with_file, TOKEN).quietly(0);
    client(&server, "", OTHER).quietly(0);
    mode(0o644);
    let warned = client(&server, &with_file, "");
    assert_eq!(warned.code, Some(0), "{warned:?}");
    assert!(warned.stderr.contains("open to all users; chmod 600"), "{warned:?}");
    mode(0o600);
    for (content, words) in
        [("", "16 to 256 characters, not 0"), ("two\nlines of a file\n", "in one line")]
    {
        fs::write(&file, content).unwrap();
        client(&server, &with_file, "").failed(1, &[&file.display().to_string(), words]);
    }
    fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    client(&server, &with_file, "").failed(1, &["16 to 256 characters"]);
    fs::write(&file, [0xff; 40]).unwrap();
    client(&server, &with_file, "").failed(1, &["cannot read the token file"]);
    fs::remove_file(&file).unwrap();
    client(&server, &with_file, "")
        .failed(1, &["cannot read the token file", "openssl rand -hex 16"]);

    // The usual place, which both sides look at.
    let usual = folder.path().join("fabricbench");
    fs::create_dir(&usual).unwrap();
    fs::write(usual.join("token"), OTHER).unwrap();
    fs::set_permissions(usual.join("token"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = server.client(SHORT);
    command.env("FABRICBENCH_TOKEN", "").env("XDG_CONFIG_HOME", folder.path());
    Running::start(&mut command).end().quietly(0);
}

/// Neither the list of processes, nor a log, nor a result has it.
/// A pipe would hold whoever reads it until somebody writes to it.
#[test]
fn what_is_no_regular_file_holds_no_token_and_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("token");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for place in [&*pipe, folder.path(), std::path::Path::new("/dev/null")] {
        let place = place.display();
        for command in [
            format!("run 127.0.0.1:1 {SHORT} --token-file {place}"),
            format!("run {SHORT} --token-file {place}"),
        ] {
            let ended = Running::start(&mut fabricbench(&command)).end();
            let ended = ended.one_line(&["no regular file"]);
            assert!(!ended.stderr.contains("chmod"), "{ended:?}");
        }
    }
    // Where nobody named it, it is nothing to who needs none.
    let by_default = |command: &str| {
        let mut command = fabricbench(command);
        command.env("FABRICBENCH_TOKEN", "").env("XDG_CONFIG_HOME", folder.path().join("token"));
        command
    };
    fs::remove_file(&pipe).unwrap();
    fs::write(&pipe, "not a directory").unwrap();
    let server = Server::by(&mut by_default("serve --port 0 --listen 127.0.0.1"));
    let run = format!("run 127.0.0.1:{} {SHORT}", server.address.port());
    Running::start(&mut by_default(&run)).end().quietly(0);
    let words = &["Not a directory", "nobody named this file", "--insecure"];
    Running::start(&mut by_default("serve --port 0")).end().failed(1, words);
    let mut command = fabricbench("serve --port 0");
    let no_text = std::os::unix::ffi::OsStrExt::from_bytes(&[0xff; 20]);
    let no_text: &std::ffi::OsStr = no_text;
    Running::start(command.env("FABRICBENCH_TOKEN", no_text)).end().failed(1, &["it is no text"]);
}

#[test]
fn a_token_is_seen_nowhere() {
    let server = Server::start();
    let mut long = server.client(
        "--transport tcp@loopback,grpc@loopback -s 8 -D 600ms --format json --progress lines",
    );
    let running = Running::start(&mut long);
    server.process.says_word("testing");
    for process in [running.id(), server.process.id()] {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&line).contains(TOKEN));
    }
    let finished = running.end();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let wrong = client(&server, "", OTHER);
    server.process.signal(rustix::process::Signal::TERM);
    let served = server.process.end();
    for said in [&finished.stdout, &finished.stderr, &wrong.stderr, &served.stdout, &served.stderr]
    {
        assert!(!said.contains(TOKEN) && !said.contains(OTHER), "{said}");
    }
}

/// Greets, and hears the challenge.
fn knock(server: &Server) -> (TcpStream, Value) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("fabricbench-control {PROTOCOL} 0\n").as_bytes()).unwrap();
    let mut byte = [0];
    while byte[0] != b'\n' {
        stream.read_exact(&mut byte).unwrap();
    }
    let challenge = read_frame(&mut stream).unwrap();
    (stream, challenge)
}

#[test]
fn what_another_client_showed_is_worth_nothing() {
    let server = Server::start();
    // Between a client and the server, passing on what each says, and keeping the client's claim.
    let between = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = between.local_addr().unwrap();
    let to = server.address;
    let overheard = thread::spawn(move || {
        let (mut client, _) = between.accept().unwrap();
        let mut server = TcpStream::connect(to).unwrap();
        let mut back = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let back = thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
        let mut byte = [0];
        while byte[0] != b'\n' {
            client.read_exact(&mut byte).unwrap();
            server.write_all(&byte).unwrap();
        }
        let claim: Value = read_frame(&mut client).unwrap();
        write_frame(&mut server, &claim).unwrap();
        let _ = std::io::copy(&mut client, &mut server);
        let _ = server.shutdown(std::net::Shutdown::Both);
        let _ = back.join();
        claim
    });
    Running::start(&mut fabricbench(&format!("run {address} {SHORT}"))).end().quietly(0);
    let claim = overheard.join().unwrap();
    assert_eq!(claim["proof"].as_str().unwrap().len(), 44, "{claim}");
    assert!(!claim.to_string().contains(TOKEN));
    let (mut stream, challenge) = knock(&server);
    assert_eq!(challenge["token"], true);
    write_frame(&mut stream, &claim).unwrap();
    assert_eq!(read_frame::<Value>(&mut stream).unwrap(), json!({ "denied": "other-token" }));
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    server.serves();
}

#[test]
fn who_has_shown_no_token_gets_no_further() {
    let server = Server::start();
    let claims: [&[u8]; 6] = [
        b"\0\0\0\x02{}",
        b"\0\0\0\x03{]}",
        b"\xff\xff\xff\xff",
        // Within the limit of those who have been let in.
        b"\0\x10\0\0",
        br#"    {"nonce":"00","proof":null}"#,
        b"\0\0\0\x07\"alive\"",
    ];
    for claim in claims {
        let (mut stream, _) = knock(&server);
        stream.write_all(claim).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains("admitted"), "{rest:?}");
    }
    // A byte a second is no way to stay.
    let (mut slow, _) = knock(&server);
    slow.write_all(b"\0\0\x03\xe8").unwrap();
    let since = Instant::now();
    while slow.write_all(b" ").is_ok() {
        assert!(since.elapsed() < PATIENCE, "it may stay for ever");
        thread::sleep(Duration::from_secs(1));
    }
    server.process.says_word("greeted, and said no more within 5s");
    server.serves();
}
