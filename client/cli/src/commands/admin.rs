//! `cloakwork admin`: the calls of operators.

mod activity;
mod names;
mod tenants;
mod tokens;
mod usage;
mod workers;

use clap::{Arg, builder::NonEmptyStringValueParser};
use cloakwork_client::{ClientError, Code, Operator};

use crate::{
    commands::jobs::State,
    context::Context,
    failure::Failure,
    global::{DEFAULT_OPERATOR_SERVER, OPERATOR_SERVER_VARIABLE},
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the pools of the server that answers, with their backlogs.
    Pools,
    /// List the workers that are attached to the server that answers.
    Workers,
    /// Give a worker no further jobs. The worker ends the jobs that it has.
    ///
    /// The worker stays attached. `admin resume` gives it jobs again.
    Drain {
        /// Id of the worker, or its name if no other worker has that name.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        worker: String,
        /// Return when the worker holds no job, or has left.
        #[arg(long)]
        wait: bool,
    },
    /// Give a drained worker jobs again.
    Resume {
        /// Id of the worker, or its name if no other worker has that name.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        worker: String,
    },
    /// List, create, limit, revoke and delete tenants.
    #[command(subcommand)]
    Tenants(tenants::Command),
    /// List, create and revoke tokens.
    #[command(subcommand)]
    Tokens(tokens::Command),
    /// List the jobs of all tenants or of one, newest first.
    Jobs {
        /// Only jobs of this tenant.
        #[arg(long, value_parser = names::tenant)]
        tenant: Option<String>,
        /// Only jobs of the tenant in this state; may be repeated.
        #[arg(long, requires = "tenant")]
        state: Vec<State>,
        /// Maximum number of jobs to list.
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
    },
    Usage(usage::Args),
    /// List acts of operators and refused calls, newest first.
    Audit {
        /// Maximum number of entries to list.
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
    },
}

/// The option `--server` of these commands, which takes the place of the global one in their help.
/// `Args::of` decides which address counts.
pub(crate) fn server() -> Arg {
    Arg::new("server")
        .long("server")
        .global(true)
        .env(OPERATOR_SERVER_VARIABLE)
        .value_name("URL")
        .default_value(DEFAULT_OPERATOR_SERVER)
        .help("Address of the server's port for operators; https:// for TLS")
        .help_heading("Options of every command")
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let operator = context.operator()?;
    let done = call(context, &operator, command).await;
    done.map_err(|failure| explained(&context.global.server, failure))
}

async fn call(context: &Context, operator: &Operator, command: Command) -> Result<(), Failure> {
    let json = context.global.json;
    match command {
        Command::Pools => workers::pools(operator, json).await,
        Command::Workers => workers::list(operator, json).await,
        Command::Drain { worker, wait } => workers::drain(context, operator, &worker, wait).await,
        Command::Resume { worker } => workers::resume(operator, &worker, json).await,
        Command::Tenants(command) => tenants::run(operator, command, json).await,
        Command::Tokens(command) => tokens::run(operator, command, json).await,
        Command::Jobs { tenant, state, limit } => {
            activity::jobs(operator, tenant.as_deref(), &state, limit, json).await
        }
        Command::Usage(args) => usage::run(operator, args, json).await,
        Command::Audit { limit } => activity::audit(operator, limit, json).await,
    }
}

/// Adds advice that fits the port of operators.
fn explained(server: &str, failure: Failure) -> Failure {
    let (error, before) = match failure {
        Failure::Client(error) => (error, None),
        Failure::Advised { error, advice } => (error, Some(advice)),
        other => return other,
    };
    let also = |advice: String| match before.clone() {
        Some(before) => format!("{before}\n{advice}"),
        None => advice,
    };
    if let ClientError::Transport { problem } = &error {
        let transport = match server.starts_with("https:") {
            true => "--ca names the authority of its certificate if that authority is not public",
            false => "the address of a server with TLS begins with https://",
        };
        let advice = format!(
            "Is a server with listen.operator_address running there? --server, or {OPERATOR_SERVER_VARIABLE}, names \
             another; {transport}"
        );
        return Failure::Unreachable(format!("cannot reach {server}: {problem}\n{}", also(advice)));
    }
    let advice = match error.refusal().map(|refusal| refusal.code) {
        Some(Code::Unimplemented) => format!(
            "This is the port of tenants, or a server of an earlier version: --server, or {OPERATOR_SERVER_VARIABLE}, \
             names the port of operators, which is listen.operator_address of the server"
        ),
        Some(Code::Unauthenticated) => format!("Set CLOAKWORK_TOKEN to a token of an operator; {CREATE_TOKEN}"),
        Some(Code::PermissionDenied) => format!("The token needs the scope admin; {CREATE_TOKEN}"),
        _ => {
            return match before {
                Some(advice) => Failure::Advised { error, advice },
                None => Failure::Client(error),
            };
        }
    };
    Failure::Advised { error, advice: also(advice) }
}

/// How an operator gets the first token.
const CREATE_TOKEN: &str =
    "on the server's machine, `cloakwork-server token create --tenant TENANT --scopes admin` creates one";

/// The failure of a change. After a break, the server may have made the change, and `look` is a
/// command that shows it.
fn of_change(error: ClientError, look: &str) -> Failure {
    if error.is_break() || error == ClientError::Timeout {
        let advice = format!("The change was made if the call arrived: `cloakwork admin {look}` shows it");
        return Failure::Advised { error, advice };
    }
    error.into()
}

/// The size of the pages of a list that is cut off at a limit, so that the server sends no more.
fn page_size(limit: usize) -> i32 {
    i32::try_from(limit).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_about_a_broken_change_names_the_command_that_shows_it() {
        let broken = ClientError::Transport { problem: "connection reset".into() };
        let failure = explained("http://127.0.0.1:7272", of_change(broken, "tokens ls"));
        let text = failure.to_string();
        assert_eq!(failure.exit_code(), 5);
        assert!(text.starts_with("cannot reach http://127.0.0.1:7272: connection reset\n"), "{text}");
        assert!(
            text.contains("`cloakwork admin tokens ls` shows it\nIs a server with listen.operator_address"),
            "{text}"
        );
        let late = explained("https://a:7272", of_change(ClientError::Timeout, "tenants ls")).to_string();
        assert!(late.contains("`cloakwork admin tenants ls`"), "{late}");
    }

    #[test]
    fn pages_are_no_longer_than_the_list() {
        assert_eq!([0, 7, usize::MAX].map(page_size), [0, 7, 0]);
    }
}
