//! What a run says of all sizes together: words that agree with the figures.

use std::fs;

use crate::{
    document::{Document, number},
    process::run,
};

/// TCP by one system call against gRPC, which does all of that and more: who is ahead is no question.
#[test]
fn words_under_the_table_agree_with_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let plan = "run --transport tcp@loopback,grpc@loopback --pattern latency,bandwidth -s 64,1K,16K,256K -D 200ms \
                --rounds 5";
    let table = run(&format!("{plan} -o {}", path.display())).quietly(0).stdout;
    let document = Document::read(&fs::read_to_string(&path).unwrap());
    let model = &document.0["model"];
    assert_eq!(model["fits"].as_array().unwrap().len(), 4, "{model}");
    let leads = model["leads"].as_array().unwrap();
    for lead in leads {
        let pattern = lead["pattern"].as_str().unwrap();
        assert!(table.contains(&format!("\n{pattern}: ")), "{pattern} in {table}");
        for margin in lead["margins"].as_array().into_iter().flatten() {
            let ahead = lead["ahead"][0]["transport"].as_str().unwrap();
            let next = margin["next"]["transport"].as_str().unwrap();
            let size = margin["size"].as_u64().unwrap();
            let time = |transport: &str| {
                let cell = document.cell(transport, pattern, size);
                match pattern {
                    "latency" => number(&cell["latency"]["p50"]),
                    _ => 1e9 / number(&cell["throughput"]["messages_per_s"]),
                }
            };
            let ratio = number(&margin["ratio"]);
            assert!((time(next) / time(ahead) / ratio - 1.0).abs() < 1e-9, "{margin}");
            assert!(ratio > 1.0 && number(&margin["interval_95"][0]) > 1.0, "{margin}");
        }
    }
    // At the smallest size a round trip of gRPC is a multiple of that of TCP, however busy the machine is.
    let first = leads.iter().find(|lead| lead["pattern"] == "latency").unwrap();
    let names: Vec<_> =
        first["ahead"].as_array().unwrap().iter().map(|of| &of["transport"]).collect();
    assert!(names.iter().any(|name| **name == "tcp@loopback"), "{first}");

    let copies = &document.0["client"]["memory_copy"];
    assert!(number(&copies["blocks"][0]["bytes_per_s"]) > 0.0, "{copies}");
    let efficiencies = model["efficiencies"].as_array().unwrap();
    assert_eq!(efficiencies.len(), 2, "{model}");
    for of in efficiencies {
        assert!(of["bound"] == "memory-copy" && of["pattern"] == "bandwidth", "{of}");
        for share in of["sizes"].as_array().unwrap() {
            let transport = of["transport"].as_str().unwrap();
            let cell = document.cell(transport, "bandwidth", share["size"].as_u64().unwrap());
            let reached = number(&cell["throughput"]["bytes_per_s"]);
            let part = reached / number(&share["bound_bytes_per_s"]);
            assert!((part / number(&share["share"]) - 1.0).abs() < 1e-9, "{share}");
        }
    }
    assert!(
        table.contains("\nbandwidth by what one thread copies in this host's memory: "),
        "{table}"
    );

    // Also of a file that an earlier version wrote, which has no such section.
    let mut old = document.0.clone();
    old.as_object_mut().unwrap().remove("model");
    fs::write(&path, old.to_string()).unwrap();
    let page = folder.path().join("page.html");
    run(&format!("report {} -o {} --quiet", path.display(), page.display())).quietly(0);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Who is ahead") && page.contains("Start-up and cost of a byte"));
    for words in
        table.lines().filter(|line| line.contains(" is ahead ") || line.contains(" passes "))
    {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_long_format_has_the_fits_and_a_run_of_one_size_has_none() {
    let plan = "run --transport tcp@loopback --pattern latency -n 600 --format long -s";
    let fitted = run(&format!("{plan} 64,1K,16K")).quietly(0).stdout;
    assert!(fitted.contains("start-up us") && fitted.contains("64 B..16 KiB"), "{fitted}");
    let single = run(&format!("{plan} 64")).quietly(0).stdout;
    assert!(!single.contains("start-up us") && !single.contains(" is ahead "), "{single}");
}
