//! `cloakwork anchor`.

use cloakwork_client::{Anchor, make_directory};
use serde_json::json;

use crate::{
    anchors::Anchors,
    context::Context,
    failure::Failure,
    output::{Table, show},
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Pin the anchor of the server, for the keys of the directory.
    ///
    /// The operator prints it with `cloakwork-server anchor`. Get it in a way that the server
    /// cannot change. An anchor that was pinned before is replaced.
    Pin {
        /// The anchor: one or several public keys, with commas between them.
        anchor: Anchor,
    },
    /// List the pinned anchors.
    Ls,
    /// Remove the anchor of the server, for example of a test server that was set up anew.
    Unpin,
}

pub(crate) fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let (server, json) = (&context.global.server, context.global.json);
    let keys = &context.global.keys;
    match command {
        Command::Pin { anchor } => {
            let shown = anchor.to_string();
            // A server's anchor may be known before the keys are made.
            make_directory(keys)?;
            Anchors::pin(keys, server, anchor)?;
            show(json, || json!({ "server": server, "anchor": shown }), || format!("{server}: pinned {shown}\n"))
        }
        Command::Ls => list(&Anchors::read(keys)?, json),
        Command::Unpin => match Anchors::unpin(keys, server)? {
            true => show(json, || json!({ "server": server }), || format!("{server}: no anchor is pinned now\n")),
            false => Err(Failure::Usage(format!("no anchor is pinned for {server}"))),
        },
    }
}

fn list(anchors: &Anchors, json: bool) -> Result<(), Failure> {
    let document = || {
        let pins = anchors.pins().iter();
        let pins = pins.map(|(server, anchor)| json!({ "server": server, "anchor": anchor.to_string() }));
        json!({ "anchors": pins.collect::<Vec<_>>() })
    };
    let table = || {
        let mut table = Table::new(["server", "anchor"]);
        for (server, anchor) in anchors.pins() {
            table.row([server.clone(), anchor.to_string()]);
        }
        table.render()
    };
    show(json, document, table)
}
