//! Texts of a server, made safe for a terminal.

use cloakwork_client::printable;

/// Like [`visible`], for a text that has to stay within its line.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).into_owned()
}

/// Escapes characters that would control the terminal or mislead its reader. The text consists of
/// lines, and may contain names and messages from a server.
pub(crate) fn visible(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}
