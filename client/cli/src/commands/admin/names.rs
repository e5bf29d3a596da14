//! Names in arguments and in answers.

/// Reads the name of a tenant, with or without `tenants/` in front.
pub(super) fn tenant(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("tenants/").unwrap_or(text);
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match (1..=63).contains(&name.len()) && name.bytes().all(is_part) {
        true => Ok(name.to_owned()),
        false => Err("a tenant is 1 to 63 of a-z, 0-9 and '-'".to_owned()),
    }
}

/// The resource name of a tenant.
pub(super) fn of_tenant(tenant: &str) -> String {
    format!("tenants/{tenant}")
}

/// The last part of a resource name.
pub(super) fn id(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_named_with_or_without_their_collection() {
        for text in ["acme", "tenants/acme"] {
            assert_eq!(tenant(text).as_deref(), Ok("acme"));
        }
        for wrong in ["", "tenants/", "Acme", "a b", "acme/keys/0", "../acme", "a\u{200b}", &"a".repeat(64)] {
            tenant(wrong).expect_err(wrong);
        }
        assert_eq!(["tenants/t/jobs/1", "1", ""].map(id), ["1", "1", ""]);
    }
}
