//! The commands in the documentation exist: the test calls each as documented, with `--help`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use cloakwork_tests_service::binary;

/// Names of our programs, and the names of their builds under test.
const PROGRAMS: [(&str, &str); 3] =
    [("cloakwork", "tested-client"), ("cloakwork-server", "tested-server"), ("cloakwork-worker", "tested-worker")];

/// The program of a documented command, if it is one of our programs.
fn program(words: &[String]) -> Option<PathBuf> {
    let (_, tested) = PROGRAMS.into_iter().find(|(name, _)| words.first().is_some_and(|word| word == name))?;
    Some(binary(tested))
}

/// The README and every page of docs.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).expect("a readable directory");
    let docs = docs.map(|entry| entry.expect("an entry").path()).filter(|path| path.extension().is_some());
    docs.chain([root.join("README.md")]).collect()
}

/// Lines of code blocks that call one of our programs, with continued lines joined.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut inside = false;
    let mut code = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if inside {
            code.push_str(line);
            code.push('\n');
        }
    }
    let code = code.replace("\\\n", " ");
    code.lines().map(words).filter(|words| program(words).is_some()).collect()
}

/// Splits a line as a shell does. Drops variables that are set for the command, and everything
/// after its arguments.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    for letter in line.chars().chain([' ']) {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(letter), true),
            (None, ' ') if begun => {
                words.push(std::mem::take(&mut word));
                begun = false;
            }
            (None, ' ') => {}
            _ => {
                word.push(letter);
                begun = true;
            }
        }
    }
    let end = |word: &String| ["#", "&", "|", ">", "2>"].contains(&&**word);
    let end = words.iter().position(end).unwrap_or(words.len());
    words.truncate(end);
    let set = |word: &&String| word.split_once('=').is_some_and(|(name, _)| name.starts_with("CLOAKWORK_"));
    words.iter().skip_while(set).cloned().collect()
}

#[test]
fn documented_commands_exist() {
    let mut found = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a readable page");
        for words in commands(&text) {
            // `--help` comes last: the parser checks the arguments before it, and ignores missing
            // ones.
            let program = program(&words).expect("one of ours");
            let output = Command::new(program).args(&words[1..]).arg("--help").output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {}\n{said}", page.display(), words.join(" "));
            found += 1;
        }
    }
    assert!(found > 20, "only {found} commands: are they still recognised?");
}

#[test]
fn commands_are_recognised_and_a_wrong_one_is_refused() {
    let page = "cloakwork nowhere\n```sh\nmake demo\nCLOAKWORK_TOKEN=x cloakwork pbs --expr 'x*y % 4' \\\n  --values 1 # why\n```";
    let found = commands(page);
    assert_eq!(found, [["cloakwork", "pbs", "--expr", "x*y % 4", "--values", "1"].map(str::to_owned)]);
    for wrong in [["pbs", "--nonsense"], ["jobs", "nonsense"], ["nonsense", "ls"]] {
        let output = Command::new(binary("tested-client")).args(wrong).arg("--help").output().expect("it runs");
        assert!(!output.status.success(), "{wrong:?}");
    }
}
