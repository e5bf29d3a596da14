//! Names that a server gives. Users copy them into commands and addresses, so they are names and nothing else.

use std::mem;

use cloakwork_proto::{
    printable,
    v1::{Job, Key, Upload},
};

use crate::{ClientError, Result, client::required};

/// Longer than any.
const BYTES_MAX: usize = 512;

/// A name of letters, digits and what stands between them.
pub(crate) fn checked(name: String) -> Result<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    match (1..=BYTES_MAX).contains(&name.len()) && name.bytes().all(is_part) {
        true => Ok(name),
        false => Err(ClientError::malformed("a name with characters that no name has")),
    }
}

/// The name of what a tenant has: nothing else begins like it, no file and no option.
fn of_tenant(name: &mut String) -> Result<()> {
    *name = checked(mem::take(name))?;
    match name.starts_with("tenants/") {
        true => Ok(()),
        false => Err(ClientError::malformed(format!("{name}, which is no name of a tenant's"))),
    }
}

/// A job that there must be, with its names checked.
pub(crate) fn job(job: Option<Job>) -> Result<Job> {
    let mut job = required(job, "job")?;
    of_tenant(&mut job.name)?;
    job.outputs.iter_mut().try_for_each(|output| of_tenant(&mut output.name))?;
    if let Some(error) = &mut job.error {
        (error.reason, error.message) = (one_line(&error.reason), one_line(&error.message));
    }
    Ok(job)
}

/// The same of a key.
pub(crate) fn key(key: Option<Key>) -> Result<Key> {
    let mut key = required(key, "key")?;
    of_tenant(&mut key.name)?;
    Ok(key)
}

/// The same of an upload.
pub(crate) fn upload(mut upload: Upload) -> Result<Upload> {
    of_tenant(&mut upload.name)?;
    Ok(upload)
}

/// What a server says, as one line that shows every character of it.
pub(crate) fn one_line(message: &str) -> String {
    printable(message).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_run_nothing() {
        for name in ["local", "tenants/a-1/jobs/0f/outputs/0", "tenants/t/keys/00_.A"] {
            assert_eq!(checked(name.to_owned()).expect("a name"), name);
        }
        for name in ["", "a b", "$(x)", "a;b", "a\nb", "\u{1b}[2J", "é", &"a".repeat(BYTES_MAX + 1)] {
            checked(name.to_owned()).expect_err(name);
        }
        for name in ["x.ckks", "--json"] {
            of_tenant(&mut name.to_owned()).expect_err(name);
        }
        assert_eq!(one_line("no\nThis helps:\u{9b}"), r"no\nThis helps:\u{9b}");
    }
}
