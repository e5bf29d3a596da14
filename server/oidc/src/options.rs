//! The options of an issuer and their check.

use std::{net::IpAddr, path::PathBuf};

use reqwest::Url;

/// Which tokens to accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The issuer, exactly as its tokens name it: an https URL, or http for a loopback address.
    pub issuer: String,
    /// The name of this service in the `aud` of tokens.
    pub audience: String,
    /// Address of the issuer's key set. By default, the issuer's description names the address.
    pub jwks_url: Option<String>,
    /// The claim with the tenant's name.
    pub tenant_claim: String,
    /// The claim with the scopes: one string with spaces between names, or an array of names.
    pub scopes_claim: String,
    /// Authorities for the certificate of the issuer, in PEM, instead of the authorities of the
    /// system.
    pub ca_file: Option<PathBuf>,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct OptionsError {
    /// Name of the setting, as in [`Options`].
    pub setting: &'static str,
    /// The problem, in words.
    pub problem: String,
}

impl OptionsError {
    pub(crate) fn new(setting: &'static str, problem: impl Into<String>) -> Self {
        Self { setting, problem: problem.into() }
    }
}

impl Options {
    /// Options with the default names of the claims.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            audience: audience.into(),
            jwks_url: None,
            tenant_claim: "cloakwork_tenant".to_owned(),
            scopes_claim: "cloakwork_scopes".to_owned(),
            ca_file: None,
        }
    }

    /// Checks all options without reading files.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.first_url()?;
        let issuer = url("issuer", &self.issuer)?;
        if issuer.query().is_some() {
            return Err(OptionsError::new("issuer", "must have no query"));
        }
        let claims = [("tenant_claim", &self.tenant_claim), ("scopes_claim", &self.scopes_claim)];
        for (setting, value) in claims.into_iter().chain([("audience", &self.audience)]) {
            if value.is_empty() || value.contains(char::is_control) || value.trim() != value {
                return Err(OptionsError::new(setting, "must be a name without spaces around it"));
            }
        }
        if self.tenant_claim == self.scopes_claim {
            return Err(OptionsError::new("scopes_claim", "must differ from tenant_claim"));
        }
        Ok(())
    }

    /// The address that is fetched first: of the key set, or of the description that names its
    /// address.
    pub(crate) fn first_url(&self) -> Result<Url, OptionsError> {
        if let Some(keys) = &self.jwks_url {
            return url("jwks_url", keys);
        }
        url("issuer", &self.issuer)?;
        let description = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        url("issuer", &description)
    }
}

/// Parses the URL of a setting.
fn url(setting: &'static str, text: &str) -> Result<Url, OptionsError> {
    secure_url(text).ok_or_else(|| {
        let form = "must be an https URL without user, password and fragment. The scheme may be http for a loopback \
                    address";
        OptionsError::new(setting, form)
    })
}

/// Parses a URL whose answers can be trusted: of https, or on a loopback address.
pub(crate) fn secure_url(text: &str) -> Option<Url> {
    // The parser would drop blanks, and the result would differ from the text.
    if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let secure = match url.scheme() {
        "https" => url.has_host(),
        "http" => is_loopback(&url),
        _ => false,
    };
    let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (secure && bare).then_some(url)
}

/// Whether the URL's host is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new("https://login.example.org/realms/main", "cloakwork")
    }

    #[test]
    fn an_error_names_the_setting() {
        assert_eq!(options().check(), Ok(()));
        type Change = fn(&mut Options);
        let wrong: [(&str, Change); 9] = [
            ("issuer", |options| options.issuer = "http://login.example.org".to_owned()),
            ("issuer", |options| options.issuer.push_str("?a=b")),
            ("jwks_url", |options| options.jwks_url = Some("login.example.org/keys".to_owned())),
            ("audience", |options| options.audience.clear()),
            ("audience", |options| options.audience.push('\n')),
            ("tenant_claim", |options| options.tenant_claim.clear()),
            ("tenant_claim", |options| options.tenant_claim.insert(0, ' ')),
            ("scopes_claim", |options| options.scopes_claim.clear()),
            ("scopes_claim", |options| options.scopes_claim = options.tenant_claim.clone()),
        ];
        for (setting, change) in wrong {
            let mut options = options();
            change(&mut options);
            let error = options.check().expect_err(setting);
            assert_eq!(error.setting, setting, "{error}");
            assert!(error.to_string().starts_with(&format!("{setting}: must ")), "{error}");
        }
    }

    #[test]
    fn urls_are_of_https_or_loopback() {
        for right in [
            "https://a.example",
            "https://a.example/",
            "https://a.example:8443/b?c=d",
            "http://127.0.0.1:1/a",
            "http://[::1]:1",
            "http://localhost",
        ] {
            assert!(secure_url(right).is_some(), "{right}");
        }
        for wrong in [
            "",
            "a.example",
            "http://a.example",
            "http://localhost.a.example",
            "http://127.0.0.1.a.example",
            "http://10.0.0.1",
            "ftp://127.0.0.1",
            "file:///etc/passwd",
            "https://a:b@a.example",
            "https://a@a.example",
            "https://a.example#b",
            "https://a.exa mple",
            " https://a.example",
            "https://a.example\n",
        ] {
            assert!(secure_url(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn the_description_lies_below_the_issuer() {
        let first = |issuer: &str| Options::new(issuer, "a").first_url().expect("a URL").to_string();
        assert_eq!(first("https://a.example"), "https://a.example/.well-known/openid-configuration");
        assert_eq!(first("https://a.example/b/"), "https://a.example/b/.well-known/openid-configuration");
        let keys = Options { jwks_url: Some("https://b.example/keys?c=d".to_owned()), ..options() };
        assert_eq!(keys.first_url().expect("a URL").as_str(), "https://b.example/keys?c=d");
    }
}
