//! Texts of a server, made safe for a terminal.

use cloakwork_client::printable;

/// A text of lines, with names and messages of a server in it. Escapes what would steer the terminal or mislead its
/// reader.
pub(crate) fn visible(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}
