//! Findings on a terminal: what is wrong in the first lines.

use std::fmt::Write as _;

use super::finding::{Finding, Severity};
use crate::report::plain;

/// In words: a line of counts, then each problem and each advice with its reason and its remedy. What is
/// the same of several things is told once.
#[must_use]
pub fn brief(findings: &[Finding]) -> String {
    let mut text = summary(findings);
    for severity in [Severity::Problem, Severity::Advice] {
        for group in groups(findings, severity) {
            entry(&mut text, &group);
        }
    }
    text
}

/// As [`brief`], and then in a line each what could not be told and what is fine.
#[must_use]
pub fn text(findings: &[Finding]) -> String {
    let mut text = brief(findings);
    for severity in [Severity::Unknown, Severity::Fine] {
        let groups = groups(findings, severity);
        if !groups.is_empty() {
            let _ = writeln!(text, "\n{}", severity.as_str());
        }
        for Group { first, subjects, .. } in groups {
            let _ = writeln!(
                text,
                "  {:15} {}: {}",
                first.check.name(),
                plain(&subjects.join(", ")),
                plain(&first.seen)
            );
        }
    }
    text
}

/// Findings that differ in their subject alone, and in where it was read.
struct Group<'a> {
    first: &'a Finding,
    subjects: Vec<&'a str>,
}

/// Those of a severity, in the order of their first ones.
fn groups(findings: &[Finding], severity: Severity) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let key = |one: &Finding| (one.check, one.seen.clone(), one.matters.clone(), one.mend.clone());
    for finding in findings.iter().filter(|finding| finding.severity == severity) {
        match groups.iter_mut().find(|group| key(group.first) == key(finding)) {
            Some(group) => group.subjects.push(&finding.subject),
            None => groups.push(Group { first: finding, subjects: vec![&finding.subject] }),
        }
    }
    groups
}

/// `2 problems, 1 advice, 3 unknown, 9 fine`.
fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|one| one.severity == severity).count();
    let problems = count(Severity::Problem);
    format!(
        "{problems} problem{}, {} advice, {} unknown, {} fine\n",
        if problems == 1 { "" } else { "s" },
        count(Severity::Advice),
        count(Severity::Unknown),
        count(Severity::Fine)
    )
}

fn entry(text: &mut String, Group { first, subjects }: &Group<'_>) {
    let Finding { severity, check, seen, source, matters, mend, .. } = first;
    let mark = match severity {
        Severity::Problem => "PROBLEM",
        _ => severity.as_str(),
    };
    let subjects = subjects.join(", ");
    let _ = writeln!(text, "\n{mark:8} {}: {} [{}]", plain(&subjects), plain(seen), check.name());
    let lines = [("why", matters.as_ref()), ("mend", mend.as_ref()), ("seen in", Some(source))];
    for (word, line) in lines {
        if let Some(line) = line {
            let _ = writeln!(text, "         {word:8} {}", plain(line));
        }
    }
}
