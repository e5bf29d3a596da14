//! Pinned anchors: for each server, the installation whose results this directory's keys decrypt.
//!
//! The file is beside the client key, with a line for each server: its address, a space, and the
//! anchor.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use cloakwork_client::Anchor;

use crate::failure::Failure;

/// Name of the file in the directory of keys.
const FILE: &str = "anchors";

/// The pinned anchors of a directory of keys.
pub(crate) struct Anchors {
    path: PathBuf,
    /// Address and anchor of each server, sorted by the address.
    pins: Vec<(String, Anchor)>,
}

impl Anchors {
    /// Reads the anchors of a directory. A missing file has none.
    pub(crate) fn read(keys: &Path) -> Result<Self, Failure> {
        let path = keys.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(&path, &error)),
        };
        let mut pins = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let pin = line.split_once(' ').ok_or_else(|| "expected an address and an anchor".to_owned());
            let pin = pin.and_then(|(server, anchor)| match anchor.parse() {
                Ok(anchor) => Ok((server.to_owned(), anchor)),
                Err(error) => Err(format!("{error}")),
            });
            let place = || format!("{}, line {}", path.display(), index + 1);
            pins.push(pin.map_err(|problem| Failure::Keys(format!("{}: {problem}", place())))?);
        }
        pins.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(Self { path, pins })
    }

    /// Servers and their anchors.
    pub(crate) fn pins(&self) -> &[(String, Anchor)] {
        &self.pins
    }

    /// The anchor that is pinned for a server.
    pub(crate) fn of(&self, server: &str) -> Option<&Anchor> {
        self.pins.iter().find(|(pinned, _)| *pinned == normal(server)).map(|(_, anchor)| anchor)
    }

    /// Pins an anchor for a server, in the place of an earlier one.
    pub(crate) fn pin(keys: &Path, server: &str, anchor: Anchor) -> Result<(), Failure> {
        let server = normal(server);
        Self::change(keys, |pins| {
            pins.retain(|(pinned, _)| *pinned != server);
            pins.push((server.to_owned(), anchor));
        })
    }

    /// Pins an anchor for a server that has none.
    pub(crate) fn pin_first(keys: &Path, server: &str, anchor: Anchor) -> Result<(), Failure> {
        let server = normal(server);
        Self::change(keys, |pins| {
            if !pins.iter().any(|(pinned, _)| *pinned == server) {
                pins.push((server.to_owned(), anchor));
            }
        })
    }

    /// Removes the anchor of a server. Returns false if the server has none.
    pub(crate) fn unpin(keys: &Path, server: &str) -> Result<bool, Failure> {
        let mut found = false;
        if !keys.is_dir() {
            return Ok(found);
        }
        Self::change(keys, |pins| {
            let before = pins.len();
            pins.retain(|(pinned, _)| *pinned != normal(server));
            found = pins.len() < before;
        })?;
        Ok(found)
    }

    /// Changes the pins. The lock on the directory keeps two commands at once from losing the pin
    /// of one of them.
    fn change(keys: &Path, change: impl FnOnce(&mut Vec<(String, Anchor)>)) -> Result<(), Failure> {
        let directory = File::open(keys).map_err(|error| failed(keys, &error))?;
        directory.lock().map_err(|error| failed(keys, &error))?;
        let mut anchors = Self::read(keys)?;
        change(&mut anchors.pins);
        anchors.write()
    }

    fn write(mut self) -> Result<(), Failure> {
        self.pins.sort_by(|left, right| left.0.cmp(&right.0));
        let text: String = self.pins.iter().map(|(server, anchor)| format!("{server} {anchor}\n")).collect();
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let replace = || {
            let mut draft = tempfile::NamedTempFile::new_in(directory)?;
            draft.write_all(text.as_bytes())?;
            draft.as_file().sync_all()?;
            draft.persist(&self.path).map_err(|error| error.error).map(drop)
        };
        replace().map_err(|error: io::Error| failed(&self.path, &error))
    }
}

/// An address in the form in which pins have it.
fn normal(server: &str) -> &str {
    server.trim_end_matches('/')
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Io(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(digit: char) -> Anchor {
        format!("ed25519:{}", digit.to_string().repeat(64)).parse().expect("an anchor")
    }

    #[test]
    fn a_pin_holds_for_its_server_alone_until_it_is_replaced_or_removed() {
        let keys = tempfile::tempdir().expect("a directory");
        let read = || Anchors::read(keys.path()).expect("anchors");
        let (one, other) = ("https://one:7270", "http://127.0.0.1:7270");
        assert!(read().pins().is_empty());
        Anchors::pin(keys.path(), one, anchor('1')).expect("written");
        Anchors::pin(keys.path(), other, anchor('2')).expect("written");
        assert_eq!((read().of(one), read().of(&format!("{other}/"))), (Some(&anchor('1')), Some(&anchor('2'))));
        assert_eq!(read().of("https://one"), None);
        Anchors::pin(keys.path(), one, anchor('3')).expect("written");
        assert_eq!((read().of(one), read().pins().len()), (Some(&anchor('3')), 2));
        Anchors::pin_first(keys.path(), &format!("{one}/"), anchor('4')).expect("written");
        assert_eq!((read().of(one), read().pins().len()), (Some(&anchor('3')), 2));
        let unpin = || Anchors::unpin(keys.path(), one).expect("written");
        assert!(unpin() && !unpin());
        assert_eq!((read().of(one), read().of(other)), (None, Some(&anchor('2'))));
    }

    #[test]
    fn commands_that_pin_at_once_lose_no_pin() {
        let keys = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (keys, server) = (keys.path(), format!("http://127.0.0.1:{number}"));
                scope.spawn(move || Anchors::pin(keys, &server, anchor('1')).expect("written"));
            }
        });
        assert_eq!(Anchors::read(keys.path()).expect("anchors").pins().len(), 8);
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_the_line() {
        let keys = tempfile::tempdir().expect("a directory");
        for damage in ["https://two", "https://two ed25519:00"] {
            let text = format!("https://one {}\n{damage}\n", anchor('1'));
            fs::write(keys.path().join(FILE), text).expect("a file");
            let failure = Anchors::read(keys.path()).err().expect("a failure").to_string();
            assert!(failure.contains("anchors, line 2: "), "{failure}");
        }
    }
}
