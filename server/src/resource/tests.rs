use proptest::prelude::*;

use super::*;
use crate::auth::Scopes;

fn tenant() -> impl Strategy<Value = Tenant> {
    "[a-z0-9-]{1,63}".prop_map(|name| Tenant::new(&name).unwrap())
}

fn caller(tenant: &Tenant) -> Principal {
    Principal::without_token(tenant.clone(), Scopes::ALL)
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(tenant in tenant(), id in any::<[u8; 16]>(), digest in any::<[u8; 32]>(), index: u32) {
        let key = KeyName { tenant: tenant.clone(), key_id: id };
        prop_assert_eq!(KeyName::parse(&key.to_string()), Ok(key));
        let upload = UploadName { tenant: tenant.clone(), upload: id };
        prop_assert_eq!(UploadName::parse(&upload.to_string()), Ok(upload));
        let program = ProgramName { tenant: tenant.clone(), digest };
        prop_assert_eq!(ProgramName::parse(&program.to_string()), Ok(program));
        let list = ListName::Ciphertext(CiphertextName { tenant: tenant.clone(), digest });
        prop_assert_eq!(ListName::parse_own(&list.to_string(), &caller(&tenant)), Ok(list));
        let job = JobName { tenant: tenant.clone(), job: Uuid::from_bytes(id) };
        prop_assert_eq!(JobName::parse(&job.to_string()), Ok(job.clone()));
        let output = ListName::Output(OutputName { job, index });
        prop_assert_eq!(ListName::parse_own(&output.to_string(), &caller(&tenant)), Ok(output));
    }

    #[test]
    fn garbage_is_refused_or_reads_as_what_it_prints(text in "(tenants/)?[a-z0-9/-]{0,20}(keys|jobs|/outputs/|ciphertexts)?\\PC{0,60}") {
        if let Ok(name) = KeyName::parse(&text) { prop_assert_eq!(name.to_string(), text.clone()); }
        if let Ok(name) = JobName::parse(&text) { prop_assert_eq!(name.to_string(), text.clone()); }
        if let Ok(name) = OutputName::parse(&text) { prop_assert_eq!(name.to_string(), text.clone()); }
        if let Ok(name) = CiphertextName::parse(&text) { prop_assert_eq!(name.to_string(), text.clone()); }
        let _ = request_id(&text);
    }

    #[test]
    fn one_changed_character_never_reads_as_the_same_name(id in any::<[u8; 16]>(), at in 0usize..56, new in any::<char>()) {
        let name = JobName { tenant: Tenant::new("acme").unwrap(), job: Uuid::from_bytes(id) };
        let mut characters: Vec<char> = name.to_string().chars().collect();
        let at = at % characters.len();
        prop_assume!(characters[at] != new);
        characters[at] = new;
        let changed: String = characters.into_iter().collect();
        prop_assert_ne!(JobName::parse(&changed), Ok(name));
    }
}

#[test]
fn malformed_names_say_what_was_expected() {
    let hex = "0".repeat(32);
    let cases = [
        "keys/00".to_owned(),
        "tenants/acme".to_owned(),
        "tenants/acme/keys".to_owned(),
        format!("tenants/acme/keys/{hex}/"),
        format!("tenants/acme/keys/{hex}0"),
        format!("tenants/acme/keys/{}", "A".repeat(32)),
        format!("tenants/acme/jobs/{hex}"),
        format!("/tenants/acme/keys/{hex}"),
        format!("tenants//keys/{hex}"),
        format!("tenants/ACME/keys/{hex}"),
        format!("tenants/../keys/{hex}"),
        format!("tenants/{}/keys/{hex}", "a".repeat(64)),
        "x".repeat(1_000_000),
    ];
    for text in cases {
        let error = KeyName::parse(&text).unwrap_err();
        assert_eq!(error.reason(), NAME_INVALID, "{text}");
        assert!(error.message().len() < 1024);
    }
    assert_eq!(KeyName::parse("").unwrap_err().reason(), FIELD_MISSING);
    let error = OutputName::parse("tenants/acme/jobs/x/outputs/0").unwrap_err();
    assert!(error.message().contains("tenants/{tenant}/jobs/{UUID}/outputs/{index}"), "{error}");
    let job = Uuid::from_bytes([0xab; 16]);
    for index in ["", "-1", "+1", "01", "4294967296", "1 ", "x"] {
        assert!(OutputName::parse(&format!("tenants/acme/jobs/{job}/outputs/{index}")).is_err(), "{index}");
    }
    assert!(JobName::parse(&format!("tenants/acme/jobs/{}", job.simple())).is_err());
    assert!(JobName::parse(&format!("tenants/acme/jobs/{}", job.to_string().to_uppercase())).is_err());
    assert!(JobName::parse(&format!("tenants/acme/jobs/{job}")).is_ok());
}

#[test]
fn foreign_names_get_the_same_answer_whatever_they_name() {
    let me = caller(&Tenant::new("me").unwrap());
    let answers = [[0; 16], [1; 16]].map(|key_id| {
        let name = KeyName { tenant: Tenant::new("you").unwrap(), key_id };
        KeyName::parse_own(&name.to_string(), &me).unwrap_err()
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].reason(), WRONG_TENANT);
    assert_eq!(answers[0].reason().grpc, crate::error::KEY_NOT_FOUND.grpc);
}

#[test]
fn the_workers_tenant_cannot_be_named() {
    assert!(Tenant::new(Tenant::workers().as_str()).is_err());
    assert!(Tenant::new(Tenant::local().as_str()).is_ok());
}

#[test]
fn request_ids() {
    let good = "7f0c2a52-5d0d-4d8e-9c57-0d6e4d8a4b11";
    assert_eq!(request_id(good).unwrap().to_string(), good);
    for bad in [
        "",
        "1",
        "7f0c2a525d0d4d8e9c570d6e4d8a4b11",
        "00000000-0000-0000-0000-000000000000",
        "{7f0c2a52-5d0d-4d8e-9c57-0d6e4d8a4b11}",
    ] {
        assert_eq!(request_id(bad).unwrap_err().reason(), REQUEST_ID_INVALID, "{bad}");
    }
}
