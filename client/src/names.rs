//! Checks of names that a server sends. Users copy names into commands and addresses, so a name
//! must not contain shell syntax, spaces or control characters.

use std::mem;

use cloakwork_proto::{
    printable,
    v1::{Job, Key, Upload},
};

use crate::{ClientError, Result, response::required};

/// Longer than any valid name.
const NAME_BYTES_MAX: usize = 512;

/// Accepts names of letters, digits and separators.
pub(crate) fn checked(name: String) -> Result<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    match (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_part) {
        true => Ok(name),
        false => Err(ClientError::malformed("a name with characters that are not allowed in names")),
    }
}

/// Accepts names of a tenant's resources. Their prefix distinguishes them from files and options.
fn of_tenant(name: &mut String) -> Result<()> {
    *name = checked(mem::take(name))?;
    match name.starts_with("tenants/") {
        true => Ok(()),
        false => Err(ClientError::malformed(format!("{name}, which is not the name of a tenant's resource"))),
    }
}

/// Requires a job, and checks its names.
pub(crate) fn job(job: Option<Job>) -> Result<Job> {
    let mut job = required(job, "job")?;
    of_tenant(&mut job.name)?;
    job.outputs.iter_mut().try_for_each(|output| of_tenant(&mut output.name))?;
    if let Some(error) = &mut job.error {
        (error.reason, error.message) = (one_line(&error.reason), one_line(&error.message));
    }
    Ok(job)
}

/// Requires the job of this name. A server that returned another job could pass its result off as
/// that of the requested one.
pub(crate) fn job_of_name(found: Option<Job>, name: &str) -> Result<Job> {
    let found = job(found)?;
    match found.name == name {
        true => Ok(found),
        false => Err(ClientError::malformed(format!("{}, when it was asked for {name}", found.name))),
    }
}

/// Requires a key, and checks its name.
pub(crate) fn key(key: Option<Key>) -> Result<Key> {
    let mut key = required(key, "key")?;
    of_tenant(&mut key.name)?;
    Ok(key)
}

/// Checks the name of an upload.
pub(crate) fn upload(mut upload: Upload) -> Result<Upload> {
    of_tenant(&mut upload.name)?;
    Ok(upload)
}

/// A server's text as one line, with all invisible characters escaped.
pub(crate) fn one_line(message: &str) -> String {
    printable(message).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_contain_no_shell_syntax() {
        for name in ["local", "tenants/a-1/jobs/0f/outputs/0", "tenants/t/keys/00_.A"] {
            assert_eq!(checked(name.to_owned()).expect("a name"), name);
        }
        for name in ["", "a b", "$(x)", "a;b", "a\nb", "\u{1b}[2J", "é", &"a".repeat(NAME_BYTES_MAX + 1)] {
            checked(name.to_owned()).expect_err(name);
        }
        for name in ["x.ckks", "--json"] {
            of_tenant(&mut name.to_owned()).expect_err(name);
        }
        assert_eq!(one_line("no\nThis helps:\u{9b}"), r"no\nThis helps:\u{9b}");
    }
}
