//! `cloakwork admin usage`.

mod formats;

use clap::ValueEnum;
use cloakwork_client::{Operator, Timestamp};

use super::names;
use crate::{
    failure::Failure,
    output::{print, show},
};

/// Show what tenants used, by day (UTC)
///
/// A job belongs to the day of its end. The time of devices is divided between the jobs that shared
/// a wave. Stored data and keys count by the time for which they were stored: a gigabyte for a day
/// is 24 GB h.
///
/// Examples:
///   cloakwork admin usage
///   cloakwork admin usage --tenant acme --from 2026-01-01 --to 2026-01-31 --format csv
///   cloakwork admin usage --format openmetrics
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Only this tenant.
    #[arg(long, value_parser = names::tenant)]
    tenant: Option<String>,
    /// First day, such as 2026-01-31. Without --from and --to, the last thirty days.
    #[arg(long, value_name = "DAY", value_parser = day)]
    from: Option<String>,
    /// Last day, such as 2026-01-31.
    #[arg(long, value_name = "DAY", value_parser = day)]
    to: Option<String>,
    /// Form of the output. --json is the same as --format json.
    #[arg(long, value_enum)]
    format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table with a row of totals.
    Table,
    /// Comma-separated values under a header (RFC 4180).
    Csv,
    /// A JSON array.
    Json,
    /// OpenMetrics text, with the labels tenant and day.
    Openmetrics,
}

pub(super) async fn run(operator: &Operator, args: Args, json: bool) -> Result<(), Failure> {
    let format = chosen(args.format, json)?;
    let (from, to) = (args.from.unwrap_or_default(), args.to.unwrap_or_default());
    if !from.is_empty() && !to.is_empty() && from > to {
        return Err(Failure::Usage(format!("--from {from} is after --to {to}")));
    }
    let tenant = args.tenant.as_deref().map(names::of_tenant).unwrap_or_default();
    let days = operator.usage(&tenant, &from, &to).await?;
    match format {
        Format::Table => show(false, || unreachable!("a table was asked for"), || formats::table(&days)),
        Format::Json => show(true, || formats::document(&days), String::new),
        Format::Csv => print(&formats::csv(&days)),
        Format::Openmetrics => print(&formats::openmetrics(&days)),
    }
}

fn chosen(format: Option<Format>, json: bool) -> Result<Format, Failure> {
    match (format, json) {
        (None, false) => Ok(Format::Table),
        (None | Some(Format::Json), true) => Ok(Format::Json),
        (Some(format), false) => Ok(format),
        (Some(_), true) => Err(Failure::Usage("--json contradicts --format: leave one of them out".into())),
    }
}

/// Reads a day of the calendar.
fn day(text: &str) -> Result<String, String> {
    let expected = || "expected a day such as 2026-01-31".to_owned();
    let midnight: Timestamp = format!("{text}T00:00:00Z").parse().map_err(|_| expected())?;
    // A day that the month does not have would become another one.
    match text.len() == 10 && midnight.to_string().starts_with(text) {
        true => Ok(text.to_owned()),
        false => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for text in ["1970-01-01", "2026-01-31", "2028-02-29"] {
            assert_eq!(day(text).as_deref(), Ok(text));
        }
        for wrong in ["", "today", "2026-1-31", "2026-02-30", "2027-02-29", "2026-13-01", "31-01-2026", "2026-01-31T"] {
            day(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn json_is_a_format_and_contradicts_the_others() {
        assert_eq!(chosen(None, false).expect("a format"), Format::Table);
        for format in [None, Some(Format::Json)] {
            assert_eq!(chosen(format, true).expect("a format"), Format::Json);
        }
        assert_eq!(chosen(Some(Format::Csv), false).expect("a format"), Format::Csv);
        assert_eq!(chosen(Some(Format::Csv), true).expect_err("a contradiction").exit_code(), 2);
    }
}
