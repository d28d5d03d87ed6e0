//! Calls at a rate over RDMA: they begin on a schedule, and are timed from it.

use std::{thread, time::Duration};

use rustix::process::Signal;

use crate::{
    document::{Document, measured, number},
    pair::{client, device, run, server},
};

const EVERY: &str = "verbs-write,verbs-write-imm,verbs-send,verbs-send-imm";

/// The guest is slow: so few calls a second are borne there also while the machine has other work.
const RATE: f64 = 30.0;

#[test]
fn a_rate_that_is_borne_over_verbs_is_what_is_measured() {
    let Some(_device) = device() else { return };
    let server = server();
    for (rest, bound, arrivals) in [
        ("", 1024, "constant"),
        ("--arrivals poisson -t 16 --threads 2", 32, "poisson"),
        ("-e -t 64", 64, "constant"),
    ] {
        let options = format!(
            "--transport {EVERY} --pattern calls --rate {RATE} -s 64 --reply-size 300 -n 40 --rounds 1 {rest}"
        );
        for cell in run(&server, &options, 0).cells() {
            measured(cell);
            let load = &cell["load"];
            assert_eq!((&load["arrivals"], &load["bound"]), (&arrivals.into(), &bound.into()));
            assert_eq!((&load["held_back"], &load["given_up"]), (&0.into(), &0.into()), "{cell}");
            assert_eq!(cell["latency"]["samples"], 40);
            assert_eq!(cell["latency"]["kind"], "round-trip");
            assert_eq!(number(&load["offered_per_s"]), RATE);
            // Of a Poisson process so few vary by their root, of two threads each by its own.
            if arrivals == "constant" {
                let achieved = number(&load["achieved_per_s"]) / RATE;
                assert!((0.5..1.001).contains(&achieved), "{cell}");
            }
        }
    }
}

#[test]
fn a_sweep_of_rates_has_verbs_beside_tcp() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-send,tcp@ethernet --pattern calls --sweep rate=20,40 -s 64 -n 20 --rounds 1";
    let document = run(&server, options, 0);
    let loads: Vec<_> =
        document.cells().iter().map(|cell| number(&cell["load"]["offered_per_s"])).collect();
    assert_eq!(loads, [20.0, 40.0, 20.0, 40.0]);
}

/// For a part of the run the server stands still: calls go on to be due, and all of them are late.
#[test]
fn calls_over_verbs_are_late_while_the_server_is_stopped() {
    let Some(_device) = device() else { return };
    for transport in ["verbs-write", "verbs-send"] {
        let server = server();
        let options = format!(
            "--transport {transport} --pattern calls -s 64 --rate {RATE} -n 200 --rounds 1"
        );
        let client = client(&server, &options);
        server.process.says_word("testing");
        thread::sleep(Duration::from_millis(3000));
        server.process.signal(Signal::STOP);
        thread::sleep(Duration::from_millis(1500));
        server.process.signal(Signal::CONT);
        let document = Document::read(&client.end().quietly(0).stdout);
        let cell = &document.cells()[0];
        assert_eq!(cell["latency"]["samples"], 200);
        // Some 45 of 200 calls are late by half of the longest in the mean; a closed loop would have one.
        let (mean, max) = (number(&cell["latency"]["mean"]), number(&cell["latency"]["max"]));
        assert!(mean > max / 20.0, "{cell}");
        assert!(number(&cell["load"]["most_in_flight"]) > 15.0, "{cell}");
    }
}

#[test]
fn a_search_over_verbs_has_its_rates_and_what_they_show() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-write,verbs-send --pattern calls -s 64 --rate search --rounds 1 --timeout 30s";
    let document = run(&server, options, 0);
    document.cells().iter().for_each(measured);
    let knees = document.0["knees"].as_array().unwrap();
    assert_eq!(knees.len(), 2);
    for knee in knees {
        assert!(number(&knee["capacity_per_s"]) > 0.0 && knee["closed_depth"] == 128, "{knee}");
        // What else runs beside the guest decides how much it bears.
        assert!(knee["knee_per_s"].is_number() || knee["reason"].is_string(), "{knee}");
        let rates = document.cells().iter();
        let rates =
            rates.filter(|cell| cell["transport"] == knee["transport"] && !cell["load"].is_null());
        assert!(rates.count() >= 10, "{knee}");
    }
}
