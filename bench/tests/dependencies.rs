//! Everything that is built comes from where it should, under licences that allow it, and once: `deny.toml`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

/// What cargo resolves for the platform that is tested, with all features.
fn packages() -> Vec<Value> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version=1", "--all-features"])
        .arg("--filter-platform=x86_64-unknown-linux-gnu")
        .current_dir(root)
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let mut metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let Value::Array(packages) = metadata["packages"].take() else { panic!("no packages") };
    assert!(packages.len() > 100, "{} packages", packages.len());
    packages
}

fn rules() -> toml::Table {
    include_str!("../../deny.toml").parse().unwrap()
}

fn list<'a>(rules: &'a toml::Table, section: &str, key: &str) -> Vec<&'a str> {
    rules[section][key].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap()).collect()
}

fn text<'a>(package: &'a Value, member: &str) -> &'a str {
    package[member].as_str().unwrap_or_default()
}

/// Whether an SPDX expression is satisfied by `allowed`. An exception only adds to what is permitted.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    // An old way to write OR.
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = expression.split_whitespace().collect();
    let mut rest = words.as_slice();
    let holds = any(&mut rest, allowed);
    assert!(rest.is_empty(), "{expression}: cannot be read from {rest:?} on");
    holds
}

fn any(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut holds = all(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        holds |= all(rest, allowed);
    }
    holds
}

fn all(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut holds = one(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        holds &= one(rest, allowed);
    }
    holds
}

fn one(rest: &mut &[&str], allowed: &[&str]) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let holds = any(rest, allowed);
            assert_eq!(rest.first(), Some(&")"), "a bracket is open");
            *rest = &rest[1..];
            holds
        }
        [name, "WITH", _, after @ ..] | [name, after @ ..] => {
            *rest = after;
            allowed.contains(name)
        }
        [] => panic!("a licence is missing"),
    }
}

#[test]
fn licences_sources_and_versions_are_those_of_the_list() {
    let (packages, rules) = (packages(), rules());
    let allowed = list(&rules, "licenses", "allow");
    let denied = list(&rules, "bans", "deny");
    let mut wrong = Vec::new();
    let mut versions = BTreeMap::<&str, Vec<&str>>::new();
    let mut sources = BTreeMap::<&str, &str>::new();
    for package in &packages {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        if licence.is_empty() || !is_allowed(licence, &allowed) {
            wrong.push(format!("{name}: the licence {licence:?} is not in the list"));
        }
        if denied.contains(&name) {
            wrong.push(format!("{name}: is not to be depended on"));
        }
        versions.entry(name).or_default().push(text(package, "version"));
        match text(package, "source") {
            // Of the workspace.
            "" => {}
            source if source.starts_with("registry+") => _ = sources.insert(source, name),
            source => wrong.push(format!("{name}: comes from {source}")),
        }
        for needs in package["dependencies"].as_array().unwrap() {
            if needs["req"] == "*" && needs["path"].is_null() {
                wrong.push(format!("{name}: takes any version of {}", needs["name"]));
            }
        }
    }
    if sources.len() > 1 {
        wrong.push(format!("several registries: {sources:?}"));
    }
    wrong.extend(twice(&versions, &list(&rules, "bans", "skip")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What is there in several versions that are not all, but for one, in `skipped`; and what is in there needlessly.
fn twice(versions: &BTreeMap<&str, Vec<&str>>, skipped: &[&str]) -> Vec<String> {
    let is_of = |version: &str, requirement: &str| {
        version
            .strip_prefix(requirement)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let skips = |name: &str, version: &str| {
        skipped.iter().any(|skip| {
            skip.split_once('@').is_some_and(|(of, old)| of == name && is_of(version, old))
        })
    };
    let mut wrong = Vec::new();
    for (name, versions) in versions {
        let counted = versions.iter().filter(|version| !skips(name, version)).count();
        if counted > 1 {
            wrong.push(format!("{name}: is there in the versions {}", versions.join(", ")));
        }
    }
    for skip in skipped {
        let (name, old) = skip.split_once('@').unwrap();
        let there = versions.get(name).map_or(&[][..], Vec::as_slice);
        if there.len() < 2 || !there.iter().any(|version| is_of(version, old)) {
            wrong.push(format!("{skip}: is skipped, and not there twice any longer"));
        }
    }
    wrong
}

#[test]
fn expressions_are_read_as_spdx_has_them() {
    let allowed = ["MIT", "ISC", "Apache-2.0"];
    for (expression, holds) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("GPL-3.0-only AND MIT", false),
        ("Unlicense/MIT", true),
        ("(GPL-3.0-only OR MIT) AND ISC", true),
        ("(GPL-3.0-only OR MIT) AND Zlib", false),
        ("Zlib OR MIT AND ISC", true),
        ("Apache-2.0 WITH LLVM-exception OR Zlib", true),
    ] {
        assert_eq!(is_allowed(expression, &allowed), holds, "{expression}");
    }
}

#[test]
fn a_second_version_is_told_and_so_is_a_needless_exception() {
    let versions =
        BTreeMap::from([("a", vec!["0.8.1", "0.9.2"]), ("b", vec!["1.0.0"]), ("c", vec!["2.0.0"])]);
    assert_eq!(twice(&versions, &["a@0.8"]), [""; 0]);
    assert_eq!(twice(&versions, &[]).len(), 1);
    assert_eq!(twice(&versions, &["a@0.7"]).len(), 2);
    assert_eq!(twice(&versions, &["a@0.8", "b@1"]).len(), 1);
}
