//! Development certificates for TLS: a private authority, a server and a worker.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use cloakwork_clock::{Clock, to_system_time};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Validity of the certificates: short, because development certificates should not stay in use.
const VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);

/// The start of validity lies this long in the past, because clocks of peers differ.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// The error that kept the certificates from being created.
#[derive(Debug, thiserror::Error)]
pub enum DevCertsError {
    /// A file cannot be written.
    #[error("{path}: {source}", path = path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system. A file that exists already is an error as well.
        source: io::Error,
    },
    /// A name is not valid in a certificate.
    #[error("creating a certificate failed: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// Writes `ca`, `server` and `worker` as `.pem` and `.key` into a directory, readable by their
/// owner only, and returns their paths. An existing file is an error and is not overwritten.
///
/// The server's certificate is for `localhost`, the loopback addresses and `names`.
pub fn write(directory: &Path, names: &[String], clock: &Clock) -> Result<Vec<PathBuf>, DevCertsError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| DevCertsError::Unwritable { path: directory.to_owned(), source })?;
    let mut authority = params("Cloakwork development authority", &[], clock)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let mut subject_names = ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec();
    subject_names.extend_from_slice(names);
    let mut server = params("Cloakwork development server", &subject_names, clock)?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let mut worker = params("Cloakwork development worker", &["worker".to_owned()], clock)?;
    worker.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];

    let mut files = vec![("ca.pem", authority.pem()), ("ca.key", authority.key().serialize_pem())];
    for (certificate_file, key_file, params) in
        [("server.pem", "server.key", server), ("worker.pem", "worker.key", worker)]
    {
        let key = KeyPair::generate()?;
        files.push((certificate_file, params.signed_by(&key, &authority)?.pem()));
        files.push((key_file, key.serialize_pem()));
    }
    files.into_iter().map(|(name, text)| write_new(&directory.join(name), &text)).collect()
}

fn params(name: &str, subject_names: &[String], clock: &Clock) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(subject_names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    let now = to_system_time(clock.unix_micros());
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + VALIDITY).into();
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// Writes a certificate that all users may read, or a key that only its owner may read. Clients of
/// other users need the authority's certificate.
fn write_new(path: &Path, text: &str) -> Result<PathBuf, DevCertsError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let is_certificate = path.extension().is_some_and(|extension| extension == "pem");
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if is_certificate { 0o644 } else { 0o600 });
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| DevCertsError::Unwritable { path: path.to_owned(), source })?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_private_and_no_file_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let files = write(directory.path(), &["example.test".to_owned()], &Clock::system()).unwrap();
        assert_eq!(files.len(), 6);
        #[cfg(unix)]
        for file in &files {
            let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
            // A umask may take rights from a certificate.
            let open = if file.extension().unwrap() == "pem" { 0o133 } else { 0o177 };
            assert_eq!(mode & open, 0, "{}: {mode:o}", file.display());
        }
        let before = std::fs::read(&files[0]).unwrap();
        let error = write(directory.path(), &[], &Clock::system()).unwrap_err();
        assert!(error.to_string().contains("ca.pem"), "{error}");
        assert_eq!(std::fs::read(&files[0]).unwrap(), before);
    }
}
