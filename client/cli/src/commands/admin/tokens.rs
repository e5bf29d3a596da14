//! `cloakwork admin tokens`.

use clap::ValueEnum;
use cloakwork_client::{
    ClientError, Operator,
    proto::{CreateTokenRequest, Token},
};
use futures_util::TryStreamExt as _;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{names, of_change};
use crate::{
    failure::Failure,
    output::{Table, print, show, time},
    visible::one_line,
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List tokens by their public part.
    Ls {
        /// List only the tokens of this tenant.
        #[arg(long, value_parser = names::tenant)]
        tenant: Option<String>,
    },
    /// Create a token and print it. The server keeps only its hash, and cannot show it again.
    ///
    /// The token alone is on standard output.
    Create {
        /// Tenant that the token belongs to.
        #[arg(long, value_parser = names::tenant)]
        tenant: String,
        /// Scopes of the token, separated by commas.
        #[arg(long, value_delimiter = ',', default_value = "jobs,keys,read")]
        scopes: Vec<Scope>,
        /// Days until the token expires; 0 for no expiry.
        #[arg(long, value_name = "DAYS", default_value_t = 90)]
        days: u32,
        /// Purpose of the token, shown by `admin tokens ls`.
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Revoke a token. Servers refuse it within seconds.
    Revoke {
        /// Public part of the token: the twelve digits after `cw_`.
        id: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    Jobs,
    Keys,
    Read,
    Worker,
    Admin,
}

pub(super) async fn run(operator: &Operator, command: Command, json: bool) -> Result<(), Failure> {
    match command {
        Command::Ls { tenant } => list(operator, tenant, json).await,
        Command::Create { tenant, scopes, days, note } => {
            let parent = names::of_tenant(&tenant);
            create(operator, CreateTokenRequest { parent, scopes: names_of(&scopes), days, note }, &tenant, json).await
        }
        Command::Revoke { id } => {
            let name = resource_name(&id)?;
            operator.revoke_token(&name).await.map_err(|error| of_change(error, "tokens ls"))?;
            show(json, || json!({ "token": name }), || format!("{name}: revoked\n"))
        }
    }
}

async fn list(operator: &Operator, tenant: Option<String>, json: bool) -> Result<(), Failure> {
    let parent = tenant.as_deref().map(names::of_tenant).unwrap_or_default();
    let tokens: Vec<Token> = operator.tokens(&parent).try_collect().await?;
    show(json, || json!({ "tokens": tokens.iter().map(document).collect::<Vec<_>>() }), || table(&tokens))
}

async fn create(operator: &Operator, request: CreateTokenRequest, tenant: &str, json: bool) -> Result<(), Failure> {
    let look = format!("tokens ls --tenant {tenant}");
    let made = operator.create_token(request).await.map_err(|error| of_change(error, &look))?;
    let (token, secret) = (made.token.unwrap_or_default(), Zeroizing::new(made.secret));
    let shown = one_line(names::id(&token.name));
    // A token travels in a header. A text with other characters is no token, and could steer the
    // terminal.
    if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("a token {shown} with characters that a token cannot have");
        return Err(ClientError::Malformed { what }.into());
    }
    let printed = if json {
        show(true, || json!({ "token": document(&token), "secret": *secret }), String::new)
    } else {
        eprintln!("Created a token with the public part {shown}. Store it now: it cannot be shown again.");
        print(&format!("{}\n", *secret))
    };
    printed.map_err(|failure| failure.advised(format!("This revokes the token: cloakwork admin tokens revoke {shown}")))
}

/// The resource name of a token. The error leaves the text out, which may be a whole token.
fn resource_name(text: &str) -> Result<String, Failure> {
    let id = text.strip_prefix("tokens/").unwrap_or(text);
    let id = id.strip_prefix("cw_").unwrap_or(id);
    match id.len() == 12 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        true => Ok(format!("tokens/{id}")),
        false => Err(Failure::Usage(
            "the id of a token is its public part, the twelve digits after `cw_`: `cloakwork admin tokens ls` lists \
             them"
                .into(),
        )),
    }
}

fn names_of(scopes: &[Scope]) -> Vec<String> {
    let is_wanted = |scope: &&Scope| scopes.contains(scope);
    let wanted = Scope::value_variants().iter().filter(is_wanted);
    wanted.filter_map(|scope| Some(scope.to_possible_value()?.get_name().to_owned())).collect()
}

fn table(tokens: &[Token]) -> String {
    let mut table = Table::new(["token", "tenant", "scopes", "created", "expires", "revoked", "last used", "note"]);
    for token in tokens {
        let times = [&token.create_time, &token.expire_time, &token.revoke_time, &token.last_use_time];
        let [created, expires, revoked, used] = times.map(|at| time(at.as_ref()));
        table.row([
            names::id(&token.name).to_owned(),
            token.tenant.clone(),
            token.scopes.join(","),
            created,
            expires,
            revoked,
            used,
            token.note.clone(),
        ]);
    }
    table.render()
}

/// The token as a JSON document with stable fields; times in seconds since 1970.
fn document(token: &Token) -> Value {
    json!({
        "name": token.name,
        "tenant": token.tenant,
        "scopes": token.scopes,
        "note": token.note,
        "create_time": token.create_time.as_ref().map(|time| time.seconds),
        "expire_time": token.expire_time.as_ref().map(|time| time.seconds),
        "revoke_time": token.revoke_time.as_ref().map(|time| time.seconds),
        "last_use_time": token.last_use_time.as_ref().map(|time| time.seconds),
    })
}

#[cfg(test)]
mod tests {
    use cloakwork_client::Timestamp;

    use super::*;

    #[test]
    fn ids_are_read_in_each_form_and_errors_do_not_repeat_a_token() {
        for text in ["0123456789ab", "cw_0123456789ab", "tokens/0123456789ab"] {
            assert_eq!(resource_name(text).expect("an id"), "tokens/0123456789ab");
        }
        for wrong in ["", "0123456789AB", "0123456789a", "cw_0123456789ab_5ec2e7", "tokens/../x"] {
            let failure = resource_name(wrong).expect_err(wrong);
            assert!(failure.exit_code() == 2 && !failure.to_string().contains("5ec2e7"), "{failure}");
        }
    }

    #[test]
    fn scopes_are_sent_once_each() {
        assert_eq!(names_of(&[Scope::Read, Scope::Jobs, Scope::Read]), ["jobs", "read"]);
        assert_eq!(names_of(Scope::value_variants()), ["jobs", "keys", "read", "worker", "admin"]);
    }

    #[test]
    fn tokens_have_a_table_and_documents() {
        let token = Token {
            name: "tokens/0123456789ab".into(),
            tenant: "acme".into(),
            scopes: vec!["jobs".into(), "read".into()],
            note: "nightly\u{7}".into(),
            create_time: Some(Timestamp { seconds: 1_769_860_800, nanos: 0 }),
            ..Token::default()
        };
        let text = table(std::slice::from_ref(&token));
        let cells: Vec<&str> = text.lines().nth(1).expect("a row").split_whitespace().collect();
        let expected = ["0123456789ab", "acme", "jobs,read", "2026-01-31T12:00:00Z", "-", "-", "-", r"nightly\u{7}"];
        assert_eq!(cells, expected);
        let shown = document(&token);
        assert_eq!((&shown["scopes"], &shown["expire_time"]), (&json!(["jobs", "read"]), &Value::Null));
    }
}
