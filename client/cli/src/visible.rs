//! Texts of a server, made safe for a terminal.

use cloakwork_client::printable;

/// Escapes characters that would control the terminal or mislead its reader. The text consists of
/// lines, and may contain names and messages from a server.
pub(crate) fn visible(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}
