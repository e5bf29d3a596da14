//! The command-line arguments, and the manual that `--help` prints.

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, parser::ValueSource};

use crate::{
    commands::{
        admin, anchor, bench, ckks, completions, demo, eval, gate, jobs, keygen, keys, pbs, sets, top, uploads,
    },
    context::Context,
    failure::Failure,
    global::{DEFAULT_OPERATOR_SERVER, Global, OPERATOR_SERVER_VARIABLE},
};

/// Compute on encrypted data with a Cloakwork server.
///
/// Keys are made on this machine, and the secret key stays here. The server gets evaluation keys
/// and ciphertexts, computes on data that it cannot read, and returns ciphertexts. Only the secret
/// key decrypts the results.
#[derive(Debug, Parser)]
#[command(name = "cloakwork", version, max_term_width = 100, after_help = AFTER_HELP, subcommand_required = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands with arguments take their help from their `Args` type. A comment on the variant would
/// hide that help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Keygen(keygen::Args),
    /// Upload, list, show and delete evaluation keys.
    #[command(subcommand)]
    Keys(keys::Command),
    /// Work with CKKS, arithmetic on encrypted approximate numbers: keys, ciphertexts and results.
    #[command(subcommand)]
    Ckks(ckks::Command),
    Eval(eval::Args),
    Pbs(pbs::Args),
    Gate(gate::Args),
    /// List, show, follow and cancel jobs.
    #[command(subcommand)]
    Jobs(jobs::Command),
    /// Pin, list and remove anchors: the installations whose results you take.
    #[command(subcommand)]
    Anchor(anchor::Command),
    /// List unfinished uploads, and abort them.
    #[command(subcommand)]
    Uploads(uploads::Command),
    /// List the parameter sets that the server serves, with their security and failure figures.
    Sets,
    Bench(bench::Args),
    Top(top::Args),
    Demo(demo::Args),
    /// Operate a server: pools, workers, tenants, tokens, jobs, usage and the audit log.
    ///
    /// The calls go to the port of operators (listen.operator_address of the server), and need a
    /// token with the scope `admin`. Pools and workers are those of the server that answers.
    #[command(subcommand, arg = admin::server())]
    Admin(admin::Command),
    Completions(completions::Args),
}

const AFTER_HELP: &str = "\
Examples:
  cloakwork keygen                                  make keys in ./cloakwork-keys
  cloakwork keys push                               upload the evaluation key
  cloakwork eval 'max(x, y) * 3' x=u64:7 y=u64:9    compute under encryption
  cloakwork pbs --fn square --values 1,2,3          squares, with one bootstrap each
  cloakwork pbs --expr 'x*y % 4' --values 1,2 --values2 3,2
  cloakwork ckks keygen --out numbers               keys for approximate numbers
  cloakwork jobs show JOB                           the time of each stage
  cloakwork --json jobs ls | jq .jobs
  cloakwork admin usage --format csv                what tenants used, for an operator

Exit codes:
  0  done
  1  any other failure
  2  wrong arguments: an impossible computation, or a missing file
  3  not found on the server: a key, job or ciphertext, or a worker or tenant of an operator
  4  refused by the server, or invalid: a damaged file, or a file that is no ciphertext or public key
  5  the server cannot be reached, or did not answer in time
  6  overloaded, or over a quota
  7  the job failed or was cancelled, or a result was wrong, or too large to decrypt
  8  unusable keys in the directory, or a ciphertext of another key
130  interrupted during a job, its results or `admin drain --wait`; the output says what goes on";

impl Args {
    /// The arguments of the process. Wrong ones end the process.
    pub(crate) fn of_process() -> Self {
        let environment = std::env::var(OPERATOR_SERVER_VARIABLE).ok();
        Self::of(&Self::command().get_matches(), environment).unwrap_or_else(|error| error.exit())
    }

    /// The arguments. Operators' commands have another default address, and another variable for
    /// it. A variable that names the port of tenants must not lead them there.
    fn of(matches: &ArgMatches, operator_server: Option<String>) -> Result<Self, clap::Error> {
        let mut args = Self::from_arg_matches(matches)?;
        let is_named = matches.value_source("server") == Some(ValueSource::CommandLine);
        if matches!(args.command, Command::Admin(_)) && !is_named {
            args.global.server = operator_server.unwrap_or_else(|| DEFAULT_OPERATOR_SERVER.to_owned());
        }
        Ok(args)
    }

    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let context = Context::new(self.global);
        match self.command {
            Command::Keygen(args) => keygen::run(&context, args).await,
            Command::Ckks(command) => ckks::run(&context, command).await,
            Command::Keys(command) => keys::run(&context, command).await,
            Command::Eval(args) => eval::run(&context, args).await,
            Command::Pbs(args) => pbs::run(&context, args).await,
            Command::Gate(args) => gate::run(&context, args).await,
            Command::Jobs(command) => jobs::run(&context, command).await,
            Command::Anchor(command) => anchor::run(&context, command),
            Command::Uploads(command) => uploads::run(&context, command).await,
            Command::Sets => sets::run(&context).await,
            Command::Bench(args) => bench::run(&context, args).await,
            Command::Top(args) => top::run(&context, args).await,
            Command::Demo(args) => demo::run(&context, args).await,
            Command::Admin(command) => admin::run(&context, command).await,
            Command::Completions(args) => completions::run(&args, Self::command()),
        }
    }
}

#[cfg(test)]
mod tests;
