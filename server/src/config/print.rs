//! The configuration as a documented file.

use std::fmt::Write as _;

use super::{Config, pools, settings::SECTIONS};

/// Maximum length of a comment line, in columns.
const COLUMNS: usize = 110;

/// Formats `config` as a file that contains every setting with its documentation and value.
pub fn print(config: &Config) -> String {
    let mut text = String::from(
        "# Configuration of cloakwork-server. Variables named CLOAKWORK_SECTION__KEY override this file, and flags\n\
         # override both. `cloakwork-server config check FILE` reports the errors in a file.\n",
    );
    for section in SECTIONS {
        if !section.name.is_empty() {
            let _ = writeln!(text, "\n# {}\n[{}]", section.doc, section.name);
        }
        for setting in section.settings {
            text.push('\n');
            comment(&mut text, setting.doc);
            let _ = match (setting.show)(config) {
                Some(value) => writeln!(text, "{} = {value}", setting.name),
                None => writeln!(text, "# {} = {}", setting.name, setting.example),
            };
        }
    }
    pools::print(config, &mut text, comment);
    text.push_str("\n# Limits: docs/limits.md gives the reason for each default.\n[limits]\n");
    for (limit, value) in config.limits.values() {
        text.push('\n');
        comment(&mut text, &format!("{}. Range: {} to {}.", limit.meaning, limit.least, limit.most));
        let _ = writeln!(text, "{} = {value}", limit.name);
    }
    text
}

fn comment(text: &mut String, sentence: &str) {
    let mut column = 0;
    for word in sentence.split(' ') {
        if column == 0 || column + 1 + word.len() > COLUMNS {
            text.push_str(if column == 0 { "#" } else { "\n#" });
            column = 1;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + word.len();
    }
    text.push('\n');
}
