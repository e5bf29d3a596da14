//! Names of resources. Names are checked when they are parsed, so all names inside the server are
//! well formed.

use std::fmt;

use cloakwork_scheduler::WorkerId;
use uuid::Uuid;

use crate::{
    auth::Principal,
    error::{ApiError, FIELD_MISSING, NAME_INVALID, REQUEST_ID_INVALID, WRONG_TENANT, quoted},
    tenant::Tenant,
};

/// The last part of a name.
trait Id: Sized {
    /// The part's format, as errors describe it.
    const FORM: &'static str;
    fn read(text: &str) -> Option<Self>;
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl<const N: usize> Id for [u8; N] {
    const FORM: &'static str = match N {
        16 => "{32 hexadecimal digits}",
        _ => "{64 hexadecimal digits}",
    };

    fn read(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        if text.len() != 2 * N {
            return None;
        }
        let mut bytes = [0; N];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(bytes)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Id for Uuid {
    const FORM: &'static str = "{UUID}";

    fn read(text: &str) -> Option<Self> {
        // Only one spelling is valid. Otherwise a job would have several names.
        Self::try_parse(text).ok().filter(|uuid| uuid.hyphenated().to_string() == text)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.hyphenated())
    }
}

macro_rules! names {
    ($($(#[$meta:meta])* $name:ident = $collection:literal $field:ident: $id:ty;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            /// The tenant that owns the resource.
            pub tenant: Tenant,
            #[doc = concat!("The last part of the name, after `", $collection, "/`.")]
            pub $field: $id,
        }

        impl $name {
            /// Parses a name.
            pub fn parse(text: &str) -> Result<Self, ApiError> {
                let form = concat!("tenants/{tenant}/", $collection, "/");
                let (tenant, rest) = split(text, form, <$id as Id>::FORM)?;
                let id = rest.strip_prefix(concat!($collection, "/")).and_then(<$id as Id>::read);
                let $field = id.ok_or_else(|| malformed(text, form, <$id as Id>::FORM))?;
                Ok(Self { tenant, $field })
            }

            /// Parses a name that must belong to the caller. The error for a foreign name does not
            /// depend on whether the resource exists.
            pub fn parse_own(text: &str, caller: &Principal) -> Result<Self, ApiError> {
                let name = Self::parse(text)?;
                own(&name.tenant, caller)?;
                Ok(name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("tenants/{}/", $collection, "/"), self.tenant)?;
                self.$field.write(f)
            }
        }
    )*};
}

names! {
    /// `tenants/{tenant}/keys/{key_id}`.
    KeyName = "keys" key_id: [u8; 16];
    /// `tenants/{tenant}/ciphertexts/{digest}`.
    CiphertextName = "ciphertexts" digest: [u8; 32];
    /// `tenants/{tenant}/programs/{digest}`.
    ProgramName = "programs" digest: [u8; 32];
    /// `tenants/{tenant}/jobs/{job}`.
    JobName = "jobs" job: Uuid;
    /// `tenants/{tenant}/uploads/{upload}`.
    UploadName = "uploads" upload: [u8; 16];
}

/// `workers/{UUID}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerName(pub WorkerId);

impl WorkerName {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let id = text.strip_prefix("workers/").and_then(Uuid::read);
        let id = id.ok_or_else(|| malformed(text, "workers/", Uuid::FORM))?;
        Ok(Self(WorkerId(id.as_u128())))
    }
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("workers/")?;
        Uuid::from_u128(self.0.0).write(f)
    }
}

/// `tenants/{tenant}/jobs/{job}/outputs/{index}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutputName {
    /// The job that made the output.
    pub job: JobName,
    /// The output's index, from 0.
    pub index: u32,
}

impl OutputName {
    const FORM: &'static str = "tenants/{tenant}/jobs/{UUID}/outputs/";

    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let wrong = || malformed(text, Self::FORM, "{index}");
        let (job, index) = text.rsplit_once("/outputs/").ok_or_else(wrong)?;
        let job = JobName::parse(job).map_err(|_| wrong())?;
        // Only one spelling is valid: no sign, no leading zeros.
        let parsed = index.parse::<u32>().ok().filter(|parsed| parsed.to_string() == index);
        Ok(Self { job, index: parsed.ok_or_else(wrong)? })
    }

    /// Parses a name that must belong to the caller.
    pub fn parse_own(text: &str, caller: &Principal) -> Result<Self, ApiError> {
        let name = Self::parse(text)?;
        own(&name.job.tenant, caller)?;
        Ok(name)
    }
}

impl fmt::Display for OutputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/outputs/{}", self.job, self.index)
    }
}

/// The name of a list of ciphertexts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListName {
    /// A list that was uploaded.
    Ciphertext(CiphertextName),
    /// A list that a job made.
    Output(OutputName),
}

impl ListName {
    /// Parses a name that must belong to the caller.
    pub fn parse_own(text: &str, caller: &Principal) -> Result<Self, ApiError> {
        if text.contains("/jobs/") {
            return OutputName::parse_own(text, caller).map(Self::Output);
        }
        CiphertextName::parse_own(text, caller).map(Self::Ciphertext)
    }
}

impl fmt::Display for ListName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ciphertext(name) => name.fmt(f),
            Self::Output(name) => name.fmt(f),
        }
    }
}

/// Parses the `request_id` of a call.
pub fn request_id(text: &str) -> Result<Uuid, ApiError> {
    if text.is_empty() {
        return Err(REQUEST_ID_INVALID.error("request_id is empty, and must be a UUID"));
    }
    let uuid = Uuid::try_parse(text).ok().filter(|uuid| text.len() == 36 && !uuid.is_nil());
    uuid.ok_or_else(|| REQUEST_ID_INVALID.error(format!("request_id must be a random UUID, not {}", quoted(text))))
}

fn split<'a>(text: &'a str, form: &str, id: &str) -> Result<(Tenant, &'a str), ApiError> {
    if text.is_empty() {
        return Err(FIELD_MISSING.error(format!("a name of the form {form}{id} is missing")));
    }
    let parts = text.strip_prefix("tenants/").and_then(|rest| rest.split_once('/'));
    let (tenant, rest) = parts.ok_or_else(|| malformed(text, form, id))?;
    Ok((Tenant::new(tenant)?, rest))
}

fn own(tenant: &Tenant, caller: &Principal) -> Result<(), ApiError> {
    if *tenant == caller.tenant {
        return Ok(());
    }
    Err(WRONG_TENANT.error(format!("the token belongs to tenants/{}", caller.tenant)))
}

fn malformed(text: &str, form: &str, id: &str) -> ApiError {
    NAME_INVALID.error(format!("expected a name of the form {form}{id}, got {}", quoted(text)))
}

#[cfg(test)]
mod tests;
