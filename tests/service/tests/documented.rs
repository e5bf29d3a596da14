//! The commands in the documentation exist: a test calls each as documented, with `--help`. The
//! examples of the toy CKKS set run as printed.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use cloakwork_tests_service::{Server, Setup, binary};

/// Names of our programs, and the names of their builds under test.
const PROGRAMS: [(&str, &str); 3] =
    [("cloakwork", "tested-client"), ("cloakwork-server", "tested-server"), ("cloakwork-worker", "tested-worker")];

/// The program of a documented command, if it is one of our programs.
fn program(words: &[String]) -> Option<PathBuf> {
    let (_, tested) = PROGRAMS.into_iter().find(|(name, _)| words.first().is_some_and(|word| word == name))?;
    Some(binary(tested))
}

/// Directory of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page of the root directory, of docs and of deploy.
fn pages() -> Vec<PathBuf> {
    let directories = ["", "docs", "docs/adr", "docs/errors", "docs/runbooks", "deploy/prometheus", "deploy/proxy"];
    let directories = directories.map(|name| root().join(name));
    let files = directories.iter().flat_map(|directory| std::fs::read_dir(directory).expect("a readable directory"));
    let files = files.map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Lines of code blocks that call one of our programs, with continued lines joined.
fn commands(page: &str) -> Vec<Vec<String>> {
    blocks(page).iter().flat_map(|block| commands_in(block)).collect()
}

/// The code blocks of a page.
fn blocks(page: &str) -> Vec<String> {
    let parts = page.split("```").skip(1).step_by(2);
    // The first line names the language.
    parts.filter_map(|part| Some(part.split_once('\n')?.1.to_owned())).collect()
}

fn commands_in(block: &str) -> Vec<Vec<String>> {
    let code = block.replace("\\\n", " ");
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
    let end = |word: &String| ["#", "&", "|"].contains(&&**word) || word.starts_with('>') || word.starts_with("2>");
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

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_toy_ckks_set_run_as_printed() {
    let page = std::fs::read_to_string(root().join("docs/ckks.md")).expect("a readable page");
    let block = blocks(&page).into_iter().find(|block| block.contains("--set TOY_CKKS"));
    let commands = commands_in(&block.expect("the block of the toy set"));
    // The first command starts a server on ports of its own. The test's server has free ports.
    assert_eq!(commands[0][..2], ["cloakwork-server", "serve"]);
    let server = Server::start(Setup::as_shipped().with("allow_weak_sets", true)).await;
    let home = tempfile::tempdir().expect("a directory");
    let mut printed = String::new();
    for words in &commands[1..] {
        let mut command = Command::new(program(words).expect("one of ours"));
        let output = command.args(&words[1..]).current_dir(home.path()).env("CLOAKWORK_SERVER", server.url()).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{said}", words.join(" "));
        printed = String::from_utf8(output.stdout).expect("text");
    }
    // The last command decrypts the first two numbers of the refreshed ciphertext.
    // Imaginary parts of zero may have either sign.
    let real: Vec<&str> = printed.lines().map(|line| &line[..line.len() - "+0.0000i".len()]).collect();
    assert_eq!(real, ["0.5000", "-0.2500"], "{printed}");
}

#[test]
fn commands_are_recognised_and_a_wrong_one_is_refused() {
    let page = "cloakwork nowhere\n```sh\nmake demo\nCLOAKWORK_TOKEN=x cloakwork pbs --expr 'x*y % 4' \\\n  --values 1 >log # why\n```";
    let found = commands(page);
    assert_eq!(found, [["cloakwork", "pbs", "--expr", "x*y % 4", "--values", "1"].map(str::to_owned)]);
    for wrong in [["pbs", "--nonsense"], ["jobs", "nonsense"], ["nonsense", "ls"]] {
        let output = Command::new(binary("tested-client")).args(wrong).arg("--help").output().expect("it runs");
        assert!(!output.status.success(), "{wrong:?}");
    }
}
