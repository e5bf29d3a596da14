use std::{collections::BTreeSet, fs, path::Path};

use super::*;

/// Pages on errors that the client raises itself.
const CLIENT_PAGES: [&str; 2] = ["ANCHOR_MISSING.md", "EVALUATION_KEY_UNKNOWN.md"];

#[test]
fn every_reason_has_a_page_and_every_page_a_reason() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors");
    let on_disk: BTreeSet<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    let in_table: BTreeSet<String> = REASONS.iter().map(|reason| format!("{}.md", reason.code)).collect();
    assert_eq!(in_table.len(), REASONS.len(), "a code has two rows");
    let in_table = &in_table | &CLIENT_PAGES.map(str::to_owned).into();
    assert_eq!(on_disk, in_table, "docs/errors and the table of reasons differ");
    for reason in REASONS {
        let page = fs::read_to_string(pages.join(format!("{}.md", reason.code))).unwrap();
        assert!(page.starts_with(&format!("# {}\n", reason.code)), "{}: title", reason.code);
        let line = format!("gRPC code: `{}`", code_name(reason.grpc));
        assert!(page.lines().any(|found| found == line), "{}: no line '{line}'", reason.code);
        for heading in ["## What happened", "## What to do", "## For operators"] {
            let text = page.split(heading).nth(1).unwrap_or_else(|| panic!("{}: no '{heading}'", reason.code));
            let body = text.split("\n## ").next().unwrap().trim();
            assert!(body.len() > 40, "{}: '{heading}' says nothing", reason.code);
        }
    }
}

#[test]
fn codes_have_the_format_of_error_info() {
    for reason in REASONS {
        assert!(reason.code.len() <= 63, "{}", reason.code);
        assert!(reason.code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{}", reason.code);
        assert!(!reason.advice.ends_with('.') && reason.advice.len() > 10, "{}", reason.code);
        assert_ne!(reason.grpc, Code::Ok);
        assert_eq!(Reason::named(reason.code), Some(*reason));
    }
    assert_eq!(Reason::named("NO_SUCH_REASON"), None);
}

#[test]
fn a_status_carries_every_detail() {
    let status: Status = TENANT_QUEUE_FULL
        .error("100 jobs are queued, which is the limit")
        .with("limit", 100)
        .retry_after(Duration::from_millis(1500))
        .quota("tenants/acme", "100 queued jobs")
        .field("spec.rows", "too many")
        .into();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("100 jobs are queued, which is the limit. Wait for"), "{}", status.message());
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("TENANT_QUEUE_FULL", "cloakwork"));
    assert_eq!(info.metadata["limit"], "100");
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(Duration::from_millis(1500)));
    let quota = &details.quota_failure().unwrap().violations[0];
    assert_eq!((quota.subject.as_str(), quota.description.as_str()), ("tenants/acme", "100 queued jobs"));
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, "spec.rows");
}

#[test]
fn a_status_without_details_has_only_the_reason() {
    let status: Status = KEY_NOT_FOUND.error("no key 00ff").into();
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "KEY_NOT_FOUND");
    assert!(details.retry_info().is_none() && details.bad_request().is_none() && details.quota_failure().is_none());
}

#[test]
fn the_largest_error_still_fits_into_a_header() {
    let mut error =
        NAME_INVALID.error("é".repeat(100_000)).with("name", "é".repeat(100_000)).quota("é".repeat(9999), "é");
    for index in 0..1000 {
        error = error.field(format!("field{index}"), "x".repeat(5000));
    }
    let status: Status = error.into();
    assert_eq!(status.get_error_details().bad_request().unwrap().field_violations.len(), FIELDS_MAX);
    let mut headers = http::HeaderMap::new();
    status.add_header(&mut headers).unwrap();
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    assert!(bytes < 15_000, "{bytes} bytes of headers");
}
