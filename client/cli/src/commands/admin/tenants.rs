//! `cloakwork admin tenants`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead, IsTerminal as _},
};

use cloakwork_client::{
    Operator,
    proto::{Tenant, TenantLimit},
};
use futures_util::TryStreamExt as _;
use serde_json::{Value, json};

use super::{names, of_change};
use crate::{
    failure::Failure,
    output::{Table, bytes, counted, show, time},
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List all tenants.
    Ls,
    /// Create a tenant.
    Create {
        /// Name of the tenant: 1 to 63 of a-z, 0-9 and '-'.
        #[arg(value_parser = names::tenant)]
        name: String,
        /// Shard of the tenant; by default, the shard with the fewest tenants.
        #[arg(long, value_name = "N")]
        shard: Option<i32>,
    },
    /// Revoke a tenant and all its tokens for good. The tenant's stored data stays.
    Revoke {
        /// Name of the tenant.
        #[arg(value_parser = names::tenant)]
        name: String,
    },
    /// Delete a tenant with everything that it has: keys, ciphertexts, programs, jobs and tokens.
    ///
    /// The command asks for the tenant's name on a terminal, and needs --yes elsewhere. The call
    /// returns at once. `admin tenants ls` lists the tenant until nothing is left.
    Delete {
        /// Name of the tenant.
        #[arg(value_parser = names::tenant)]
        name: String,
        /// Delete without a question.
        #[arg(long)]
        yes: bool,
    },
    /// Show or change the limits that a tenant has of its own.
    ///
    /// Limits that are neither set nor unset stay.
    Limits {
        /// Name of the tenant.
        #[arg(value_parser = names::tenant)]
        name: String,
        /// Limit to set, as in docs/limits.md; may be repeated.
        #[arg(long, value_name = "LIMIT=VALUE", value_parser = setting)]
        set: Vec<(String, u64)>,
        /// Limit to remove, so that the server's own counts; may be repeated.
        #[arg(long, value_name = "LIMIT")]
        unset: Vec<String>,
    },
}

pub(super) async fn run(operator: &Operator, command: Command, json: bool) -> Result<(), Failure> {
    match command {
        Command::Ls => list(operator, json).await,
        Command::Create { name, shard } => {
            let created = operator.create_tenant(&name, shard).await;
            created.map_err(|error| of_change(error, LOOK))?;
            done(json, &name, "created")
        }
        Command::Revoke { name } => {
            let revoked = operator.revoke_tenant(&names::of_tenant(&name)).await;
            revoked.map_err(|error| of_change(error, LOOK))?;
            done(json, &name, "revoked, with all its tokens")
        }
        Command::Delete { name, yes } => {
            if !yes {
                let tenant = found(operator, &name).await?;
                confirm(&tenant, &name)?;
            }
            let deleted = operator.delete_tenant(&names::of_tenant(&name)).await;
            deleted.map_err(|error| of_change(error, LOOK))?;
            done(json, &name, "is being deleted; `cloakwork admin tenants ls` lists it until nothing is left")
        }
        Command::Limits { name, set, unset } => limits(operator, &name, &set, &unset, json).await,
    }
}

/// The command that shows what became of a change.
const LOOK: &str = "tenants ls";

fn done(json: bool, tenant: &str, what: &str) -> Result<(), Failure> {
    let name = names::of_tenant(tenant);
    show(json, || json!({ "tenant": name }), || format!("{name}: {what}\n"))
}

async fn list(operator: &Operator, json: bool) -> Result<(), Failure> {
    let tenants: Vec<Tenant> = operator.tenants().try_collect().await?;
    let document = || json!({ "tenants": tenants.iter().map(document).collect::<Vec<_>>() });
    show(json, document, || table(&tenants))
}

/// The tenant of this name.
async fn found(operator: &Operator, tenant: &str) -> Result<Tenant, Failure> {
    let name = names::of_tenant(tenant);
    let mut tenants = operator.tenants();
    while let Some(tenant) = tenants.try_next().await? {
        if tenant.name == name {
            return Ok(tenant);
        }
    }
    Err(Failure::NotFound(format!("there is no tenant '{tenant}': `cloakwork admin tenants ls` lists all tenants")))
}

/// Asks the user on the terminal, and fails unless the answer is the tenant's name.
fn confirm(tenant: &Tenant, name: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::Usage(format!(
            "{}: nothing is deleted: a deletion without a terminal needs --yes",
            names::of_tenant(name)
        )));
    }
    eprint!(
        "This deletes tenant {name} with {}, {} of stored data, and all its jobs and tokens.\nIts name, to confirm: ",
        counted(tenant.keys, "key"),
        bytes(tenant.stored_bytes)
    );
    answered(&mut io::stdin().lock(), name)
}

fn answered(input: &mut impl BufRead, name: &str) -> Result<(), Failure> {
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    match answer.trim() == name {
        true => Ok(()),
        false => Err(Failure::Usage(format!("that is not the tenant's name: {} stays", names::of_tenant(name)))),
    }
}

async fn limits(
    operator: &Operator,
    tenant: &str,
    set: &[(String, u64)],
    unset: &[String],
    json: bool,
) -> Result<(), Failure> {
    check_names(set, unset)?;
    let limits = if set.is_empty() && unset.is_empty() {
        found(operator, tenant).await?.limits
    } else {
        let set = set.iter().map(|(name, value)| TenantLimit { name: name.clone(), value: *value }).collect();
        let changed = operator.set_tenant_limits(&names::of_tenant(tenant), set, unset.to_vec()).await;
        changed.map_err(|error| of_change(error, &format!("tenants limits {tenant}")))?
    };
    let limits = by_name(&limits);
    let document = || json!({ "tenant": names::of_tenant(tenant), "limits": limits });
    show(json, document, || limit_table(tenant, &limits))
}

/// Refuses a limit that is named twice, because the last place would win in silence.
fn check_names(set: &[(String, u64)], unset: &[String]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    match set.iter().map(|(name, _)| name).chain(unset).find(|name| !seen.insert(*name)) {
        Some(name) => Err(Failure::Usage(format!("{name} is named twice: set or unset a limit once"))),
        None => Ok(()),
    }
}

/// Reads `LIMIT=VALUE`.
fn setting(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("expected LIMIT=VALUE, such as tenant_bytes=1000000000")?;
    if name.is_empty() {
        return Err("expected the name of a limit before '='".to_owned());
    }
    let value = value.parse().map_err(|_| format!("the value of {name} is a whole number from 0 on"))?;
    Ok((name.to_owned(), value))
}

fn by_name(limits: &[TenantLimit]) -> BTreeMap<String, u64> {
    limits.iter().map(|limit| (limit.name.clone(), limit.value)).collect()
}

fn limit_table(tenant: &str, limits: &BTreeMap<String, u64>) -> String {
    if limits.is_empty() {
        return format!("{} has no limits of its own: those of the server apply\n", names::of_tenant(tenant));
    }
    let mut table = Table::new(["value", "limit"]);
    for (name, value) in limits {
        table.row([value.to_string(), name.clone()]);
    }
    table.render()
}

fn table(tenants: &[Tenant]) -> String {
    let mut table = Table::new(["tenant", "shard", "state", "created", "keys", "stored", "limits"]);
    for tenant in tenants {
        let limits: Vec<String> =
            by_name(&tenant.limits).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        table.row([
            names::id(&tenant.name).to_owned(),
            tenant.shard.to_string(),
            state(tenant).to_owned(),
            time(tenant.create_time.as_ref()),
            tenant.keys.to_string(),
            bytes(tenant.stored_bytes),
            limits.join(" "),
        ]);
    }
    table.render()
}

fn state(tenant: &Tenant) -> &'static str {
    match (&tenant.delete_time, &tenant.revoke_time) {
        (Some(_), _) => "deleting",
        (None, Some(_)) => "revoked",
        (None, None) => "active",
    }
}

/// The tenant as a JSON document with stable fields; times in seconds since 1970.
fn document(tenant: &Tenant) -> Value {
    json!({
        "name": tenant.name,
        "state": state(tenant),
        "shard": tenant.shard,
        "create_time": tenant.create_time.as_ref().map(|time| time.seconds),
        "revoke_time": tenant.revoke_time.as_ref().map(|time| time.seconds),
        "delete_time": tenant.delete_time.as_ref().map(|time| time.seconds),
        "keys": tenant.keys,
        "stored_bytes": tenant.stored_bytes,
        "limits": by_name(&tenant.limits),
    })
}

#[cfg(test)]
mod tests {
    use cloakwork_client::Timestamp;

    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant {
            name: format!("tenants/{name}"),
            create_time: Some(Timestamp { seconds: 1_769_860_800, nanos: 0 }),
            shard: 1,
            stored_bytes: 1_200_000_000,
            keys: 3,
            ..Tenant::default()
        }
    }

    #[test]
    fn tenants_have_a_table_and_documents() {
        let limit = |name: &str, value| TenantLimit { name: name.into(), value };
        let limited = Tenant { limits: vec![limit("tenant_keys", 7), limit("a", 1)], ..tenant("acme") };
        let at = Some(Timestamp { seconds: 5, nanos: 0 });
        let revoked = Tenant { revoke_time: at, ..tenant("x\u{202e}y\nz") };
        let deleting = Tenant { delete_time: at, ..revoked.clone() };
        let text = "\
tenant         shard  state                 created  keys   stored  limits
acme               1  active   2026-01-31T12:00:00Z     3  1.20 GB  a=1 tenant_keys=7
x\\u{202e}y\\nz      1  revoked  2026-01-31T12:00:00Z     3  1.20 GB
";
        assert_eq!(table(&[limited.clone(), revoked.clone()]), text);
        assert_eq!([&limited, &revoked, &deleting].map(state), ["active", "revoked", "deleting"]);
        let shown = document(&limited);
        assert_eq!(shown["limits"], json!({ "tenant_keys": 7, "a": 1 }));
        assert_eq!((&shown["create_time"], &shown["revoke_time"]), (&json!(1_769_860_800), &Value::Null));
    }

    #[test]
    fn a_limit_is_set_or_unset_once() {
        let set = [("b".to_owned(), 5), ("c".to_owned(), 6)];
        for (set, unset) in [(&[set[0].clone(), set[0].clone()][..], &[][..]), (&set[..1], &["b".to_owned()])] {
            assert_eq!(check_names(set, unset).expect_err("twice").exit_code(), 2);
        }
        check_names(&set, &["a".to_owned()]).expect("different limits");
    }

    #[test]
    fn limits_are_listed_by_name() {
        let limit = |name: &str, value| TenantLimit { name: name.into(), value };
        let limits = by_name(&[limit("c", 6), limit("b", 5)]);
        assert_eq!(limit_table("t", &limits), "value  limit\n    5  b\n    6  c\n");
        assert!(limit_table("t", &BTreeMap::new()).contains("no limits of its own"));
    }

    #[test]
    fn limits_are_read_with_their_values() {
        assert_eq!(setting("tenant_bytes=0"), Ok(("tenant_bytes".into(), 0)));
        assert_eq!(setting(&format!("a={}", u64::MAX)), Ok(("a".into(), u64::MAX)));
        for wrong in ["", "a", "=1", "a=", "a=-1", "a=1.5", "a=1k", "a=18446744073709551616"] {
            setting(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn only_the_name_confirms_a_deletion() {
        for (line, is_confirmed) in
            [("acme\n", true), (" acme \r\n", true), ("y\n", false), ("", false), ("acm", false)]
        {
            assert_eq!(answered(&mut line.as_bytes(), "acme").is_ok(), is_confirmed, "{line:?}");
        }
    }
}
