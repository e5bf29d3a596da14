//! `cloakwork uploads`.

use cloakwork_client::{Client, proto::Upload};
use cloakwork_clock::Clock;
use futures_util::TryStreamExt as _;
use serde_json::{Value, json};

use crate::{
    context::Context,
    failure::Failure,
    output::{Table, bytes, show},
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the unfinished uploads of all the tenant's clients.
    ///
    /// Each upload takes one of the places that the tenant has for open uploads. Its whole size
    /// counts against the tenant's bytes.
    Ls,
    /// Abort uploads: delete the bytes received so far. Their places and bytes are free at once.
    ///
    /// Stop the client first. A client that is sending the upload fails. A client that retries, or
    /// that is between two attempts, begins the upload again. Stored ciphertexts and keys stay, and
    /// so do results that workers hand in.
    Abort {
        /// Id or resource name of the upload.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        upload: Option<String>,
        /// Abort all open uploads of the tenant.
        #[arg(long)]
        all: bool,
    },
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let client = context.connect().await?;
    let json = context.global.json;
    match command {
        Command::Ls => list(&client, json).await,
        Command::Abort { upload: Some(upload), .. } => abort(&client, vec![name(&client, upload).await?], json).await,
        Command::Abort { upload: None, .. } => {
            let uploads: Vec<Upload> = client.uploads().try_collect().await?;
            abort(&client, uploads.into_iter().map(|upload| upload.name).collect(), json).await
        }
    }
}

async fn list(client: &Client, json: bool) -> Result<(), Failure> {
    let uploads: Vec<Upload> = client.uploads().try_collect().await?;
    let table = || {
        let now_seconds = Clock::system().unix_micros() / 1_000_000;
        let mut table = Table::new(["upload", "received", "size", "expires", "blob"]);
        for upload in &uploads {
            table.row([
                upload.name.rsplit('/').next().unwrap_or_default().to_owned(),
                bytes(upload.committed_bytes),
                bytes(size(upload)),
                expires(upload.expire_time.as_ref().map_or(0, |time| time.seconds), now_seconds),
                blob(upload),
            ]);
        }
        table.render()
    };
    show(json, || json!({ "uploads": uploads.iter().map(document).collect::<Vec<_>>() }), table)
}

async fn abort(client: &Client, names: Vec<String>, json: bool) -> Result<(), Failure> {
    for name in &names {
        client.abort_upload(name).await?;
    }
    // The server does not say which uploads were open. An upload that had ended, or is a worker's
    // result, is not an error.
    let text = || names.iter().map(|name| format!("{name}: aborted, or not open to an abort\n")).collect();
    show(json, || json!({ "aborted": names }), text)
}

async fn name(client: &Client, upload: String) -> Result<String, Failure> {
    if upload.contains('/') { Ok(upload) } else { Ok(format!("tenants/{}/uploads/{upload}", client.tenant().await?)) }
}

fn size(upload: &Upload) -> u64 {
    upload.digest.as_ref().map_or(0, |digest| digest.size_bytes)
}

/// Remaining time of an upload by this machine's clock, for example `in 23 h`.
fn expires(seconds: i64, now_seconds: i64) -> String {
    match seconds.saturating_sub(now_seconds) {
        ..=0 => "now".to_owned(),
        left @ 1..60 => format!("in {left} s"),
        left @ 60..3_600 => format!("in {} min", left / 60),
        left @ 3_600..172_800 => format!("in {} h", left / 3_600),
        left => format!("in {} d", left / 86_400),
    }
}

/// Hash of the uploaded blob, in hexadecimal.
fn blob(upload: &Upload) -> String {
    let blake3 = upload.digest.as_ref().map(|digest| digest.blake3.clone()).unwrap_or_default();
    blake3.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The upload as a JSON document with stable fields; times in seconds since 1970.
fn document(upload: &Upload) -> Value {
    json!({
        "name": upload.name,
        "blake3": blob(upload),
        "size_bytes": size(upload),
        "committed_bytes": upload.committed_bytes,
        "expire_time": upload.expire_time.as_ref().map(|time| time.seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_is_shown_in_one_unit() {
        let now = 1_000_000;
        for (left, text) in [
            (-5, "now"),
            (0, "now"),
            (59, "in 59 s"),
            (60, "in 1 min"),
            (3_599, "in 59 min"),
            (86_400, "in 24 h"),
            (172_800, "in 2 d"),
        ] {
            assert_eq!(expires(now + left, now), text);
        }
        assert_eq!(expires(-1, now), "now");
    }
}
