//! Certificates to try TLS with: an authority of one's own, a server and a worker.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Certificates to try something with should not be around for ever.
const VALID: Duration = Duration::from_secs(90 * 24 * 3600);

/// Clocks differ a little.
const BEFORE: Duration = Duration::from_secs(3600);

/// Why no certificates were made.
#[derive(Debug, thiserror::Error)]
pub enum DevCertsError {
    /// A file cannot be written.
    #[error("{path}: {source}", path = path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said; also that the file is there already.
        source: io::Error,
    },
    /// A name cannot be in a certificate.
    #[error("no certificate could be made: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// Writes `ca`, `server` and `worker` as `.pem` and `.key` into a directory, readable by nobody else, and returns
/// their paths. Existing files are left alone and are an error.
///
/// The server's certificate is for `localhost`, the loopback addresses and `names`.
pub fn write(directory: &Path, names: &[String]) -> Result<Vec<PathBuf>, DevCertsError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| DevCertsError::Unwritable { path: directory.to_owned(), source })?;
    let mut authority = params("Cloakwork development authority", &[])?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let mut subject_names = ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec();
    subject_names.extend_from_slice(names);
    let mut server = params("Cloakwork development server", &subject_names)?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let mut worker = params("Cloakwork development worker", &["worker".to_owned()])?;
    worker.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];

    let mut files = vec![("ca.pem", authority.pem()), ("ca.key", authority.key().serialize_pem())];
    for (certificate_file, key_file, params) in
        [("server.pem", "server.key", server), ("worker.pem", "worker.key", worker)]
    {
        let key = KeyPair::generate()?;
        files.push((certificate_file, params.signed_by(&key, &authority)?.pem()));
        files.push((key_file, key.serialize_pem()));
    }
    files.into_iter().map(|(name, text)| write_private(&directory.join(name), &text)).collect()
}

fn params(name: &str, subject_names: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(subject_names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + VALID).into();
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn write_private(path: &Path, text: &str) -> Result<PathBuf, DevCertsError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| DevCertsError::Unwritable { path: path.to_owned(), source })?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let files = write(directory.path(), &["example.test".to_owned()]).unwrap();
        assert_eq!(files.len(), 6);
        #[cfg(unix)]
        for file in &files {
            let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
        let before = std::fs::read(&files[0]).unwrap();
        let error = write(directory.path(), &[]).unwrap_err();
        assert!(error.to_string().contains("ca.pem"), "{error}");
        assert_eq!(std::fs::read(&files[0]).unwrap(), before);
    }
}
